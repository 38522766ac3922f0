"""Level `stream`: what a part of the shards, or of the day, proves, what it does not, and its marks."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from compaction.audit.audit import audit_day
from compaction.audit.stream.level import stream_mark
from compaction.audit.stream.records import Comparison
from compaction.audit.stream.slices import ComparedWindow, cut_slices
from compaction.inventory.segments import ArchivedSegment, ListedSegment
from compaction.job.context import AuditOptions
from compaction.stream.kinesis import ReadLog, ReadSpan, Sent
from compaction.verdict.audit_document import Audit
from compaction.verdict.findings import Code, finding
from consumer.stream.port import StreamIdentity
from minutebook.coverage.chain import ChainView
from minutebook.coverage.evidence import EvidenceLink, Kind
from minutebook.coverage.intervals import Interval
from minutebook.coverage.shard_coverage import ShardFacts
from minutebook.errors import StreamUnavailable
from minutebook.format.day import Day
from minutebook.format.metadata import ChainStart
from minutebook.format.minute import MINUTE_MS, minute_text
from minutebook.format.position import Position
from minutebook.format.read_mark import read_mark_folder
from minutebook.format.record import Record
from minutebook.store.places import open_storage
from minutebook.store.storage import Address, Storage
from tests.corpus.auditing import job_context
from tests.corpus.model import PREFIX, STREAM_ARN
from tests.fakes.archive_scene import ArchiveScene
from tests.fakes.clock import ManualClock
from tests.fakes.stream import DAY_MS
from tests.fakes.stream_reader import HeldStream

DAY = Day.parse("2026-11-20")
ONE, TWO = "shardId-000000000000", "shardId-000000000001"
BEGIN_MS = DAY.begin_ms - DAY_MS
NOW_MS = DAY.begin_ms + 720 * MINUTE_MS
MINUTES = range(10, 700, 30)


def sent(minute: int) -> Record:
    """Return the record of a minute of the day."""
    return Record(str(1000 + minute), 0, "k", DAY.begin_ms + minute * MINUTE_MS, b"%d" % minute)


class Failing(HeldStream):
    """Cannot be read in one shard, or loses records in front of its reader."""

    fault: str = ""
    meanwhile: Callable[[], object] | None = None

    def read(self, shard_id: str, reach: ReadSpan, log: ReadLog) -> Iterator[Sent]:
        """Fail in the second shard."""
        return self._half(shard_id, reach, log)

    def _half(self, shard_id: str, reach: ReadSpan, log: ReadLog) -> Iterator[Sent]:
        found = list(super().read(shard_id, reach, log))
        if shard_id == TWO and self.fault == "overtaken":
            log.is_broken = True
            found = found[:3]
        yield from found[:5]
        if shard_id == TWO and self.fault == "unavailable":
            raise StreamUnavailable("throttled for two minutes")
        yield from found[5:]
        if self.meanwhile is not None:
            self.meanwhile()


class Compared(NamedTuple):
    """An archive of two shards, and a stream that holds the same."""

    folder: Path
    storage: Storage

    def audit(
        self,
        *,
        fault: str = "",
        sample: int | None = None,
        lost: int | Record | None = None,
        oldest_ms: int | None = None,
        now_ms: int = NOW_MS,
        since_minute: int = 0,
        meanwhile: Callable[[], object] | None = None,
    ) -> Audit:
        """Audit the day so far; the stream holds one record more where `lost` names its minute, or is it.

        `meanwhile` happens when the stream has been read. What arrived before minute `since_minute` was trimmed, and
        the stream's present retention does not show it.
        """
        extra = [] if lost is None else [lost if isinstance(lost, Record) else sent(lost)]
        rows = sorted([*map(sent, MINUTES), *extra], key=lambda row: row.position)
        held_ms = DAY.begin_ms + since_minute * MINUTE_MS if oldest_ms is None else oldest_ms
        rows = [row for row in rows if row.arrival_ms >= held_ms]
        held = Failing(STREAM_ARN, BEGIN_MS, {ONE: rows, TWO: rows}, now_ms, oldest_ms)
        held.fault, held.meanwhile = fault, meanwhile
        given = job_context(self.folder, clock=ManualClock(now_ms))
        given = given._replace(stream=lambda: held, shards=held.listed)  # type: ignore[arg-type,return-value]  # the reader's methods
        options = AuditOptions(level="stream", so_far_ms=NOW_MS - 5 * MINUTE_MS, sample_minutes=sample)
        return audit_day(given, DAY, options).audit

    def marked(self) -> set[str]:
        """Return the shards of which a mark of level stream was written."""
        folder = read_mark_folder(PREFIX, DAY)
        rows = [row.key.removeprefix(folder) for row in self.storage.list_objects(folder)]
        return {name.partition("/")[0] for name in rows if "-stream-" in name}


@pytest.fixture
def compared(tmp_path: Path) -> Compared:
    """Return a whole archive."""
    storage = open_storage(Address(None, str(tmp_path)))
    scene = ArchiveScene(storage, PREFIX)
    scene.settle(StreamIdentity(STREAM_ARN, BEGIN_MS, DAY_MS))
    scene.first(ONE, TWO)
    for shard in (ONE, TWO):
        scene.begin(shard, first=str(sent(10).position))
        for minute in MINUTES:
            scene.segment(shard, DAY.first_minute + minute, [sent(minute)])
    return Compared(tmp_path, storage)


def status(audit: Audit) -> dict[str, str]:
    """Return the checks about the stream."""
    return {check.id: check.status for check in audit.checks if check.id.startswith("stream_")}


def test_a_whole_reading_proves_both_shards(compared: Compared) -> None:
    """A mark for each."""
    assert compared.audit().verdict == "clean"
    assert compared.marked() == {ONE, TWO}


def test_a_shard_that_cannot_be_read_leaves_the_other_compared(compared: Compared) -> None:
    """One is proven, and the answer is unknown, with the shard's name."""
    audit = compared.audit(fault="unavailable")
    assert (audit.verdict, compared.marked()) == ("unknown", {ONE})
    assert status(audit) == {"stream_compared": "pass", "stream_readable": "unknown"}
    assert TWO in next(check.message for check in audit.checks if check.id == "stream_readable")


