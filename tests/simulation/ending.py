"""The end of a history: a last healthy processor drains the shard while zombies wake up around it."""

from typing import TYPE_CHECKING, Final

from tests.fakes.daemon_double import SHARD_END
from tests.simulation.site import Site

if TYPE_CHECKING:
    from tests.simulation.history import History
    from tests.simulation.kcl import Consumer

HEIRS: Final = 3
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
        done = any(
            send_heir(history, site, adopt=history.kind.adopts_at_start or number > 0) for number in range(HEIRS)
        )
    for consumer in list(history.consumers):
        if consumer in history.consumers:
            finish(history, consumer)
    while flying:
        history.bucket.land(0)
    return done


def send_heir(history: "History", site: Site, *, adopt: bool) -> bool:
    """Let a healthy processor read a shard to its end; True when it could."""
    if site.lease.checkpoint == SHARD_END:
        return True
    heir = history.start(site, settings=history.settings(adopt=adopt), healthy=True)
    if heir is None:
        return False
    while not heir.task.dead and heir.waiting():
        history.deliver(heir, history.rng.choice((1, 3, 10, None)), healthy=True)
        history.world.now += 1
        wake(history, 0.1)
    if heir.task.dead:
        return False
    history.give(heir, "shardEnded" if heir.shard.closed else "shutdownRequested", healthy=True)
    return heir.task.error is None


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
