"""The end of a history: a last healthy processor drains the shard while zombies wake up around it."""

from typing import TYPE_CHECKING, Final

from minutebook.errors import DeliveryDoubt
from tests.fakes.daemon_double import SHARD_END
from tests.simulation.histories.site import Site
from tests.simulation.promises.nightly import NightlyAudit
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulation.histories.history import History
    from tests.simulation.services.kcl import Consumer

_DAY_SECONDS: Final = 86_400
_SUCCESSORS: Final = 3
"""So often a processor is started before the history counts as stopped: the second one may adopt."""


def drain(history: "History") -> bool:
    """Let a healthy processor read to the end, then let everything else come to its end; True when it succeeded."""
    site = history.owner or history.sites[0]
    flying = history.bucket.flying
    while flying and history.rng.random() < 0.7:
        history.bucket.land(history.rng.randrange(len(flying)))
    wake(history, 0.4)
    for other in history.sites:
        other.stream.fault_rate = 0
    done = False
    if not site.recreated and site.start != "latest":
        done = send_successors(history, site, adopt_at_once=history.scenario.adopts_at_start)
    for consumer in list(history.consumers):
        if consumer in history.consumers:
            finish(history, consumer)
    while flying:
        history.bucket.land(0)
    return done


def send_successors(history: "History", site: Site, *, adopt_at_once: bool = False) -> bool:
    """Let healthy processors start until one has read the shard to its end; True when one could.

    Raises:
        Violation: each of them doubts what it is delivered, and so would every one after them.
    """
    doubts = 0
    for number in range(_SUCCESSORS):
        if _send_successor(history, site, adopt=adopt_at_once or number > 0):
            return True
        doubts += isinstance(history.last_error, DeliveryDoubt)
    if doubts == _SUCCESSORS and not site.recreated:
        raise Violation(f"no processor gets any further: {history.last_error}")
    return False


def _send_successor(history: "History", site: Site, *, adopt: bool) -> bool:
    history.last_error = None
    if site.lease.checkpoint == SHARD_END:
        return True
    site.ledger.accepts_gap = adopt
    successor = history.start(site, settings=history.settings(adopt=adopt), healthy=True)
    if successor is None:
        return False
    while not successor.task.dead and successor.waiting():
        history.deliver(successor, history.rng.choice((1, 3, 10, None)), healthy=True)
        history.world.now += 1
        wake(history, 0.1)
    history.last_error = successor.task.error
    if successor.task.dead:
        return False
    history.give(successor, "shardEnded" if successor.shard.closed else "shutdownRequested", healthy=True)
    return successor.task.error is None


def audit(history: "History", sites: "Sequence[Site]") -> None:
    """Wait until the days of a history are over, and audit each; now and then somebody reads on after midnight."""
    if any(site.ledger.beyond_promise for site in sites):
        return
    world = history.world
    world.now += _DAY_SECONDS - world.now % _DAY_SECONDS + 900
    if history.seed % 2:
        for site in sites:
            _watch(history, site)
    world.now += 900
    NightlyAudit(history, sites).count()


def _watch(history: "History", site: Site) -> None:
    """Let a healthy processor look on, so that the day before can be proven."""
    watchman = history.start(site, settings=history.settings(adopt=False), healthy=True)
    for count in (None, 0, 0):
        if watchman is not None and watchman in history.consumers:
            history.deliver(watchman, count, healthy=True)
            history.world.now += 1
    if watchman is not None and watchman in history.consumers:
        history.give(watchman, "shutdownRequested", healthy=True)


def wake(history: "History", share: float) -> None:
    """Let some processors that were held up work on, without being held up again."""
    for consumer in list(history.consumers):
        if not consumer.idle and history.rng.random() < share:
            consumer.host.holdup = 0
            history.go_on(consumer)


def finish(history: "History", consumer: "Consumer") -> None:
    """Let a zombie finish what it does, read on, and stop."""
    consumer.host.holdup = 0
    if not consumer.idle:
        history.go_on(consumer)
    if consumer not in history.consumers or not consumer.opened or consumer.leaving:
        return
    if history.is_readable(consumer):
        history.deliver(consumer, None)
    if consumer in history.consumers:
        history.give(consumer, "shutdownRequested")
