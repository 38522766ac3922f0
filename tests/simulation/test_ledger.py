"""What the ledger makes of an object, where a whole history would seldom show it."""

import random
from collections import Counter
from typing import Final

import pytest

from minutebook.compression import Compression
from minutebook.format.day import Day
from minutebook.format.keys import segment_key
from minutebook.format.metadata import ChainStart, Continuity, SegmentMetadata
from minutebook.format.minute import minute_of
from minutebook.format.position import Position
from minutebook.format.read_mark import MarkKind, ReadMark, encode_read_mark, read_mark_key
from tests.fakes.archive_scene import PREFIX
from tests.simulation.promises.ledger import Ledger
from tests.simulation.services.bucket import Stored
from tests.simulation.services.kinesis import SimShard, SimStream
from tests.simulation.world import Violation, World

_NOW: Final = 1_795_256_160.0


def test_a_mark_at_no_segments_end_is_a_violation_until_nothing_more_is_promised() -> None:
    """Two writers' deliveries differed: the ledger no longer knows which segments there are (seed 322087)."""
    world = World(random.Random(1), _NOW, Counter(), traced=False)
    shard = SimShard(first_sequence=5)
    ledger = Ledger(world, SimStream(world, shard, arn="a", created=_NOW, retention_hours=24))
    until_ms = int(_NOW * 1000)
    proven = Continuity.PROVEN
    mark = ReadMark(shard.shard_id, MarkKind.READ, proven, until_ms - 1000, until_ms, Position(7, 0), "w")
    key = read_mark_key(PREFIX, Day.parse("2026-11-21"), mark)
    stored = Stored(encode_read_mark(mark), {}, _NOW)
    with pytest.raises(Violation, match="which ends no segment"):
        ledger.created(key, stored)
    ledger.beyond_promise = True
    ledger.created(key, stored)


def test_a_claim_is_judged_until_nothing_more_is_promised() -> None:
    """The segment of the other delivery is not among those that the ledger knows (seed 324046)."""
    world = World(random.Random(1), _NOW, Counter(), traced=False)
    shard = SimShard(first_sequence=5)
    ledger = Ledger(world, SimStream(world, shard, arn="a", created=_NOW - 600, retention_hours=24))
    world.compression = Compression.GZIP
    arrival_ms = int(_NOW * 1000) - 60_000
    for put_ms in (arrival_ms - 150_000, arrival_ms):
        shard.put_now([b"x"], put_ms, "p", put_ms / 1000, 1)
    _, second = (record.position for record in shard.everything)
    metadata = SegmentMetadata(
        shard_id=shard.shard_id,
        minute=minute_of(arrival_ms),
        first=second,
        last=second,
        after=ChainStart("TRIM_HORIZON"),
        records=1,
        dropped=0,
        payload_bytes=1,
        arrival_min_ms=arrival_ms,
        arrival_max_ms=arrival_ms,
        writer="w",
        continuity=Continuity.PROVEN,
        evidence_ms=arrival_ms - 400_000,
    )
    key = segment_key(PREFIX, shard.shard_id, metadata.minute, second, Compression.GZIP)
    stored = Stored(b"", metadata.encode(), _NOW)
    with pytest.raises(Violation, match="covers #0, which is not archived"):
        ledger.created(key, stored)
    ledger.committed.clear()
    ledger.beyond_promise = True
    ledger.created(key, stored)
