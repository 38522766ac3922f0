"""What happens in histories that last for days."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from tests.simulation.histories.events import clocks
from tests.simulation.histories.events.sharded import lose_leases as lose_all_leases
from tests.simulation.services.kinesis import HOUR

if TYPE_CHECKING:
    from tests.simulation.histories.day_history import DayHistory
    from tests.simulation.histories.shard_site import ShardSite

_OUTAGES: Final = (0.3, 2, 12, 20, 23.8, 24.2, 26, 30, 40, 50)
_NIGHT: Final = 1200


def put(history: "DayHistory", site: "ShardSite") -> None:
    """Some records arrive on a shard."""
    rng, world, shard = history.rng, history.world, site.stream.shard
    payloads = [b"%d" % (len(site.keys) + at) for at in range(rng.choice((1, 1, 1, 3)))]
    stamp = world.now + world.stamps.off_seconds(rng)
    shard.put_now(payloads, int(stamp * 1000), rng.choice(("p1", "ключ")), world.now, rng.randint(1, 9))
    first = len(site.keys)
    site.keys += [None] * len(payloads)
    site.trouble()
    if world.trace is not None:
        world.note("producer", f"{site.shard_id[-2:]} #{first}, stamp {stamp - world.now:+}")


def redeploy(history: "DayHistory") -> None:
    """Everybody stops gracefully; the next ones start at once."""
    history.redeployed_at = history.world.now
    for consumer in list(history.consumers):
        if consumer in history.consumers and consumer.ready and consumer.owns_lease:
            history.stop(consumer)
    history.world.tally["KCL: a redeployment"] += 1


def outage(history: "DayHistory") -> None:
    """Nobody runs for a while: killed, stopped, or frozen to wake up as zombies."""
    until = history.world.now + history.rng.choice(_OUTAGES) * HOUR
    for site in history.shard_sites:
        history.away_until[site.number] = until
    for consumer in list(history.consumers):
        _end(history, consumer, until)
    history.world.happened("clock: an outage")


def outage_of_a_shard(history: "DayHistory") -> None:
    """Nobody reads one shard, mostly one that is open."""
    opened = [site for site in history.shard_sites if site.is_open]
    site = history.rng.choice(opened if history.rng.random() < 0.8 else history.shard_sites)
    until = history.world.now + history.rng.choice(_OUTAGES) * HOUR
    history.away_until[site.number] = until
    for consumer in list(history.consumers):
        if consumer.lease is site.lease:
            _end(history, consumer, until)
    history.world.happened("clock: an outage of one shard")


def freeze(history: "DayHistory") -> None:
    """A host sleeps, all its clocks counting; its lease may go to another."""
    consumer = history.pick()
    if consumer is not None:
        history.asleep[consumer] = history.world.now + history.rng.choice(_OUTAGES) * HOUR
        history.world.happened("clock: a host sleeps", consumer.host.name)


def pause(history: "DayHistory") -> None:
    """A virtual machine is paused, whatever it does, for as long as an outage."""
    consumer = clocks.pause_machine(history)
    if consumer is not None:
        history.asleep[consumer] = history.world.now + history.rng.choice(_OUTAGES) * HOUR


def dip(history: "DayHistory") -> None:
    """The retention is lowered to a day, and raised again ten minutes later: what is gone leaves no trace."""
    hours = history.shard_sites[0].stream.retention_hours
    for lowered in (24, hours):
        for stream in history.shard_sites[0].stream.shards:
            stream.retention_hours = lowered
            listed = stream.listed
            stream.trim()
            stream.listed = listed
        history.world.now += 300
    history.world.happened("stream: the retention dips")


def reshard_by_midnight(history: "DayHistory") -> None:
    """A shard is split or merged a moment before or after midnight."""
    into = history.world.now % 86_400
    if into > 86_400 - 100 or into < _NIGHT:
        history.reshard()
        history.world.happened("stream: it is resharded by midnight")


def reshard(history: "DayHistory") -> None:
    """A shard is split, or two are merged."""
    history.reshard()


def lose_leases(history: "DayHistory") -> None:
    """The lease table is lost, and rebuilt from the archive."""
    if history.owner is not None:
        lose_all_leases(history)


def _end(history: "DayHistory", consumer: "object", until: float) -> None:
    found = next((one for one in history.consumers if one is consumer), None)
    if found is None:
        return
    chance = history.rng.random()
    if chance < 0.4 and found.ready:
        history.stop(found)
    elif chance < 0.7:
        history.kill(found)
    else:
        history.asleep[found] = until + history.rng.choice((-HOUR, 0, HOUR, 10 * HOUR))


ACTS: Final[Mapping[str, Callable[["DayHistory"], None]]] = {
    "outage": outage,
    "outage of a shard": outage_of_a_shard,
    "freeze": freeze,
    "pause": pause,
    "dip": dip,
    "reshard": reshard,
    "reshard by midnight": reshard_by_midnight,
    "lose leases": lose_leases,
}
