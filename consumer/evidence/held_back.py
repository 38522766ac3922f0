"""Records that KCL withholds between the record at which a shard was begun and the one that it now delivers first.

KCL withholds another shard's aggregates if it knows the shard's hash keys, and delivers them if it does not
(docs/decisions/0015). So one processor may have begun the shard at such an aggregate, which the next never gets.
"""

from typing import Final

from consumer.evidence.tip_walk import Withheld, shard_hash_range, withheld_of
from consumer.services import Services
from consumer.stream.port import ShardInfo
from minutebook.aws.kinesis.answers import Beginning, HeldRecord
from minutebook.format.aggregate import deaggregate
from minutebook.format.position import Position

# GetRecords may be called five times a second per shard, KCL's own calls included.
_PAUSE_SECONDS: Final = 0.25
_MAX_CALLS: Final = 40


def held_back(
    services: Services, shard_id: str, info: ShardInfo | None, begun: Position, first: Position
) -> list[Withheld] | None:
    """Return the records from `begun` up to `first`; None unless the stream holds all and KCL withholds each."""
    hash_range, records = shard_hash_range(info), list[HeldRecord]()
    answer = services.stream.open(shard_id, Beginning(begun.sequence))
    for _ in range(_MAX_CALLS):
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
