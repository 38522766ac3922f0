"""Stories of lost data that an audit once called clean, told to the nightly job and `expire`; see tests/README.md."""

from pathlib import Path

import msgspec
import pytest

from compaction.audit.audit import audit_day
from compaction.inventory.checkpoints import Checkpoints
from compaction.job.context import AuditOptions
from compaction.night.due import find_due
from compaction.verdict.audit_document import Audit
from consumer.stream.port import StreamIdentity
from minutebook.coverage.topology import ShardRow
from minutebook.format.aggregate import LAST_HASH_KEY, HashRange
from minutebook.format.day import Day
from minutebook.format.metadata import ChainStart, Continuity
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.format.read_mark import BIRTH, MarkKind, ReadMark
from minutebook.format.record import Record
from minutebook.store.places import open_storage
from minutebook.store.storage import Address, Storage
from tests.corpus.auditing import job_context
from tests.corpus.desk import DAY, Desk
from tests.corpus.model import PREFIX, STREAM_ARN, Corpus, Shape, make_segment
from tests.fakes.archive_scene import ArchiveScene, end_marker
from tests.fakes.clock import ManualClock
from tests.fakes.published_archive import expire_published
from tests.fakes.stream import DAY_MS

S0, S1 = "shardId-000000000000", "shardId-000000000001"
EVERY = (0, LAST_HASH_KEY)


class Tale:
    """One first shard of a stream as old as three days at the day's begin, and an archive that a test writes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scene: ArchiveScene[Storage] = ArchiveScene(open_storage(Address(None, str(folder))), PREFIX)
        self.scene.settle(StreamIdentity(STREAM_ARN, DAY.begin_ms - 3 * DAY_MS, DAY_MS))
        self.scene.first(S0)
        self.scene.begin(S0)

    def segments(self, shard_id: str, *minutes: int, continuity: Continuity | None = None) -> None:
        """Append segments of one run, at minutes of the day."""
        for minute in minutes:
            self.scene.segment(
                shard_id,
                DAY.first_minute + minute,
                writer=f"run{shard_id[-1]}-{minute + 9000}",
                continuity=continuity,
            )
            continuity = None

    def ended(self, shard_id: str, minute: int, *children: str) -> None:
        """Let a shard be read to its end at a minute of the day."""
        until_ms = DAY.begin_ms + minute * MINUTE_MS
        self.scene.read_on(shard_id, until_ms, kind=MarkKind.END)
        last = self.scene._tails[shard_id]
        self.scene.put_end(end_marker(shard_id, last, children=children))

    def audit(self, day: Day = DAY, *rows: ShardRow, table: Checkpoints | None = None) -> Audit:
        """Audit a day two weeks later, when KCL's table holds these rows."""
        context = job_context(self.folder, clock=ManualClock(DAY.shift(14).begin_ms))
        context = context._replace(checkpoints=lambda: table or Checkpoints({}, rows=rows))
        return audit_day(context, day, AuditOptions()).audit


def told(found: Audit) -> list[tuple[str, str, str | None]]:
    """Return the findings in brief."""
    return sorted(((one.code, one.severity, one.shard) for one in found.findings), key=str)


def away(*, lost: str) -> Corpus:
    """Return an archive whose consumer dies at 11:40 and comes back three days later."""
    corpus = Corpus(DAY, shape=Shape(shards=1))
    shard = corpus.shards[0]
    last = DAY.first_minute + 700
    shard.segments = [one for one in shard.segments if one.metadata.minute < last]
    tail = shard.segments[-1].metadata.last
    for number, offset in enumerate((3 * 1440 + 5, 4 * 1440 + 5)):
        minute = DAY.first_minute + offset
        late = [Record(str(tail.sequence + 10**6), 0, "k", minute * MINUTE_MS, b"x")]
        made = make_segment(shard.shard_id, minute, late, tail, f"later-{number}", None)
        if number == 0 and lost:
            made.fields["continuity"] = lost
        shard.segments.append(made)
        tail = made.metadata.last
    return corpus


@pytest.mark.parametrize("lost", ["unproven", "lost", ""])
def test_an_outage_of_three_days_leaves_no_day_clean_and_nothing_is_expired(tmp_path: Path, lost: str) -> None:
    """The stream keeps 24 hours. Every day that the gap touches, the first one too; also where nobody marked it."""
    desk = Desk(tmp_path, away(lost=lost))
    desk.clock.advance(10 * 86_400)
    verdicts = [desk.compact(day=DAY.shift(number)).verdict for number in range(4)]
    assert verdicts == ["defects" if lost == "lost" else "unknown"] * 4
    before = [row.key for row in open_storage(Address(None, str(desk.raw))).list_objects(DAY.path(PREFIX))]
    text = expire_published(desk.raw, desk.out, desk.clock)
    assert [row.key for row in open_storage(Address(None, str(desk.raw))).list_objects(DAY.path(PREFIX))] == before
    assert f"minutebook audit --date {DAY}" in text or f"minutebook compact --date {DAY}" in text


def test_a_consumer_that_died_with_its_checkpoint_at_the_tail_is_looked_at_again(tmp_path: Path) -> None:
    """The day is not clean in the night behind it, nor the week after, and each night judges it anew."""
    corpus = Corpus(DAY, shape=Shape(shards=1))
    shard = corpus.shards[0]
    shard.segments = [one for one in shard.segments if one.metadata.minute < DAY.first_minute + 620]
    desk = Desk(tmp_path, corpus)
    at_tail = {shard.shard_id: shard.segments[-1].metadata.last}
    for days in (1, 7):
        desk.clock = ManualClock(DAY.shift(days).begin_ms + 60 * MINUTE_MS)
        done = desk.compact(checkpoints=lambda: Checkpoints(at_tail))
        assert done.verdict == "unknown"
        due = find_due(desk.context(), desk.out, AuditOptions(), 14)
        assert {each.day: each.why for each in due.days}[DAY] == "it is not clean"


