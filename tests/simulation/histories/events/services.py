"""What happens to the stream, the lease table, and S3."""

from typing import TYPE_CHECKING, Final

from tests.fakes.daemon_double import SHARD_END
from tests.simulation.services.kinesis import HOUR

if TYPE_CHECKING:
    from tests.simulation.histories.history import History
    from tests.simulation.histories.site import Site


EXPIRY_MARGIN_SECONDS: Final = HOUR
"""How far beyond the retention raw objects are kept at least."""


def put(history: "History") -> None:
    """Records arrive."""
    site = history.site()
    if not site.stream.shard.closed and not site.recreated:
        site.put(history.rng)


def retention(history: "History") -> None:
    """An operator changes the retention; what is gone stays gone."""
    stream = history.sites[0].stream
    stream.retention_hours = history.rng.choice((24, 48, 168))
    stream.trim()
    history.world.happened("stream: the retention is changed")


def wipe(history: "History") -> None:
    """The lease table is deleted."""
    site = history.sites[0]
    if site.lease.checkpoint != SHARD_END:
        site.lease.wipe()
        history.world.happened("KCL: the lease table is wiped")


def restore(history: "History") -> None:
    """The lease row is rebuilt after some archived record, inside a span or at its end."""
    set_back(history, history.sites[0])


def set_back(history: "History", site: "Site") -> None:
    """Let a lease go on after some archived record, inside a segment or at its end."""
    ledger, shard = site.ledger, site.stream.shard
    archived = [number for number in sorted(ledger.committed) if number >= shard.trimmed]
    if not archived or site.lease.checkpoint == SHARD_END or ledger.start is None:
        return
    site.lease.wipe()
    number = history.rng.choice(archived)
    site.lease.checkpoint = shard.everything[number].position
    inside = number not in ledger.ends
    history.world.happened(f"KCL: a checkpoint is restored {'inside a span' if inside else 'at an end'}")


def land(history: "History") -> None:
    """A delayed PUT arrives."""
    flying = history.bucket.flying
    if flying:
        history.bucket.land(history.rng.randrange(len(flying)))


def expire(history: "History") -> None:
    """Raw objects beyond retention and margin are deleted, never the last of a chain."""
    site = history.sites[0]
    old = history.world.now - site.stream.retention_hours * HOUR - EXPIRY_MARGIN_SECONDS
    chain = sorted((segment.first, key) for key, segment in site.ledger.segments.items())
    for _, key in chain[:-1]:
        if key in history.bucket.objects:
            if site.ledger.segments[key].metadata.arrival_max_ms > old * 1000:
                break
            history.bucket.expire(key)
            history.world.tally["S3: a segment is expired"] += 1


def faults(history: "History") -> None:
    """A machine's way to S3 gets better or worse."""
    consumer = history.pick()
    if consumer is not None:
        consumer.host.fault_rate = history.rng.choice(history.scenario.faults)


def throttle(history: "History") -> None:
    """DynamoDB or Kinesis throttle somebody, or no longer."""
    consumer = history.pick()
    if consumer is not None:
        consumer.host.table_fault_rate = history.rng.choice((0, 0.4, 0.8))
    history.sites[0].stream.fault_rate = history.rng.choice((0, 0.2, 0.5))


def close(history: "History") -> None:
    """The shard is split or merged away."""
    stream = history.sites[0].stream
    if not stream.shard.closed and stream.shard.everything:
        history.sites[0].trouble(at_end=True)
        stream.shard.close()
        stream.closed_at = history.world.now
        history.world.happened("stream: the shard is closed")


def recreate(history: "History") -> None:
    """The stream is deleted and made again under its name."""
    site = history.sites[0]
    if not site.recreated and history.owner is not None:  # else the new one is the application's first
        for consumer in list(history.consumers):
            if consumer.stream is site.stream and consumer.pending_message == "initialize":
                history.kill(consumer)
        site.recreate()
        history.world.happened("stream: deleted and made again under its name")


EVENTS: Final = (put, retention, wipe, restore, land, expire, faults, throttle, close, recreate)
