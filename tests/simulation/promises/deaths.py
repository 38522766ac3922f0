"""Which errors may end a processor: whatever else it dies of is a violation."""

from typing import TYPE_CHECKING

from minutebook.errors import BufferTooOld, DeliveryDoubt, MinutebookError, SafetyRefusal, StoreRefused
from tests.simulation.promises.withheld import is_refused_for_stray
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.histories.history import History
    from tests.simulation.services.kcl import Consumer


def judge_death(history: "History", consumer: "Consumer", *, healthy: bool) -> None:
    """Judge the error of a processor that is dead; `healthy` ones meet no faults.

    Raises:
        Violation: it had no cause to die of it.
    """
    error = consumer.task.error
    if error is None:
        return
    world, name = history.world, consumer.host.name
    world.note(name, f"dies in {consumer.pending_message}: {type(error).__name__}: {error}")
    world.tally[f"died of: {type(error).__name__}"] += 1
    if not isinstance(error, MinutebookError):
        raise Violation(f"{name} died of {type(error).__name__}: {error}") from error
    if not _has_cause(history, error, consumer, healthy=healthy):
        raise Violation(f"{name} died of {type(error).__name__} without cause: {error}") from error


def _has_cause(history: "History", error: MinutebookError, consumer: "Consumer", *, healthy: bool) -> bool:
    scenario, pending = history.scenario, consumer.pending_message
    if isinstance(error, DeliveryDoubt):
        overtaken = scenario.trims and consumer.shard.trimmed > 0 and pending == "processRecords"
        return consumer.orphan or overtaken or history.site_of(consumer).recreated
    if isinstance(error, SafetyRefusal):
        ledger = history.site_of(consumer).ledger
        return history.refusal_is_right(consumer) or is_refused_for_stray(consumer, ledger)
    if isinstance(error, StoreRefused):
        return history.may_have_lost_table(consumer)
    if healthy or type(error) not in scenario.errors:
        return False
    # A wall clock that steps ahead looks like a pause.
    most_seconds = history.world.now - consumer.began_at + consumer.host.ahead_seconds
    return not isinstance(error, BufferTooOld) or most_seconds > consumer.settings.max_segment_age_seconds
