"""The healthy, steady shard: what it costs, counted where requests leave the processor."""

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tests.simulation.histories.site import new_settings
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.histories.history import History
    from tests.simulation.services.kcl import Consumer

_MINUTES: Final = 4
_WARM_SECONDS: Final = 600


def play_steady(history: "History") -> None:
    """One owner, no faults: after the first minutes one PUT per shard-minute, and no LIST, HEAD or GET.

    Raises:
        Violation: a request more, or less; or more checkpoints than one per interval.
    """
    world, site = history.world, history.sites[0]
    settings = replace(new_settings(history.rng, adopt=False), max_segment_bytes=10**6, flush_seconds=None)
    worker = history.start(site, settings=settings, healthy=True)
    assert worker is not None
    _let_minutes_pass(history, worker, seconds=_WARM_SECONDS - world.now % 60)
    worker.host.counts.clear()
    checkpoints = len(site.lease.written)
    _let_minutes_pass(history, worker, seconds=60 * _MINUTES)
    counts = {name: count for name, count in worker.host.counts.items() if name != "checkpoint"}
    if counts != {"PUT": _MINUTES}:
        raise Violation(f"{_MINUTES} steady shard-minutes cost {counts}")
    checkpoints = len(site.lease.written) - checkpoints
    if checkpoints > _MINUTES:
        raise Violation(f"{checkpoints} checkpoints for {_MINUTES} segments")
    world.tally["checked: a steady shard-minute costs one PUT"] += _MINUTES
    history.give(worker, "shutdownRequested", healthy=True)


def _let_minutes_pass(history: "History", worker: "Consumer", *, seconds: float) -> None:
    world, shard = history.world, history.sites[0].stream.shard
    until = world.now + seconds
    while world.now < until:
        shard.put_now([b"x"], int(world.now * 1000), "p", world.now, 1)
        history.deliver(worker, None, healthy=True)
        world.now = min(until, world.now + history.rng.choice((1, 4, 4.5)))
        history.deliver(worker, 0, healthy=True)
