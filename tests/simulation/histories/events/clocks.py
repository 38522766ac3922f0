"""Time passes, clocks step, and retention does its work."""

from typing import TYPE_CHECKING, Final

from tests.simulation.histories.events.services import expire
from tests.simulation.services.kinesis import HOUR

if TYPE_CHECKING:
    from tests.simulation.histories.history import History


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
        consumer.host.skew += history.rng.choice(history.scenario.jumps)
        history.world.happened("clock: a wall clock jumps", consumer.host.name)


def pass_time(history: "History", seconds: float) -> None:
    """Let true time pass, and retention do its work."""
    history.world.now += seconds
    for site in history.sites:
        if history.scenario.trims:
            trimmed = site.stream.trim()
            if trimmed:
                history.world.happened("stream: retention trims", f"{trimmed} records")


EVENTS: Final = (time, minute, suspend, days, trim, edge, jump)
