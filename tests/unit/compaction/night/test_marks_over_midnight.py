"""Read marks that lie under the next date: a verdict rests on those whose time the day shares, and on no others."""

from pathlib import Path
from typing import Final

import pytest

from compaction.job.context import AuditOptions
from compaction.night.due import find_due
from minutebook.format.day import Day
from minutebook.format.metadata import Continuity
from minutebook.format.read_mark import BIRTH, MarkKind, ReadMark, encode_read_mark, read_mark_key
from minutebook.store.places import open_storage
from tests.corpus.desk import DAY, Desk
from tests.corpus.model import PREFIX

HOUR_MS: Final = 3_600_000
NEXT: Final = DAY.shift(1)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return a desk some days later, with nothing published."""
    desk = Desk(tmp_path)
    desk.clock.advance(2 * 86_400)
    return desk


def proven(desk: Desk, from_ms: int, shard: str = "") -> ReadMark:
    """Return a proven mark of the day's first shard, or of another one, until five o'clock of the next day."""
    until_ms, shard = DAY.end_ms + 5 * HOUR_MS, shard or desk.corpus.shards[0].shard_id
    return ReadMark(shard, MarkKind.READ, Continuity.PROVEN, from_ms, until_ms, None, "writer-1")


def put(desk: Desk, day: Day, mark: ReadMark) -> str:
    """Store a mark under one date; return its key."""
    key = read_mark_key(PREFIX, day, mark)
    open_storage(desk.archive).put_if_absent(key, encode_read_mark(mark), {}, "application/json")
    return key


def why(desk: Desk) -> str:
    """Return why the day is due; empty: it is not."""
    return {each.day: each.why for each in find_due(desk.context(), desk.out, AuditOptions(), 14).days}[DAY]


def test_a_lost_mark_under_the_next_date_alone_withdraws_the_day(desk: Desk) -> None:
    """It is about the last hours of the day, too, and a fresh audit reads it."""
    assert desk.compact().verdict == "clean"
    shard = desk.corpus.shards[0].shard_id
    span = (DAY.end_ms - 2 * HOUR_MS, DAY.end_ms + HOUR_MS)
    put(desk, NEXT, ReadMark(shard, MarkKind.STREAM, Continuity.LOST, *span, None, "audit-1"))
    assert why(desk) == "its marks are others"
    assert desk.compact().verdict == "defects"


def test_a_mark_that_proved_the_day_from_the_next_date_is_missed(desk: Desk) -> None:
    """Its copy under the day went first, and the day was judged by this one."""
    key = put(desk, NEXT, proven(desk, DAY.end_ms - HOUR_MS))
    assert desk.compact().verdict == "clean"
    assert why(desk) == ""
    open_storage(desk.archive).delete([key])
    assert why(desk) == "its marks are others"


@pytest.mark.parametrize("from_ms", [DAY.end_ms, DAY.end_ms + HOUR_MS, BIRTH], ids=["midnight", "later", "a birth"])
def test_marks_of_later_times_leave_a_day_at_rest(desk: Desk, from_ms: int) -> None:
    """A quiet shard writes one an hour, and one that was born on the next day begins with its birth."""
    assert desk.compact().verdict == "clean"
    put(desk, NEXT, proven(desk, from_ms, "shardId-000000000099" if from_ms == BIRTH else ""))
    assert why(desk) == ""