def test_what_retention_took_in_front_of_the_reader_is_not_foreign(compared: Compared) -> None:
    """The archive holds it, the stream did not show it: that proves nothing, and accuses nobody."""
    audit = compared.audit(fault="overtaken")
    assert (audit.verdict, compared.marked()) == ("unknown", {ONE})
    assert {about.code for about in audit.findings} == {"unproven_end"}
    assert status(audit)["stream_unbroken"] == "unknown"


def test_a_sample_writes_no_mark_and_says_what_it_left_out(compared: Compared) -> None:
    """Nothing that it compared proves the day: the verdict is that of the evidence without it."""
    audit = compared.audit(sample=60)
    assert (audit.verdict, compared.marked()) == ("unknown", set())
    assert status(audit) == {"stream_sample": "warning"}
    [told] = [check.message for check in audit.checks if check.id == "stream_sample"]
    assert "60 minutes of each" in told
    assert "the rest of the day was not compared" in told
    codes = {check.id: check.status for check in audit.checks}
    assert (codes["missing_in_archive"], codes["not_in_stream"]) == ("not_asked", "not_asked")


def test_a_sample_sees_what_lies_within_it_and_nothing_else(compared: Compared) -> None:
    """A loss in the window of a shard is a defect."""
    window = ComparedWindow.of(DAY, NOW_MS - 5 * MINUTE_MS, 60)
    begin_ms, end_ms = window.times(ONE)
    inside = (begin_ms - DAY.begin_ms) // MINUTE_MS + 7
    found = compared.audit(sample=60, lost=inside).findings
    assert [about.shard for about in found if about.code == "missing_in_archive"][:1] == [ONE]
    outside = next(
        minute
        for minute in range(11, 600)
        if not any(
            one[0] <= DAY.begin_ms + minute * MINUTE_MS < one[1]
            for one in (window.times(shard) for shard in (ONE, TWO))
        )
        and minute not in MINUTES
    )
    assert "missing_in_archive" not in {about.code for about in compared.audit(sample=60, lost=outside).findings}
    assert end_ms - begin_ms == 60 * MINUTE_MS


