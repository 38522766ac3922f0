"""Read a closed shard to its end."""

from typing import Final

from consumer.evidence.tip_walk import Reached, TipWalk
from consumer.stream.port import StreamReader
from minutebook.aws.kinesis.answers import Answer, Beginning
from minutebook.clock import Clock
from minutebook.format.aggregate import EVERY_HASH_KEY, HashRange
from minutebook.format.position import Position

# GetRecords may be called five times a second per shard, KCL's own calls included.
_PAUSE_SECONDS: Final = 0.25
_MAX_TIPS: Final = 40
"""After ten seconds at the tip of a shard without a null iterator, it is not taken for ended."""


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
