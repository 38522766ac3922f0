"""What can happen in a history. Each function is one thing; what cannot happen just now does nothing."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from tests.simulation.kinesis import HOUR

if TYPE_CHECKING:
    from tests.simulation.history import History
    from tests.simulation.kcl import Consumer

EXPIRY_MARGIN_SECONDS: Final = HOUR
"""How far beyond the retention raw objects are kept at least."""


def put(history: "History") -> None:
    """Records arrive."""
    site = history.site()
    if not site.stream.shard.closed and not site.recreated:
        site.put(history.rng)


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


def retention(history: "History") -> None:
    """An operator changes the retention; what is gone stays gone."""
    stream = history.sites[0].stream
    stream.retention_hours = history.rng.choice((24, 48, 168))
    stream.trim()
    history.world.happened("stream: the retention is changed")


def jump(history: "History") -> None:
    """A wall clock steps."""
    consumer = history.pick()
    if consumer is not None:
        consumer.host.skew += history.rng.choice(history.kind.jumps)
        history.world.happened("clock: a wall clock jumps", consumer.host.name)


def deliver(history: "History") -> None:
    """A consumer, owner or zombie, reads on."""
    consumer = opened(history)
    if consumer is not None and history.is_readable(consumer):
        history.deliver(consumer, history.rng.choice((1, 2, 4, 8, None)))


def tick(history: "History") -> None:
    """A consumer is called without records."""
    consumer = opened(history)
    if consumer is not None:
        history.deliver(consumer, 0)


def resume(history: "History") -> None:
    """A processor that was held up works on."""
    consumer = history.pick(idle=False)
    if consumer is None:
        return
    history.go_on(consumer)


def start(history: "History") -> None:
    """A new consumer takes the lease; the old owner, if it lives, is a zombie and does not know it."""
    site = history.site()
    if any(one.lease is site.lease and one.owns_lease for one in history.consumers):
        history.world.tally["KCL: the lease is stolen"] += 1
    history.start(site)


def restart(history: "History") -> None:
    """The owner stops gracefully and a new one starts."""
    shutdown(history)
    if not history.consumers:
        history.start(history.sites[0])


def kill(history: "History") -> None:
    """SIGKILL wherever it stands."""
    consumer = history.pick()
    if consumer is not None:
        history.world.happened(f"killed: {consumer.task.where}", consumer.host.name)
        consumer.task.kill()
        history.consumers.remove(consumer)


def orphan(history: "History") -> None:
    """The daemon is killed; its child works on until it looks at its input."""
    consumer = history.pick()
    if consumer is not None and not consumer.orphan:
        history.world.happened("killed: the daemon alone", consumer.host.name)
        consumer.cut_off()
        history.judge(consumer)


def lose(history: "History") -> None:
    """A zombie is told so; records may still be on their way to it."""
    consumer = opened(history)
    if consumer is not None and not consumer.owns_lease:
        history.give(consumer, "leaseLost")
        history.world.tally["KCL: leaseLost"] += 1
        if consumer in history.consumers and consumer.idle:
            if history.is_readable(consumer):
                history.deliver(consumer, 3)
            history.deliver(consumer, 0)


def shutdown(history: "History") -> None:
    """A graceful stop."""
    consumer = opened(history)
    if consumer is None:
        return
    history.world.tally["KCL: shutdownRequested"] += 1
    consumer.leaving = True
    history.give(consumer, "shutdownRequested")


def handover(history: "History") -> None:
    """A graceful hand-over: the new owner starts when the old one has answered, or when KCL waits no longer."""
    shutdown(history)
    history.world.tally["KCL: a graceful hand-over"] += 1
    history.start(history.sites[0])


def wipe(history: "History") -> None:
    """The lease table is deleted."""
    site = history.sites[0]
    if site.lease.checkpoint != "SHARD_END":
        site.lease.wipe()
        history.world.happened("KCL: the lease table is wiped")


def restore(history: "History") -> None:
    """The lease row is rebuilt after some archived record, inside a span or at its end."""
    site = history.sites[0]
    ledger, shard = site.ledger, site.stream.shard
    archived = [number for number in sorted(ledger.committed) if number >= shard.trimmed]
    if not archived or site.lease.checkpoint == "SHARD_END" or ledger.start is None:
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
        consumer.host.fault_rate = history.rng.choice(history.kind.faults)


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
        stream.shard.close()
        stream.closed_at = history.world.now
        history.world.happened("stream: the shard is closed")


def end(history: "History") -> None:
    """A consumer that has read everything is told the end of the shard."""
    found = [one for one in history.consumers if one.idle and one.opened and one.shard.closed and not one.waiting()]
    if found and not history.sites[0].recreated:
        consumer = history.rng.choice(found)
        history.world.tally["KCL: shardEnded"] += 1
        if consumer.host.silenced:
            return
        history.give(consumer, "shardEnded")


def false_end(history: "History") -> None:
    """KCL takes a ResourceNotFoundException for the end of the shard."""
    found = [
        one for one in history.consumers if one.idle and one.opened and not one.leaving and not one.host.silenced
    ]
    found = [one for one in found if _inside_aggregate(one)] or found
    if not found:
        return
    consumer = history.rng.choice(found)
    site = next(site for site in history.sites if site.stream is consumer.stream)
    truly = consumer.shard.closed and not consumer.waiting()
    if not truly or site.recreated:
        history.world.happened("KCL: a false shardEnded", consumer.host.name)
        if consumer.shard.closed and _inside_aggregate(consumer):
            history.world.happened("KCL: a false shardEnded inside an aggregate of a closed shard")
        history.give(consumer, "shardEnded")


def recreate(history: "History") -> None:
    """The stream is deleted and made again under its name."""
    site = history.sites[0]
    if not site.recreated and history.owner is not None:  # else the new one is the application's first
        for consumer in [one for one in history.consumers if one.stream is site.stream and one.hands == "initialize"]:
            consumer.task.kill()
            history.consumers.remove(consumer)
        site.recreate()
        history.world.happened("stream: deleted and made again under its name")


def pass_time(history: "History", seconds: float) -> None:
    """Let true time pass, and retention do its work."""
    history.world.now += seconds
    for site in history.sites:
        if history.kind.trims:
            trimmed = site.stream.trim()
            if trimmed:
                history.world.happened("stream: retention trims", f"{trimmed} records")


def _inside_aggregate(consumer: "Consumer") -> bool:
    waiting = consumer.waiting()
    return bool(waiting) and consumer.cursor is not None and waiting[0].position.sequence == consumer.cursor.sequence


def opened(history: "History") -> "Consumer | None":
    """Return a consumer that waits for work; None when there is none."""
    found = [one for one in history.consumers if one.idle and one.opened and not one.leaving]
    return history.rng.choice(found) if found else None


HAPPENINGS: Final[Mapping[str, Callable[["History"], None]]] = {
    "put": put,
    "time": time,
    "minute": minute,
    "suspend": suspend,
    "days": days,
    "trim": trim,
    "edge": edge,
    "retention": retention,
    "jump": jump,
    "deliver": deliver,
    "tick": tick,
    "resume": resume,
    "start": start,
    "restart": restart,
    "kill": kill,
    "orphan": orphan,
    "lose": lose,
    "shutdown": shutdown,
    "handover": handover,
    "wipe": wipe,
    "restore": restore,
    "land": land,
    "expire": expire,
    "faults": faults,
    "throttle": throttle,
    "close": close,
    "end": end,
    "false end": false_end,
    "recreate": recreate,
}
