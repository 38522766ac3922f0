"""Before the events of a history: some segments are archived in peace, by processors that may live on."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.histories.history import History
    from tests.simulation.histories.sharded_history import ShardedHistory
    from tests.simulation.services.kcl import Consumer


def archive_shard(history: "History") -> None:
    """Let one processor archive what is put."""
    site = history.sites[0]
    worker = history.start(site, healthy=True)
    assert worker is not None
    for _ in range(history.rng.randint(1, 4)):
        site.put(history.rng)
        history.world.now += history.rng.choice((5, 40, 70))
        history.deliver(worker, history.rng.choice((2, None)), healthy=True)
        if worker.task.dead:
            return
    _end(history, worker, stops=0.4, dies=0.2)


def archive_shards(history: "ShardedHistory") -> None:
    """Let a processor of each shard archive what is put."""
    for _ in range(history.rng.randint(1, 4)):
        history.producer.put(history)
        history.world.now += history.rng.choice((5, 40, 70))
        for site in history.shard_sites:
            worker = history.owner_of(site) or history.start(site, healthy=True)
            if worker is not None:
                history.deliver(worker, history.rng.choice((2, None)), healthy=True)
    for worker in list(history.consumers):
        _end(history, worker, stops=0.3, dies=0.2)


def _end(history: "History", worker: "Consumer", *, stops: float, dies: float) -> None:
    end = history.rng.random()
    if end < stops:
        history.give(worker, "shutdownRequested", healthy=True)
    elif end < stops + dies:
        history.kill(worker)
    else:
        worker.host.holdup = history.rng.choice(history.scenario.holdups)
        worker.host.fault_rate = history.rng.choice(history.scenario.faults)
