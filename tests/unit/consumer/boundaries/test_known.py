"""What a supervisor takes from its processors' lines, and when a line counts."""

from consumer.boundaries.known import ADOPTED, BEHIND, END_PROVEN, FOUND, MARKED, KnownShards, row_of
from consumer.child_logs.processor_log import COMMITTED, OPENED, ProcessorEvent
from minutebook.coverage.continuity import Base
from minutebook.format.boundaries import ShardRow
from minutebook.format.position import Position
from tests.fakes.clock import START_MS

SHARD = "shardId-000000000000"
M = 60_000


def event(name: str, **fields: object) -> ProcessorEvent:
    """Return a line of the shard's processor."""
    return ProcessorEvent(event=name, shard=SHARD, **fields)  # type: ignore[arg-type]  # by their names


def committed(from_ms: int, until_ms: int, last: str = "7:0") -> ProcessorEvent:
    """Return the line of a segment of the minute 10:16."""
    return event(COMMITTED, covered_from_ms=from_ms, covered_until_ms=until_ms, last=last, minute="2026-11-21T10:16Z")


def read(known: KnownShards, *events: ProcessorEvent) -> None:
    """Take lines, and read the daemon's log to its end after them."""
    for each in events:
        known.note(each)
    known.settle(known.staged(), START_MS)


def test_a_segment_says_its_evidence_and_that_its_shard_was_open() -> None:
    """A minute before its own: arrival times step back. Whatever its evidence claims, in doubt, too."""
    assert row_of(committed(5, 9)) == ShardRow(5, 9, START_MS - M, "7:0")
    assert row_of(committed(9, 9)) == ShardRow(9, 9, START_MS - M, "7:0")


def test_a_mark_in_doubt_begins_a_new_interval() -> None:
    """And a proven one says its own."""
    proven = event(MARKED, covered_from_ms=5, covered_until_ms=9, continuity="proven", last="7:0")
    doubtful = event(MARKED, covered_from_ms=5, covered_until_ms=9, continuity="unproven", last=None)

    assert row_of(proven) == ShardRow(5, 9, 9, "7:0")
    assert row_of(doubtful) == ShardRow(9, 9, 9, None)


def test_an_end_says_whether_its_proof_covers_what_lies_before() -> None:
    """It does not say that the shard was open: the proof comes long after the close."""
    proven = event(END_PROVEN, covered_from_ms=5, covered_until_ms=9, continuity="proven", last="7:0")

    assert row_of(proven) == ShardRow(5, 9, 0, "7:0", "proven")
    lost = event(END_PROVEN, covered_from_ms=5, covered_until_ms=9, continuity="unproven", last="7:0")
    assert row_of(lost) == ShardRow(9, 9, 0, "7:0", "unproven")


def test_a_line_of_an_older_version_says_nothing() -> None:
    """It lacks the begin of its evidence: then the archive is asked."""
    assert row_of(event(COMMITTED, covered_until_ms=9, last="7:0", minute="2026-11-21T10:16Z")) is None


def test_a_line_counts_once_the_daemons_log_was_read_to_its_end() -> None:
    """Until then KCL may have logged that it skipped what the line stands on."""
    known = KnownShards()
    known.note(committed(5, 9))
    before = known.staged()
    known.note(committed(9, 12))
    assert known.take_news() == {}

    known.settle(before, START_MS)

    assert known.take_news() == {SHARD: [ShardRow(5, 9, START_MS - M, "7:0")]}


def test_a_skipped_batch_drops_what_did_not_count_yet() -> None:
    """And all lines up to the daemon's next start: its processor may have chained what came behind the batch."""
    known = KnownShards()
    read(known, committed(5, 9))
    known.note(committed(9, 12))
    known.skipped(SHARD)
    read(known, committed(12, 15))
    assert known.take_news()[SHARD][0].until_ms == 9

    known.daemon_started()
    read(known, event(OPENED, after="7:0"), committed(9, 20))

    assert known.take_news()[SHARD][0].until_ms == 20


def test_a_skipped_batch_of_an_unknown_shard_drops_all_lines() -> None:
    """KCL's line names none."""
    known = KnownShards()
    known.note(committed(5, 9))
    known.skipped("")
    read(known, committed(9, 12))

    assert known.take_news() == {}


