"""Reading a closed shard to its very end, with patience."""

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
"""Ten seconds at the tip of a shard that ListShards calls closed: KCL's end is not believed."""


def walk_to_end(
    stream: StreamReader,
    clock: Clock,
    shard_id: str,
    position: Position | None,
    *,
    since_ms: int | None = None,
    hash_range: HashRange = EVERY_HASH_KEY,
) -> TipWalk | None:
    """Read on behind `position` until the null iterator; None when something is left that KCL would deliver.

    Without a position: from the first record that arrived at or after `since_ms`, or from the oldest one. Reading
    begins with the Kinesis record at the position, which may be an aggregate with more user records. Where Kinesis
    refuses an iterator at a position that is trimmed, whatever is left lies behind it.

    Raises:
        StreamUnavailable, StreamRefused: Kinesis.
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
