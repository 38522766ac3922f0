"""Looks at quiet shards: when one is due, where it begins, and what it says."""

import pytest

from consumer.boundaries.known import ReadShard
from consumer.boundaries.looks import BUSY_MS, QUIET_MS, Look, Looker, is_due
from minutebook.coverage.continuity import Base
from minutebook.format.boundaries import ShardRow, ShardState
from minutebook.format.position import Position
from tests.fakes.clock import START_MS, ManualClock
from tests.fakes.shard import SHARD, FakeShard
from tests.fakes.stream import FakeStream
from tests.witness.aggregate import EMPTY

M = 60_000
FIVE = 5 * M
LOOKED_MS = START_MS + 9 * M
"""What a look ten minutes later says: a minute before its first answer."""
BOUNDARY = START_MS // FIVE * FIVE + FIVE
HOURS_25 = 25 * 60 * M


class Quiet:
    """A shard with one archived record of 10:16, which the clock of the stream has left behind by ten minutes."""

    def __init__(self, *, records: int = 1) -> None:
        self.clock = ManualClock()
        self.shard = FakeShard()
        self.last = Position(self.shard.next)
        for _ in range(records):
            self.shard.put(b"archived", START_MS)
        self.stream = FakeStream(self.shard, clock=self.clock)
        self.looker = Looker(self.stream, self.clock)
        self.base = Base(START_MS - M, self.last)
        self.clock.advance(600)
        self.stream.describe()

    def read(self, *, base: Base | None = None, after: str | None = None) -> ReadShard:
        """Return what is known of the shard."""
        return ReadShard(SHARD, str(self.last) if after is None else after, base, 0, None)

    def look(self, shard: ReadShard, state: ShardState | None = None) -> Look:
        """Look at the shard."""
        return self.looker.look(shard, state)


def test_a_look_at_the_tip_says_that_nothing_else_arrived() -> None:
    """Up to a minute before the last request was sent, since what its durable evidence reaches."""
    quiet = Quiet()

    look = quiet.look(quiet.read(base=quiet.base))

    assert look.row == ShardRow(START_MS - M, LOOKED_MS, LOOKED_MS, str(quiet.last))


def test_a_record_behind_the_position_ends_the_look() -> None:
    """A processor has it, or gets it: its segment will say how far the archive reaches."""
    quiet = Quiet()
    quiet.shard.put(b"new", quiet.clock.now_ms())

    assert quiet.look(quiet.read(base=quiet.base)).row is None


def test_what_kcl_withholds_is_passed_over() -> None:
    """An aggregate without a record is no record."""
    quiet = Quiet()
    quiet.shard.put_undelivered(EMPTY, quiet.clock.now_ms())

    assert quiet.look(quiet.read(base=quiet.base)).row is not None


@pytest.mark.parametrize("has_marker", [True, False])
def test_a_shard_with_nothing_but_an_empty_aggregate_a_minute_is_read_to_its_tip(*, has_marker: bool) -> None:
    """For 20 hours, then its worker is restarted: the next boundary comes, with and without a marker before it."""
    quiet = Quiet()
    for _ in range(20 * 60):
        quiet.clock.advance(60)
        quiet.shard.put_undelivered(EMPTY, quiet.clock.now_ms())
    now_ms = quiet.clock.now_ms()
    state = ShardState(now_ms - 5 * M, now_ms - 5 * M, str(quiet.last), "open") if has_marker else None

    looks = [quiet.look(quiet.read(), state)]
    while looks[-1].goes_on:
        looks.append(quiet.look(quiet.read(), state))

    row = looks[-1].row
    assert row is not None
    assert row.from_ms == (now_ms - 5 * M if has_marker else START_MS - M)
    assert row.until_ms >= now_ms - M
    assert len(looks) <= 4


def test_the_first_look_stands_on_the_newest_marker() -> None:
    """If the processor began at its position; what the marker contains is not read again."""
    quiet = Quiet()
    until_ms = START_MS + 4 * M
    state = ShardState(until_ms, until_ms, str(quiet.last), "open")

    look = quiet.look(quiet.read(), state)

    assert look.row == ShardRow(until_ms, LOOKED_MS, LOOKED_MS, str(quiet.last))