def test_lines_that_continue_each_other_become_one_row() -> None:
    """One that begins a new interval stays apart."""
    known = KnownShards()
    read(known, committed(5, 9), committed(9, 12, "8:0"), committed(14, 14, "9:0"), committed(14, 16, "10:0"))

    news = known.take_news()[SHARD]
    assert [(row.from_ms, row.until_ms, row.position) for row in news] == [(5, 12, "8:0"), (14, 16, "10:0")]


def test_a_look_does_not_change_what_the_next_one_stands_on() -> None:
    """It is not durable: if its row is lost with the supervisor, the next row must reach as far back."""
    known = KnownShards()
    read(known, event(OPENED, after="7:0"), committed(5, 9))
    known.looked(SHARD, Base(9, Position(7)), ShardRow(9, 30, 30, "7:0"))

    [shard] = known.to_read()

    assert (shard.base, shard.until_ms) == (Base(9, Position(7)), 30)


def test_a_look_that_stood_on_something_else_is_dropped() -> None:
    """A segment was committed meanwhile."""
    known = KnownShards()
    read(known, event(OPENED, after="7:0"), committed(5, 9))
    known.take_news()
    known.looked(SHARD, Base(5, Position(6)), ShardRow(5, 30, 30, "6:0"))

    assert known.take_news() == {}


def test_a_processor_that_begins_elsewhere_forgets_the_base() -> None:
    """Another worker has archived more; where it begins at the same position, the base stays."""
    known = KnownShards()
    read(known, event(OPENED, after="7:0"), committed(5, 9))
    known.daemon_started()
    read(known, event(OPENED, after="7:0"))
    assert known.to_read()[0].base == Base(9, Position(7))
    known.daemon_started()

    read(known, event(OPENED, after="12:0"))

    assert known.to_read()[0].base is None


def test_a_shard_of_another_worker_is_not_looked_at() -> None:
    """Nor one that has ended."""
    known = KnownShards()
    read(known, event(OPENED, after="7:0"))
    assert len(known.to_read()) == 1

    read(known, event("lease_lost"))

    assert known.to_read() == []


def test_a_processor_that_leaves_late_leaves_the_shard_to_the_next_one() -> None:
    """It hung in a request while this worker lost the lease, and opened the shard anew."""
    known = KnownShards()
    read(known, event(OPENED, after="7:0", pid=1), event(OPENED, after="9:0", pid=2), event("lease_lost", pid=1))

    assert [shard.after for shard in known.to_read()] == ["9:0"]
    read(known, event("lease_lost", pid=2))
    assert known.to_read() == []


def test_a_mark_of_an_earlier_run_is_what_the_first_look_stands_on() -> None:
    """A quiet shard's next mark comes in an hour: until then a restarted worker would hold every boundary."""
    known = KnownShards()
    read(known, event(OPENED, after="TRIM_HORIZON"), event(FOUND, covered_until_ms=30, last=None))

    [shard] = known.to_read()

    assert (shard.base, known.take_news()) == (Base(30), {})


def test_a_look_stands_on_a_stream_that_is_empty_behind_a_checkpoint() -> None:
    """All that the archive has was trimmed: nobody knows where its chain ends, and nothing has come behind it."""
    known = KnownShards()
    read(known, event(OPENED, after="TRIM_HORIZON"), event(BEHIND, covered_until_ms=START_MS - M))

    assert known.to_read()[0].base == Base(START_MS - M)
    assert known.take_news() == {SHARD: [ShardRow(START_MS - M, START_MS - M, START_MS - M, None)]}


def test_a_look_stands_on_a_segment_that_the_processor_found_stored() -> None:
    """Its checkpoint was older than the archive: behind where it began lie records, and all of them are archived."""
    known = KnownShards()
    adopted = event(ADOPTED, covered_until_ms=START_MS - M, last="9:0", minute="2026-11-21T10:16Z")
    read(known, event(OPENED, after="7:0"), adopted)

    assert known.to_read()[0].base == Base(START_MS - M, Position(9))
    assert known.take_news() == {SHARD: [ShardRow(START_MS - M, START_MS - M, START_MS - M, "9:0")]}
