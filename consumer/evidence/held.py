"""Read what the stream still holds of a shard: the record at a position, the oldest one, or all up to its end."""

from typing import Final

from consumer.evidence.tip_walk import Reached, TipWalk, Withheld, withheld_of
from consumer.services import Services
from consumer.stream.port import ShardInfo, StreamReader, shard_hash_range
from minutebook.aws.kinesis.answers import Answer, Beginning, HeldRecord
from minutebook.clock import Clock
from minutebook.coverage.continuity import OldestHeld
from minutebook.format.aggregate import EVERY_HASH_KEY, HashRange, deaggregate
from minutebook.format.position import Position

# GetRecords may be called five times a second per shard, KCL's own calls included.
_PAUSE_SECONDS: Final = 0.25
_MAX_CALLS: Final = 20
_MAX_BACK_CALLS: Final = 40
_MAX_TIPS: Final = 40
"""After ten seconds at the tip of a shard without a null iterator, it is not taken for ended."""


def record_at(services: Services, shard_id: str, position: Position) -> HeldRecord | None:
    """Return the Kinesis record at a position; None if it is trimmed."""
    record = _first_record(services, shard_id, Beginning(position.sequence))
    return record if record is not None and record.sequence == position.sequence else None


def oldest_record(services: Services, shard_id: str) -> OldestHeld | None:
    """Return the oldest record that the shard holds; None if it holds none."""
    record = _first_record(services, shard_id, Beginning())
    return None if record is None else OldestHeld(Position(record.sequence), record.arrival_ms)


def walk_to_end(
    stream: StreamReader,
    clock: Clock,
    shard_id: str,
    position: Position | None,
    *,
    since_ms: int | None = None,
    hash_range: HashRange = EVERY_HASH_KEY,
) -> TipWalk | None:
    """Read after `position` until the null iterator; return None if records are left that KCL would deliver.

    Without a position: from the first record that arrived at or after `since_ms`, or from the oldest one. Reading
    begins with the Kinesis record at the position, which may be an aggregate with more user records. If Kinesis
    refuses an iterator at a trimmed position, reading begins at the oldest record, which lies after it.
    """
    beginning = Beginning(since_ms=since_ms) if position is None else Beginning(position.sequence)
    opened = stream.open(shard_id, beginning) or stream.open(shard_id, Beginning())
    walk = TipWalk(position, hash_range, opened or Answer(None, None))
    tips = 0
    while walk.iterator is not None and tips <= _MAX_TIPS:
        reached = walk.take(stream.read(shard_id, walk.iterator))
        if reached is Reached.MORE:
            return None
        if reached is Reached.END:
            return walk
        tips = tips + 1 if reached is Reached.TIP else 0
        clock.sleep(_PAUSE_SECONDS)
    return None


def held_back(
    services: Services, shard_id: str, info: ShardInfo | None, begun: Position, first: Position
) -> list[Withheld] | None:
    """Return the records from `begun` up to `first`; None unless the stream holds all and KCL withholds each.

    KCL withholds another shard's aggregates only if it knows the shard's hash keys (docs/decisions/0015). So one
    processor may have begun the shard at such an aggregate, which the next never gets.
    """
    hash_range, records = shard_hash_range(info), list[HeldRecord]()
    answer = services.stream.open(shard_id, Beginning(begun.sequence))
    for _ in range(_MAX_BACK_CALLS):
        if answer is None or answer.iterator is None:
            return None
        answer = services.stream.read(shard_id, answer.iterator)
        records += answer.records
        if records and records[-1].sequence >= first.sequence:
            break
        services.clock.sleep(_PAUSE_SECONDS)
    else:
        return None
    between = [record for record in records if record.sequence < first.sequence]
    if first.sub or not between or between[0].sequence != begun.sequence:
        return None
    deliveries = [deaggregate(record.partition_key, record.data, hash_range) for record in between]
    if any(delivery.delivered for delivery in deliveries):
        return None
    return [withheld_of(record, delivery) for record, delivery in zip(between, deliveries, strict=True)]


def _first_record(services: Services, shard_id: str, beginning: Beginning) -> HeldRecord | None:
    answer = services.stream.open(shard_id, beginning)
    # With no retry budget, read once: do not poll past empty answers either.
    for _ in range(_MAX_CALLS if services.settings.store_timeout_seconds > 0 else 1):
        if answer is None or answer.iterator is None:
            return None
        answer = services.stream.read(shard_id, answer.iterator, most=1)
        if answer.records or answer.is_tip:
            return answer.records[0] if answer.records else None
        if services.settings.store_timeout_seconds > 0:
            services.clock.sleep(_PAUSE_SECONDS)
    return None