def test_without_a_marker_the_first_look_begins_at_the_tails_own_record() -> None:
    """Its arrival says since when: the rest of its aggregate is read, too."""
    quiet = Quiet()
    state = ShardState(START_MS + M, START_MS + M, "5:0", "open")

    look = quiet.look(quiet.read(), state)

    assert look.row == ShardRow(START_MS - M, LOOKED_MS, LOOKED_MS, str(quiet.last))


def test_the_rest_of_the_tails_aggregate_is_not_archived() -> None:
    """A processor died within it."""
    quiet = Quiet()
    first = quiet.shard.put_aggregate([b"archived", b"not yet"], START_MS + M)[0].position

    look = quiet.look(quiet.read(after=str(first)))

    assert look.row is None


def test_where_records_may_be_trimmed_the_tail_must_be_held() -> None:
    """Evidence of more than a day ago proves nothing by its age."""
    quiet = Quiet()
    quiet.stream.retention_ms = 7 * 24 * 60 * M
    quiet.clock.advance(HOURS_25 / 1000)
    held = quiet.look(quiet.read(base=quiet.base))
    assert held.row is not None
    assert held.row.from_ms == START_MS - M

    quiet.shard.trim_through(quiet.last)
    trimmed = quiet.look(quiet.read(base=quiet.base))

    assert trimmed.row is None or trimmed.row.from_ms == trimmed.row.until_ms


def test_a_closed_shard_was_not_open() -> None:
    """It is at its end: nothing else arrived, and when it closed is not known."""
    quiet = Quiet()
    quiet.shard.closed = True

    look = quiet.look(quiet.read(base=quiet.base))

    assert look.row is not None
    assert look.row.open_ms == 0


def test_the_newest_marker_also_says_that_nothing_is_archived() -> None:
    """The processor began at the shard's beginning, and nothing has arrived since the marker."""
    quiet = Quiet(records=0)
    state = ShardState(START_MS + M, START_MS + M, None, "open")

    look = quiet.look(quiet.read(after="TRIM_HORIZON"), state)

    assert look.row == ShardRow(START_MS + M, LOOKED_MS, LOOKED_MS, None)


def test_a_shard_in_which_nothing_is_archived_waits_for_its_mark() -> None:
    """Its processor writes one at once; a look stands on it."""
    quiet = Quiet(records=0)

    assert quiet.look(quiet.read(after="TRIM_HORIZON")).row is None
    look = quiet.look(quiet.read(base=Base(START_MS + M), after="TRIM_HORIZON"))
    assert look.row is not None
    assert look.row.position is None


@pytest.mark.parametrize(
    ("until_ms", "committed_ms", "after_ms", "is_asked"),
    [
        (BOUNDARY - 1, None, QUIET_MS, True),
        (BOUNDARY - 1, None, QUIET_MS - 1, False),
        (BOUNDARY, None, QUIET_MS, False),
        (BOUNDARY - 1, BOUNDARY - M, QUIET_MS, False),
        (BOUNDARY - 1, BOUNDARY - M, BUSY_MS, True),
        (BOUNDARY, BOUNDARY - M, BUSY_MS, False),
        (BOUNDARY - 10 * M - 1, BOUNDARY + BUSY_MS - M, BUSY_MS, False),
        (BOUNDARY - 10 * M, BOUNDARY + BUSY_MS - M, BUSY_MS, True),
        (BOUNDARY - 10 * M - 1, BOUNDARY + BUSY_MS - 2 * M, BUSY_MS, True),
    ],
)
def test_when_a_look_is_due(until_ms: int, committed_ms: int | None, after_ms: int, *, is_asked: bool) -> None:
    """Soon after a boundary at a quiet shard, later at a busy one whose segments do not reach it by themselves.

    Not at one that catches up: each would take of its reads, and meet a record.
    """
    shard = ReadShard(SHARD, "7:0", Base(0, Position(7)), until_ms, committed_ms)

    assert is_due(shard, BOUNDARY + after_ms, FIVE) is is_asked
