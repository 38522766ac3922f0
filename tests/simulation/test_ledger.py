"""What the ledger makes of an object, where a whole history would seldom show it."""

import random
from collections import Counter
from typing import Final

import pytest

from archive.format.day import Day
from archive.format.metadata import Continuity
from archive.format.position import Position
from archive.format.read_mark import MarkKind, ReadMark, encode_read_mark, read_mark_key
from tests.fakes.archive_scene import PREFIX
from tests.simulation.checks.ledger import Ledger
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
