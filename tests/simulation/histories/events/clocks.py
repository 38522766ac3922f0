"""Time passes, clocks step, and retention does its work."""

from typing import TYPE_CHECKING, Final

from tests.simulation.histories.events.services import expire
from tests.simulation.services.kinesis import HOUR

if TYPE_CHECKING:
    from tests.simulation.histories.history import History
    from tests.simulation.services.kcl import Consumer


def time(history: "History") -> None:
    """A moment passes."""
    pass_time(history, history.rng.choice((1, 3, 6, 20)))


def minute(history: "History") -> None:
    """A minute or some pass."""
    pass_time(history, history.rng.choice((40, 61, 66, 200)))
    history.world.tally["clock: minutes pass"] += 1


def suspend(history: "History") -> None:
    """All machines sleep beyond the age of a buffer."""
    pass_time(history, history.rng.choice((850, 1000, 5000)))
    history.world.happened("clock: a suspend")


def days(history: "History") -> None:
    """An outage longer than the retention."""
    site = history.sites[0]
    pass_time(history, history.rng.choice((1.0, 1.1, 1.5, 4.0)) * site.stream.retention_hours * HOUR + 30)
    history.world.happened("clock: an outage longer than the retention")
    if history.rng.random() < 0.6:
        expire(history)


def trim(history: "History") -> None:
    """An outage until retention has taken a part of what is held."""
    shard = history.sites[0].stream.shard
    if shard.trimmed == len(shard.everything):
        return
    last = history.rng.randrange(shard.trimmed, len(shard.everything))
    until = shard.put_at[last] + history.sites[0].stream.retention_hours * HOUR + 0.001
    if until > history.world.now:
        pass_time(history, until - history.world.now)
        history.world.happened("clock: an outage until a part is trimmed")


def edge(history: "History") -> None:
    """An outage until retention is about to take what is held."""
    shard = history.sites[0].stream.shard
    if shard.trimmed == len(shard.everything):
        return
    until = shard.put_at[shard.trimmed] + history.sites[0].stream.retention_hours * HOUR
    until -= history.rng.choice((5, 100, 400, 1100, 1300, 2000))
    if until > history.world.now:
        pass_time(history, until - history.world.now)
        history.world.happened("clock: an outage almost as long as the retention")


def jump(history: "History") -> None:
    """A wall clock steps."""
    consumer = history.pick()
    if consumer is not None:
        seconds = history.rng.choice(history.scenario.jumps)
        consumer.host.skew += seconds
        consumer.host.ahead_seconds += max(0, seconds)
        history.world.happened("clock: a wall clock jumps", consumer.host.name)


def pause(history: "History") -> None:
    """A virtual machine is paused, or works on, or its wall clock is set at last."""
    paused = [consumer for consumer in history.consumers if consumer.host.is_paused]
    if paused and history.rng.random() < 0.3:
        history.rng.choice(paused).host.end_pause()
    else:
        pause_machine(history)


def pause_machine(history: "History") -> "Consumer | None":
    """Pause a virtual machine, whatever it does; return its consumer, None when there is none.

    No clock of it counts the pause, until its wall clock is set: at once when it works on, or before its next pause.
    """
    consumer = history.pick()
    if consumer is None:
        return None
    consumer.host.set_clock()
    consumer.host.pause(sets_clock=history.rng.random() < 0.7)
    what = "inside a call" if not consumer.idle else "with records held" if _holds(history, consumer) else "idle"
    history.world.happened(f"clock: a machine is paused, {what}", consumer.host.name)
    return consumer


def _holds(history: "History", consumer: "Consumer") -> bool:
    """Tell whether a consumer was delivered records that nobody has archived."""
    last = consumer.shard.index.get(consumer.cursor) if consumer.cursor else None
    return last is not None and last not in history.site_of(consumer).ledger.committed


def pass_time(history: "History", seconds: float) -> None:
    """Let true time pass, and retention do its work."""
    history.world.now += seconds
    for site in history.sites:
        if history.scenario.trims:
            trimmed = site.stream.trim()
            if trimmed:
                history.world.happened("stream: retention trims", f"{trimmed} records")


EVENTS: Final = (time, minute, suspend, days, trim, edge, jump, pause)
