"""What KCL holds back between the record that a shard was begun at and the one that it delivers first now.

KCL leaves another shard's aggregates out by the shard's hash keys, and delivers them where it does not know these
(docs/decisions/0015). So one processor may have begun the shard at such an aggregate, which the next one never sees.
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
    """Return the records from `begun` to before `first`; None unless all are still held, and KCL withholds each.

    Raises:
        StreamUnavailable, StreamRefused: Kinesis.
    """
    hash_range, found = shard_hash_range(info), list[HeldRecord]()
    answer = services.stream.open(shard_id, Beginning(begun.sequence))
    for _ in range(_MAX_CALLS):
        if answer is None or answer.iterator is None:
            return None
        answer = services.stream.read(shard_id, answer.iterator)
        found += answer.records
        if found and found[-1].sequence >= first.sequence:
            break
        services.clock.sleep(_PAUSE_SECONDS)
    else:
        return None
    between = [record for record in found if record.sequence < first.sequence]
    if first.sub or not between or between[0].sequence != begun.sequence:
        return None
    deliveries = [deaggregate(record.partition_key, record.data, hash_range) for record in between]
    if any(delivery.delivered for delivery in deliveries):
        return None
    return [withheld_of(record, delivery) for record, delivery in zip(between, deliveries, strict=True)]