def test_a_child_that_was_trimmed_whole_is_not_clean(tmp_path: Path) -> None:
    """Nobody read a record of it, and `end.json` says that it was read to its end: there is no evidence of that."""
    tale = Tale(tmp_path)
    tale.segments(S0, -60, 300, 600)
    tale.ended(S0, 610, S1)
    tale.scene.opened(S1, EVERY, S0)
    tale.scene.put_end(end_marker(S1, None, written_at="2026-11-23T00:00:00.000Z"))
    found = tale.audit()
    assert (found.verdict, ("unproven_end", "unknown", S1) in told(found)) == ("unknown", True)


@pytest.mark.parametrize("continuity", [Continuity.UNPROVEN, None], ids=["said", "of an earlier version"])
def test_a_child_that_was_begun_a_day_late_is_not_clean(tmp_path: Path, continuity: Continuity | None) -> None:
    """It starts at TRIM_HORIZON as every child does, whatever had been trimmed by then."""
    tale = Tale(tmp_path)
    tale.segments(S0, -60, 300, 600)
    tale.ended(S0, 610, S1)
    tale.scene.opened(S1, EVERY, S0)
    late_segment(tale, S1, 610 + 1440 + 5, continuity)
    assert tale.audit().verdict == "unknown"
    assert {shard for _, _, shard in told(tale.audit())} == {S1}


@pytest.mark.parametrize("continuity", [Continuity.UNPROVEN, None], ids=["said", "of an earlier version"])
def test_a_root_that_was_killed_before_its_first_commit_is_not_clean(
    tmp_path: Path, continuity: Continuity | None
) -> None:
    """It comes back after three days, behind start.json and before any segment."""
    tale = Tale(tmp_path)
    late_segment(tale, S0, 10, continuity)
    for day in (DAY.shift(-3), DAY.shift(-2), DAY.shift(-1), DAY):
        assert tale.audit(day).verdict == "unknown"


def late_segment(tale: Tale, shard_id: str, minute: int, continuity: Continuity | None) -> None:
    """Begin a shard's chain late; without a word about what lies before it, as earlier versions did."""
    record = Record("1000", 0, "k", (DAY.first_minute + minute) * MINUTE_MS, b"x")
    first = make_segment(shard_id, DAY.first_minute + minute, [record], ChainStart("TRIM_HORIZON"), "ab12")
    said = msgspec.structs.replace(first.metadata, continuity=continuity, evidence_ms=None)
    if shard_id != S0:
        tale.scene.begin(shard_id)
    tale.scene.store.put_if_absent(first.key, first.body, said.encode(), "application/gzip")
    record = Record("1005", 0, "k", (DAY.first_minute + minute + 3000) * MINUTE_MS, b"x")
    behind = make_segment(shard_id, DAY.first_minute + minute + 3000, [record], said.last, "ab13", said)
    tale.scene.store.put_if_absent(behind.key, behind.body, behind.fields, "application/gzip")


def test_a_shard_that_only_the_lease_table_names_is_missing(tmp_path: Path) -> None:
    """All of its objects and markers are deleted; KCL's row stands."""
    tale = Tale(tmp_path)
    tale.segments(S0, -60, 300, 600)
    tale.ended(S0, 610)
    row = ShardRow(S1, HashRange(*EVERY), frozenset({S0}))
    found = tale.audit(DAY, row)
    assert (found.verdict, told(found)) == ("unknown", [("missing_shard", "unknown", S1)])


def test_a_split_ten_seconds_before_midnight_holds_no_day(tmp_path: Path) -> None:
    """The parent's end is proven behind midnight, and so are the children's first records: both days are clean."""
    tale = Tale(tmp_path)
    tale.segments(S0, -60, 300, 1200, 1439)
    tale.ended(S0, 1441, S1, "shardId-000000000002")
    half = LAST_HASH_KEY // 2
    tale.scene.begin_ms = BIRTH
    for child, keys in ((S1, (0, half)), ("shardId-000000000002", (half + 1, LAST_HASH_KEY))):
        tale.scene.opened(child, keys, S0)
        tale.scene.begin(child)
        until_ms = DAY.end_ms + 3 * MINUTE_MS
        tale.scene.mark(ReadMark(child, MarkKind.READ, Continuity.PROVEN, BIRTH, until_ms, None, f"w-{child[-1]}"))
        tale.scene._untils[child] = until_ms
        tale.scene._marked.add(child)
        tale.segments(child, 1446, 2000, 2400, 2890)
    assert [(tale.audit(day).verdict, told(tale.audit(day))) for day in (DAY, DAY.shift(1))] == [("clean", [])] * 2


@pytest.mark.parametrize(
    ("application", "findings"), [("another", []), ("app", [("broken_chain", "defect", S0)]), ("", [])]
)
def test_another_applications_lease_table_breaks_no_chain(
    tmp_path: Path, application: str, findings: list[tuple[str, str, str]]
) -> None:
    """It is far ahead in an archive of its own; the table of whoever began this one would show a segment missing."""
    tale = Tale(tmp_path)
    tale.segments(S0, 0, 600, 1441, continuity=Continuity.PROVEN)
    ahead = Position(tale.scene._tails[S0].sequence + 10**6)
    table = Checkpoints({S0: ahead} if application else {}, application=application)
    found = tale.audit(DAY.shift(1), table=table)
    assert [one for one in told(found) if one[0] == "broken_chain"] == findings
    assert any(check.id == "lease_table" for check in found.checks) == (application == "another")
