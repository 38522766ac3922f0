"""One segment of a history, and how its timeline describes objects."""

from typing import NamedTuple

import msgspec

from minutebook.compression import Compression
from minutebook.format.metadata import ChainStart, SegmentMetadata
from tests.simulation.services.bucket import Stored
from tests.simulation.services.kinesis import SimShard
from tests.simulation.world import name


class Segment(NamedTuple):
    """One segment that was ever committed: the numbers of its first and last record, counted in the shard from 0."""

    first: int
    last: int
    metadata: SegmentMetadata
    body: bytes
    compression: Compression


def describe_object(shard: SimShard, key: str, stored: Stored) -> str:
    """Return one line about an object, for the timeline."""
    if "first" not in stored.metadata:
        return f"{key}: {msgspec.json.decode(stored.body)}"
    metadata = SegmentMetadata.decode(stored.metadata)
    first, last = shard.index.get(metadata.first), shard.index.get(metadata.last)
    after = metadata.after if isinstance(metadata.after, ChainStart) else name(shard.index.get(metadata.after))
    return f"segment {name(first)}..{name(last)} after {after}, continuity {metadata.continuity}: {key}"
