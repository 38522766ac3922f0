"""What a comparison with the stream proves of a shard."""

import pytest

from compaction.audit.stream.level import stream_mark
from compaction.audit.stream.records import Comparison
from compaction.stream.kinesis import ReadLog
from compaction.verdict.findings import Code, finding
from minutebook.coverage.chain import ChainView
from minutebook.coverage.evidence import EvidenceLink, Kind
from minutebook.coverage.intervals import Interval
from minutebook.coverage.shard_coverage import ShardFacts
from minutebook.format.metadata import ChainStart
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position

HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
BEGIN_MS = 20_800 * DAY_MS
SCOPE = Interval(BEGIN_MS, BEGIN_MS + DAY_MS)
CLEAN = Comparison((), 3, 0)


def link(number: int, minute_ms: int) -> EvidenceLink:
    """Return a segment of one record."""
    after = ChainStart("TRIM_HORIZON") if number == 1 else Position(number - 1)
    position = Position(number)
    return EvidenceLink(Kind.SEGMENT, position, position, after, minute_ms - MINUTE_MS, minute_ms, minute_ms, "run")


FACTS = ShardFacts("shardId-0", ChainView((link(1, BEGIN_MS), link(2, SCOPE.until_ms)), Position(1)))


def read(asked_ms: int, *, oldest_ms: int | None = None, until_ms: int = SCOPE.until_ms) -> ReadLog:
    """Return how a shard was read, in one second."""
    return ReadLog(0, until_ms, asked_ms=asked_ms, answered_ms=asked_ms + 1000, oldest_ms=oldest_ms)


def test_a_mark_ends_a_minute_before_the_stream_was_asked() -> None:
    """What arrived later may not have been there yet; nor does it reach beyond the scope."""
    early, late = SCOPE.until_ms - HOUR_MS, SCOPE.until_ms + HOUR_MS
    untils = [
        mark.until_ms for at in (early, late) if (mark := stream_mark(FACTS, SCOPE, CLEAN, read(at), writer="w"))
    ]
    assert untils == [early - MINUTE_MS, SCOPE.until_ms]


def test_a_mark_begins_where_nothing_had_been_trimmed() -> None:
    """A day before the answer, less five minutes; earlier where an older record was still held."""
    at = SCOPE.until_ms + 2 * HOUR_MS
    young = stream_mark(FACTS, SCOPE, CLEAN, read(at, oldest_ms=at - HOUR_MS), writer="w")
    old = stream_mark(FACTS, SCOPE, CLEAN, read(at, oldest_ms=BEGIN_MS - HOUR_MS), writer="w")
    assert young is not None
    assert old is not None
    assert (young.from_ms, old.from_ms) == (at + 1000 - DAY_MS + 5 * MINUTE_MS, BEGIN_MS)


def test_a_mark_stands_on_the_last_segment_of_the_scope() -> None:
    """What lies behind it was not compared."""
    mark = stream_mark(FACTS, SCOPE, CLEAN, read(SCOPE.until_ms + HOUR_MS), writer="w")
    assert mark is not None
    assert mark.position == Position(1)


@pytest.mark.parametrize(
    "compared",
    [Comparison((finding(Code.MISSING_IN_ARCHIVE, "x"),), 3, 0), Comparison((), 3, 1)],
    ids=["lost", "young"],
)
def test_a_comparison_that_found_something_proves_nothing(compared: Comparison) -> None:
    """A record that is missing, or too young to tell."""
    assert stream_mark(FACTS, SCOPE, compared, read(SCOPE.until_ms), writer="w") is None


def test_a_stream_that_names_no_time_proves_nothing() -> None:
    """Nobody can tell since when it held what it held."""
    log = ReadLog(since_ms=0, asked_ms=None, answered_ms=None)
    assert stream_mark(FACTS, SCOPE, CLEAN, log, writer="w") is None


def test_a_mark_ends_where_records_were_no_longer_compared() -> None:
    """Of a day that is not over, only what had passed is read: by a slow clock, or long before the shard's turn."""
    compared_ms = SCOPE.until_ms - HOUR_MS
    log = read(SCOPE.until_ms + HOUR_MS, until_ms=compared_ms)
    mark = stream_mark(FACTS, SCOPE, CLEAN, log, writer="w")
    assert mark is not None
    assert mark.until_ms == compared_ms
