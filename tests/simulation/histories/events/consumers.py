"""What consumers do, and what KCL and the machines do to them."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.simulation.histories.history import History
    from tests.simulation.services.kcl import Consumer


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
    if consumer is not None:
        history.go_on(consumer)


def start(history: "History") -> None:
    """A new consumer takes the lease; the old owner, if it lives, is a zombie and does not know it."""
    site = history.site()
    if any(consumer.lease is site.lease and consumer.owns_lease for consumer in history.consumers):
        history.world.tally["KCL: the lease is stolen"] += 1
    history.start(site)


def restart(history: "History") -> None:
    """The owner stops gracefully and a new one starts."""
    shutdown(history)
    if not history.consumers:
        history.start(history.sites[0])


def kill(history: "History") -> None:
    """SIGKILL, whatever it does."""
    consumer = history.pick()
    if consumer is not None:
        history.world.happened(f"killed: {consumer.task.where}", consumer.host.name)
        history.kill(consumer)


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
    if consumer is not None:
        history.world.tally["KCL: shutdownRequested"] += 1
        history.stop(consumer)


def handover(history: "History") -> None:
    """A graceful hand-over: the new owner starts when the old one has answered, or when KCL waits no longer."""
    shutdown(history)
    history.world.tally["KCL: a graceful hand-over"] += 1
    history.start(history.sites[0])


def end(history: "History") -> None:
    """A consumer that has read everything is told the end of the shard."""
    found = [
        consumer
        for consumer in history.consumers
        if consumer.ready and consumer.shard.closed and not consumer.waiting()
    ]
    if found and not history.sites[0].recreated:
        consumer = history.rng.choice(found)
        history.world.tally["KCL: shardEnded"] += 1
        if not consumer.host.silenced:
            history.give(consumer, "shardEnded")


def false_end(history: "History") -> None:
    """KCL takes a ResourceNotFoundException for the end of the shard."""
    found = [consumer for consumer in history.consumers if consumer.ready and not consumer.host.silenced]
    found = [consumer for consumer in found if _inside_aggregate(consumer)] or found
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


def _inside_aggregate(consumer: "Consumer") -> bool:
    waiting = consumer.waiting()
    return bool(waiting) and consumer.cursor is not None and waiting[0].position.sequence == consumer.cursor.sequence


def opened(history: "History") -> "Consumer | None":
    """Return a consumer that waits for work; None when there is none."""
    found = [consumer for consumer in history.consumers if consumer.ready]
    return history.rng.choice(found) if found else None


EVENTS: Final = (deliver, tick, resume, start, restart, kill, orphan, lose, shutdown, handover, end, false_end)