def test_a_sample_as_long_as_the_day_is_none(compared: Compared) -> None:
    """All of it is compared, and proven."""
    assert compared.audit(sample=1440).verdict == "clean"
    assert compared.marked() == {ONE, TWO}


def keys_audit(compared: Compared) -> Audit:
    """Audit the day so far without the stream's records."""
    held = HeldStream(STREAM_ARN, BEGIN_MS, {ONE: [], TWO: []}, NOW_MS)
    given = job_context(compared.folder, clock=ManualClock(NOW_MS))._replace(shards=held.listed)  # type: ignore[arg-type]  # the part that is read
    return audit_day(given, DAY, AuditOptions(so_far_ms=NOW_MS - 5 * MINUTE_MS)).audit


def lost_times(audit: Audit) -> list[tuple[str | None, str, str]]:
    """Return the shard and the times that are lost."""
    return [(about.shard, about.begins, about.until) for about in audit.findings if "lost" in about.reasons]


def object_of(compared: Compared, minute: int, shard: str = ONE) -> str:
    """Return the key of the segment of a minute."""
    [key] = [
        row.key
        for row in compared.storage.list_objects(PREFIX)
        if shard in row.key and f"{1000 + minute}-" in row.key.rpartition("/")[2] and "/_" not in row.key
    ]
    return key


LOST_MINUTE = ("2026-11-20T01:47:00.000Z", "2026-11-20T01:48:00.000Z")


def test_a_loss_lasts_against_all_that_is_proven(compared: Compared) -> None:
    """Only the stream ever showed it; segments and an earlier comparison prove the same time, and the rest of it."""
    assert (compared.audit().verdict, keys_audit(compared).verdict) == ("clean", "clean")
    seen = compared.audit(lost=107)
    assert (seen.verdict, {about.code for about in seen.findings}) == ("defects", {"missing_in_archive"})
    for _ in range(2):
        found = keys_audit(compared)
        assert found.verdict == "defects"
        assert lost_times(found) == [(ONE, *LOST_MINUTE), (TWO, *LOST_MINUTE)]
        assert {(about.code, about.severity) for about in found.findings} == {("broken_chain", "defect")}


def test_an_earlier_loss_is_reported_beside_a_new_one(compared: Compared) -> None:
    """What this comparison misses stands as missing, the other one as lost."""
    compared.audit(lost=107)
    found = compared.audit(lost=207)
    assert lost_times(found) == [(ONE, *LOST_MINUTE), (TWO, *LOST_MINUTE)]
    assert {about.minute for about in found.findings if about.code == "missing_in_archive"} == {"2026-11-20T03:27Z"}


def test_a_loss_beside_an_uncovered_time_is_reported_once(compared: Compared) -> None:
    """It lies in the last segment's minute, behind which nothing is covered: one gap. An earlier loss is told."""
    last = sent(MINUTES[-1])
    before = Record(str(last.position.sequence - 1), 0, "k", last.arrival_ms, b"lost")
    found = compared.audit(lost=before)
    assert {about.code for about in found.findings} == {"missing_in_archive"}
    found = compared.audit(lost=107)
    assert {about.code for about in found.findings} == {"missing_in_archive", "broken_chain"}


def test_a_comparison_of_another_run_washes_no_loss_away(compared: Compared) -> None:
    """One that had not read the lost mark may be older, whenever its own mark was stored or copied."""
    compared.audit(lost=107)
    folder = read_mark_folder(PREFIX, DAY)
    lost = {row.key for row in compared.storage.list_objects(folder)}
    bodies = {key: stored.body for key in lost if (stored := compared.storage.get(key)) is not None}
    compared.storage.delete(sorted(lost))
    assert compared.audit().verdict == "clean"
    for key, body in bodies.items():
        compared.storage.put_if_absent(key, body, {}, "application/json")
    assert lost_times(keys_audit(compared)) == [(ONE, *LOST_MINUTE), (TWO, *LOST_MINUTE)]


