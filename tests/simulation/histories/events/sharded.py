"""What happens in histories of several shards only, or otherwise than in those of one."""

from typing import TYPE_CHECKING, Final

from tests.simulation.histories.events import consumers, services
from tests.simulation.histories.events.clocks import pass_time
from tests.simulation.histories.events.consumers import opened
from tests.simulation.services.kinesis import HOUR

if TYPE_CHECKING:
    from tests.simulation.histories.sharded_history import ShardedHistory


def put(history: "ShardedHistory") -> None:
    """Records arrive."""
    history.producer.put(history)


def resume(history: "ShardedHistory") -> None:
    """A processor or a command that was held up works on."""
    if history.command_runs and history.rng.random() < 0.4:
        history.rng.choice(history.command_runs).go_on()
    else:
        consumers.resume(history)


def restart(history: "ShardedHistory") -> None:
    """A consumer stops gracefully, and the next one of its shard starts once it has."""
    consumer = opened(history)
    if consumer is not None:
        history.stop(consumer)
        if consumer not in history.consumers:
            history.start(history.site_of(consumer))


def handover(history: "ShardedHistory") -> None:
    """A graceful hand-over: the new owner starts when the old one has answered, or when KCL waits no longer."""
    consumer = opened(history)
    if consumer is not None:
        history.stop(consumer)
        history.start(history.site_of(consumer))
        history.world.tally["KCL: a graceful hand-over"] += 1


def reshard(history: "ShardedHistory") -> None:
    """A shard is split, or two are merged."""
    history.reshard()


def throttle(history: "ShardedHistory") -> None:
    """DynamoDB or Kinesis throttle somebody, or no longer."""
    consumer = history.pick()
    if consumer is not None:
        consumer.host.table_fault_rate = history.rng.choice((0, 0.4, 0.8))
    history.rng.choice(history.shard_sites).stream.fault_rate = history.rng.choice((0, 0.2, 0.5))


def wipe(history: "ShardedHistory") -> None:
    """The lease table is deleted while whoever lives goes on; KCL makes new rows from the stream."""
    for site in history.shard_sites:
        site.lease.wipe()
    history.world.happened("KCL: the lease table is wiped")


def lose_leases(history: "ShardedHistory") -> None:
    """The lease table is lost, every worker is stopped or dies, and an operator restores it from the archive."""
    _stop_everybody(history)
    wipe(history)
    history.operator.restore(patient=True)
    for site in history.shard_sites:
        if history.rng.random() < 0.6:
            history.start(site)


def restore(history: "ShardedHistory") -> None:
    """An operator restores although the table may be there, and workers may live."""
    history.operator.restore(patient=False)


def move(history: "ShardedHistory") -> None:
    """A row is set back by hand."""
    site = history.rng.choice(history.shard_sites)
    present = site.lease.present
    services.set_back(history, site)
    site.lease.present = present


def land(history: "ShardedHistory") -> None:
    """A delayed PUT arrives, at S3 or at the table."""
    services.land(history)
    if history.table.flying:
        history.table.land(history.rng.randrange(len(history.table.flying)))


def sweep(history: "ShardedHistory") -> None:
    """Time to live deletes some of what has expired, or all."""
    history.table.sweep(history.rng.choice((0.3, 1)))


def drop_row(history: "ShardedHistory") -> None:
    """A tail row is lost, or overwritten by somebody with what no reader takes, or without its state."""
    rows = sorted(key for key in history.table.items if key.startswith("t:"))
    if not rows:
        return
    key, chance = history.rng.choice(rows), history.rng.random()
    item = dict(history.table.items.pop(key))
    if chance < 0.5:
        history.world.happened("DynamoDB: a tail row is lost")
    elif chance < 0.75:
        field = history.rng.choice(("position", "watermarks", "first"))
        history.table.items[key] = item | {field: {"S": "rubbish"}}
        history.world.happened("DynamoDB: a tail row is damaged")
    else:
        item.pop("watermarks", None)
        history.table.items[key] = item
        history.world.happened("DynamoDB: a tail row has no state")


def lose_table(history: "ShardedHistory") -> None:
    """The dedupe table is deleted; the next processor makes it again."""
    if history.table.exists:
        history.table.lose()
        history.world.happened("DynamoDB: the dedupe table is deleted")


def outage(history: "ShardedHistory") -> None:
    """Everybody sleeps longer than the retention."""
    hours = history.shard_sites[0].stream.retention_hours
    pass_time(history, history.rng.choice((1.0, 1.1, 1.5)) * hours * HOUR + 30)
    history.world.happened("clock: an outage longer than the retention")


def almost(history: "ShardedHistory") -> None:
    """Everybody sleeps until hours before the retention."""
    hours = history.shard_sites[0].stream.retention_hours
    pass_time(history, history.rng.choice((0.3, 0.6, 0.9)) * hours * HOUR)
    history.world.happened("clock: an outage almost as long as the retention")


def longer(history: "ShardedHistory") -> None:
    """An operator raises the retention."""
    if history.retention_raised_at is not None:
        return
    history.retention_raised_at = history.world.now
    for site in history.shard_sites:
        site.stream.retention_hours = 72
    history.world.happened("stream: the retention is changed")


def day(history: "ShardedHistory") -> None:
    """What is there is archived, then a day or some pass, and records arrive again."""
    for site in history.shard_sites:
        consumer = history.owner_of(site) or history.start(site)
        if consumer is None or not consumer.idle:
            continue
        history.deliver(consumer, None)
        if consumer in history.consumers and consumer.idle and history.rng.random() < 0.8:
            history.stop(consumer)
    pass_time(history, history.rng.choice((0.4, 0.9, 1.0, 2.0, 2.3)) * 24 * HOUR)
    history.world.tally["clock: days pass"] += 1
    history.producer.put(history)


def publish(history: "ShardedHistory") -> None:
    """The nightly job publishes the days that are over."""
    history.operator.published.publish()


def expire(history: "ShardedHistory") -> None:
    """An operator expires old days, or asks for days that the stream still holds."""
    history.operator.expire()


def _stop_everybody(history: "ShardedHistory") -> None:
    for consumer in list(history.consumers):
        if consumer not in history.consumers:
            continue
        if consumer.ready and history.rng.random() < 0.5:
            history.stop(consumer)
        elif history.rng.random() < 0.7:
            history.kill(consumer)
        # The rest is frozen: it will wake up, and not know.


EVENTS: Final = (
    put, resume, restart, handover, reshard, throttle, wipe, lose_leases, restore, move, land, sweep, drop_row,
    lose_table, outage, almost, longer, day, publish, expire,
)  # fmt: skip