def test_a_sample_that_sees_a_loss_lets_it_last(compared: Compared) -> None:
    """It proves nothing, and yet what it saw is so."""
    window = ComparedWindow.of(DAY, NOW_MS - 5 * MINUTE_MS, 60)
    begin_ms, _ = window.times(ONE)
    compared.audit(sample=60, lost=(begin_ms - DAY.begin_ms) // MINUTE_MS + 7)
    assert ONE in {shard for shard, _, _ in lost_times(keys_audit(compared))}


def test_what_is_archived_after_all_answers_the_loss(compared: Compared) -> None:
    """A fresh comparison that had read the lost mark, of the same times; a sample, or a trimmed stream, does not."""
    assert compared.audit().verdict == "clean"
    key = object_of(compared, 400)
    stored, head = compared.storage.get(key), compared.storage.head(key)
    assert stored is not None
    assert head is not None
    compared.storage.delete([key])
    assert compared.audit().verdict == "defects"
    compared.storage.put_if_absent(key, stored.body, head.metadata, "application/gzip")
    begins, until = "2026-11-20T06:40:00.000Z", "2026-11-20T06:41:00.000Z"
    assert lost_times(keys_audit(compared)) == [(ONE, begins, until)]
    compared.audit(sample=60)
    compared.audit(oldest_ms=DAY.begin_ms + 402 * MINUTE_MS, now_ms=DAY.begin_ms + 402 * MINUTE_MS + DAY_MS)
    assert lost_times(keys_audit(compared)) == [(ONE, begins, until)]
    assert compared.audit().verdict == "clean"
    assert keys_audit(compared).verdict == "clean"
    compared.storage.delete([key])
    compared.audit()
    compared.storage.put_if_absent(key, stored.body, head.metadata, "application/gzip")
    assert lost_times(keys_audit(compared)) == [(ONE, begins, until)]


def test_a_segment_that_cannot_be_read_is_no_loss(compared: Compared) -> None:
    """It is a defect as long as it is damaged, and none once it is repaired."""
    key = object_of(compared, 400)
    path = compared.folder / key
    whole = path.read_bytes()
    path.write_bytes(bytes(len(whole)))
    found = compared.audit()
    assert {about.code for about in found.findings if about.severity == "defect"} >= {"missing_in_archive"}
    path.write_bytes(whole)
    assert lost_times(keys_audit(compared)) == []
    assert compared.audit().verdict == "clean"


def test_what_is_committed_while_the_stream_is_read_is_no_loss(compared: Compared) -> None:
    """The listing that was compared is older than the archive: the next audit looks again."""
    key = object_of(compared, 400)
    stored, head = compared.storage.get(key), compared.storage.head(key)
    assert stored is not None
    assert head is not None
    compared.storage.delete([key])
    found = compared.audit(
        meanwhile=lambda: compared.storage.put_if_absent(key, stored.body, head.metadata, "application/gzip")
    )
    assert "missing_in_archive" in {about.code for about in found.findings}
    assert lost_times(keys_audit(compared)) == []
    assert compared.audit().verdict == "clean"


def extra(audit: Audit) -> list[tuple[str | None, str | None]]:
    """Return the shards and minutes in which the archive holds what the stream does not."""
    return [(about.shard, about.minute) for about in audit.findings if about.code == "not_in_stream"]


@pytest.mark.parametrize("kept", [245, 669, 3000])
def test_what_an_earlier_retention_trimmed_is_not_foreign(compared: Compared, kept: int) -> None:
    """The retention was raised lately: it tells nothing of what had been trimmed, and the first record given does."""
    found = compared.audit(since_minute=kept)
    assert extra(found) == []
    assert (found.verdict, status(found)["stream_reach"]) == ("unknown", "unknown")


@pytest.mark.parametrize("minute", [251, 431, 671])
def test_a_foreign_segment_among_what_the_stream_holds_is_found(compared: Compared, minute: int) -> None:
    """Whatever had been trimmed before, and also behind the last record that the stream holds."""
    scene = ArchiveScene(compared.storage, PREFIX)
    scene.segment(ONE, DAY.first_minute + minute, [sent(minute)], after=Position(1000 + minute - 1))
    assert extra(compared.audit(since_minute=245)) == [(ONE, minute_text(DAY.first_minute + minute))]


def test_windows_lie_within_the_scope_and_differ(compared: Compared) -> None:
    """By shard and by day; the same command looks at the same place."""
    del compared
    window = ComparedWindow.of(DAY, DAY.end_ms, 7)
    times = [window.times(f"shardId-{number}") for number in range(200)]
    assert all(DAY.begin_ms <= begin and end <= DAY.end_ms and begin % MINUTE_MS == 0 for begin, end in times)
    assert len(set(times)) > 100
    assert times == [window.times(f"shardId-{number}") for number in range(200)]


def segment(first: int, last: int, size: int) -> ArchivedSegment:
    """Return a segment of these positions and bytes of payload."""
    scene = ArchiveScene(open_storage(Address(None, "/nonexistent")), PREFIX)
    rows = [Record(str(number), 0, "k", DAY.begin_ms, bytes(size)) for number in (first, last)]
    made = scene.segment(ONE, DAY.first_minute, rows, is_stored=False)
    return ArchivedSegment(ListedSegment(made.key, 1, "e", 0, None), made.metadata)


def test_a_cut_lies_where_everything_before_it_has_ended() -> None:
    """Segments that overlap stay together, whatever their size."""
    rows = [segment(1, 2, 10), segment(3, 9, 10), segment(5, 6, 10), segment(7, 8, 10), segment(10, 11, 10)]
    slices = cut_slices(reversed(rows), 1)
    assert [[one.metadata.first.sequence for one in part.segments] for part in slices] == [[1], [3, 5, 7], [10]]
    assert [part.start and part.start.sequence for part in slices] == [None, 3, 10]
    assert [part.stop and part.stop.sequence for part in slices] == [3, 10, None]
    assert len(cut_slices(rows, 1000)) == 1
    assert [part.segments for part in cut_slices([], 1)] == [()]


HOUR_MS = 60 * MINUTE_MS
MIDNIGHT_MS = 20_800 * DAY_MS
SCOPE = Interval(MIDNIGHT_MS, MIDNIGHT_MS + DAY_MS)
CLEAN = Comparison((), 3, 0)


def link(number: int, minute_ms: int) -> EvidenceLink:
    """Return a segment of one record."""
    after = ChainStart("TRIM_HORIZON") if number == 1 else Position(number - 1)
    position = Position(number)
    return EvidenceLink(Kind.SEGMENT, position, position, after, minute_ms - MINUTE_MS, minute_ms, minute_ms, "run")


FACTS = ShardFacts("shardId-0", ChainView((link(1, MIDNIGHT_MS), link(2, SCOPE.until_ms)), Position(1)))


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
    old = stream_mark(FACTS, SCOPE, CLEAN, read(at, oldest_ms=MIDNIGHT_MS - HOUR_MS), writer="w")
    assert young is not None
    assert old is not None
    assert (young.from_ms, old.from_ms) == (at + 1000 - DAY_MS + 5 * MINUTE_MS, MIDNIGHT_MS)


def test_a_mark_stands_on_the_last_segment_of_the_scope() -> None:
    """What lies behind it was not compared."""
    mark = stream_mark(FACTS, SCOPE, CLEAN, read(SCOPE.until_ms + HOUR_MS), writer="w")
    assert mark is not None
    assert mark.position == Position(1)


def test_a_mark_of_a_shard_without_a_record_yet_names_no_position() -> None:
    """Its first segment lies behind the scope; one that is unknown, or holds earlier records, leaves it unproven."""
    log, first = read(SCOPE.until_ms + HOUR_MS), link(1, SCOPE.until_ms)
    mark = stream_mark(FACTS._replace(chain=ChainView((first,), Position(1))), SCOPE, CLEAN, log, writer="w")
    assert mark is not None
    assert (mark.position, mark.until_ms) == (None, SCOPE.until_ms)
    early = first._replace(arrival_min_ms=SCOPE.until_ms - 1)
    for links in ((), (early,), (link(2, SCOPE.until_ms),)):
        assert stream_mark(FACTS._replace(chain=ChainView(links, Position(1))), SCOPE, CLEAN, log, writer="w") is None


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
