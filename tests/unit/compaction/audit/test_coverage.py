"""Archives whose chains look whole, and of which something is unproven or gone all the same: what coverage finds."""

from collections.abc import Callable
from pathlib import Path

import pytest

from compaction.audit.audit import audit_day
from compaction.job.context import AuditOptions
from compaction.verdict.audit_document import Audit
from minutebook.format.aggregate import LAST_HASH_KEY
from minutebook.format.coverage_markers import SkippedMarker, encode_coverage_marker, skipped_key
from minutebook.format.day import Day
from minutebook.format.document import FORMAT
from minutebook.format.metadata import Continuity, SegmentMetadata
from minutebook.format.minute import MINUTE_MS
from minutebook.format.read_mark import MarkKind, ReadMark
from minutebook.format.record import Record
from minutebook.store.places import open_storage
from minutebook.store.storage import Address
from tests.corpus.auditing import job_context
from tests.corpus.model import BEGIN_MS, PREFIX, Corpus, Shape, Shard, make_segment
from tests.fakes.archive_scene import ArchiveScene, end_marker
from tests.fakes.clock import ManualClock

DAY = Day.parse("2026-11-20")
S0, S1, S2 = (f"shardId-{number:012d}" for number in range(3))
CHILD, OTHER = "shardId-000000000008", "shardId-000000000009"
THIRD = (LAST_HASH_KEY + 1) // 3
Told = list[tuple[str, str, str | None]]


def audit(corpus: Corpus, folder: Path, day: Day = DAY, *, days_later: int = 9) -> Audit:
    """Write a corpus and audit a day of it, some days later."""
    corpus.write(open_storage(Address(None, str(folder))))
    context = job_context(folder, corpus.checkpoints, clock=ManualClock(DAY.shift(days_later).begin_ms))
    return audit_day(context, day, AuditOptions()).audit


def told(found: Audit) -> Told:
    """Return the findings in brief."""
    return sorted((one.code, one.severity, one.shard) for one in found.findings)


def stop(corpus: Corpus, shard: Shard) -> SegmentMetadata:
    """Let a shard's chain stop in the middle of the day; returns its tail."""
    last = corpus.day.first_minute + 700
    shard.segments = [segment for segment in shard.segments if segment.metadata.minute < last]
    shard.end, shard.checkpoint = None, None
    return shard.segments[-1].metadata


def end(corpus: Corpus, shard: Shard, *children: str) -> None:
    """Let a shard end in the middle of the day, read to its end."""
    tail = stop(corpus, shard)
    written_at = f"{corpus.day}T11:45:00.000Z"
    shard.end = end_marker(shard.shard_id, tail.last, children=children, written_at=written_at)


def resume(corpus: Corpus, shard: Shard, continuity: str) -> None:
    """Let a shard's reader come back three days later."""
    tail = stop(corpus, shard)
    minute = corpus.day.first_minute + 3 * 1440 + 5
    position = tail.last.sequence + 10**6
    late = Record(str(position), 0, "k", minute * MINUTE_MS, b"x")
    made = make_segment(shard.shard_id, minute, [late], tail.last, "later-0")
    made.fields["continuity"] = continuity
    shard.segments.append(made)


def dead_consumer(corpus: Corpus) -> Told:
    """Everything stops in the day, with checkpoints at the tails: nobody knows what came then."""
    for shard in corpus.shards:
        stop(corpus, shard)
    return [("unproven_end", "unknown", shard.shard_id) for shard in corpus.shards]


def gap_over_days(corpus: Corpus) -> Told:
    """Reading resumes two days behind the day: its own segments tell of nothing."""
    resume(corpus, corpus.shards[0], "unproven")
    return [("unproven_end", "unknown", S0)]


def lost_over_days(corpus: Corpus) -> Told:
    """The same, and the reader knows that records were lost."""
    resume(corpus, corpus.shards[0], "lost")
    return [("broken_chain", "defect", S0)]


def shard_never_read(corpus: Corpus) -> Told:
    """One of the first shards has neither a segment nor a marker."""
    corpus.shards.pop(1)
    return [("missing_shard", "unknown", S1)]


def children_never_read(corpus: Corpus) -> Told:
    """A shard ends in the day, names two children, and nobody was given them. Their keys are unknown."""
    end(corpus, corpus.shards[1], CHILD, OTHER)
    return [("missing_shard", "unknown", CHILD), ("missing_shard", "unknown", OTHER)]


def child_begun_late(corpus: Corpus) -> Told:
    """A shard ends in the day; its child's first records may have been trimmed unread."""
    child = corpus.shards[0]
    end(corpus, corpus.shards[1], S0)
    corpus.first = [S1, S2]
    begin = child.segments[-2]
    child.segments = child.segments[-2:]
    begin.fields = {**begin.metadata.encode(), "after": "TRIM_HORIZON", "continuity": "unproven"}
    begin.metadata = SegmentMetadata.decode(begin.fields)
    return [("unproven_end", "unknown", S0)]


def skipped_batch(corpus: Corpus) -> Told:
    """The daemon told of records that it skipped; the chain goes on behind them as if nothing were."""
    logged_ms = corpus.day.begin_ms + 601 * MINUTE_MS
    marker = SkippedMarker(
        format=FORMAT, shard=S0, logged_at_ms=logged_ms, message="skipped", writer="w", written_at=""
    )
    corpus.objects[skipped_key(PREFIX, S0, logged_ms, "w")] = (encode_coverage_marker(marker), {})
    return [("unproven_end", "unknown", S0)]


def without_evidence(corpus: Corpus) -> Told:
    """An archive of before there was evidence: whole chains, and nothing that says since when and up to when."""
    for shard in corpus.shards:
        shard.end, shard.checkpoint = None, None
        for stored in shard.segments:
            for name in ("continuity", "evidence"):
                stored.fields.pop(name, None)
            stored.fields["writer"] = f"{stored.metadata.minute:032x}"
    return [("unproven_end", "unknown", shard.shard_id) for shard in corpus.shards]


DOUBTS: tuple[Callable[[Corpus], Told], ...] = (
    dead_consumer,
    gap_over_days,
    lost_over_days,
    shard_never_read,
    children_never_read,
    child_begun_late,
    skipped_batch,
    without_evidence,
)


@pytest.mark.parametrize("doubt", DOUBTS, ids=lambda doubt: doubt.__name__)
def test_what_the_chains_do_not_show_is_never_clean(tmp_path: Path, doubt: Callable[[Corpus], Told]) -> None:
    """Exactly what is in doubt, with the time and the reason."""
    corpus = Corpus(DAY)
    expected = sorted(doubt(corpus), key=str)
    found = audit(corpus, tmp_path)
    assert sorted(told(found), key=str) == expected
    assert found.verdict == ("defects" if any(severity == "defect" for _, severity, _ in expected) else "unknown")
    assert all(one.begins < one.until and one.reasons for one in found.findings)


@pytest.mark.parametrize("days", [0, 1, 2, 3])
def test_a_gap_touches_every_day_that_it_reaches(tmp_path: Path, days: int) -> None:
    """Also those without a segment, and the one on which reading resumed."""
    corpus = Corpus(DAY, shape=Shape(shards=1))
    resume(corpus, corpus.shards[0], "lost")
    assert audit(corpus, tmp_path, DAY.shift(days)).verdict == "defects"


@pytest.mark.parametrize("held", [CHILD, OTHER])
def test_a_half_that_nobody_holds_is_missing(tmp_path: Path, held: str) -> None:
    """A shard ends in the day, and only one of its halves is known and read."""
    corpus = Corpus(DAY)
    end(corpus, corpus.shards[1], held)
    middle = THIRD + THIRD // 2
    keys = (THIRD, middle) if held == CHILD else (middle + 1, 2 * THIRD - 1)
    scene = ArchiveScene(open_storage(Address(None, str(tmp_path))), PREFIX)
    scene.opened(held, keys, S1)
    noon_ms, until_ms = DAY.begin_ms + 700 * MINUTE_MS, DAY.end_ms + 65 * MINUTE_MS
    scene.mark(ReadMark(held, MarkKind.READ, Continuity.PROVEN, 0, until_ms, None, "w-1"))
    assert noon_ms < until_ms
    assert told(audit(corpus, tmp_path)) == [("missing_shard", "unknown", None)]


def late_child(corpus: Corpus, folder: Path, *claimed: str) -> Audit:
    """Audit a day in which a shard ends and its child, begun hours later, names these parents besides."""
    child = corpus.shards[0]
    end(corpus, corpus.shards[1], S0)
    corpus.first = [S1, S2]
    child.segments = child.segments[-2:]
    begin = child.segments[0]
    begin.fields = {**begin.metadata.encode(), "after": "TRIM_HORIZON", "continuity": "unproven"}
    begin.metadata = SegmentMetadata.decode(begin.fields)
    scene = ArchiveScene(open_storage(Address(None, str(folder))), PREFIX)
    scene.opened(S0, (0, LAST_HASH_KEY), S1, *claimed)
    return audit(corpus, folder)


def test_a_shard_that_names_itself_as_its_parent_is_judged_whole(tmp_path: Path) -> None:
    """Else what it must be covered for would begin with its own evidence. The marker is a finding."""
    found = late_child(Corpus(DAY), tmp_path, S0)
    named = [one for one in found.findings if one.keys == (f"{PREFIX}_shards/{S0}/opened.json",)]
    assert ([one.code for one in named], found.verdict) == (["unreadable_object"], "defects")
    assert ("unproven_end", "unknown", S0) in told(found)


def test_shards_that_name_each_other_as_parents_are_a_finding(tmp_path: Path) -> None:
    """Two markers, neither of which is wrong by itself."""
    corpus = Corpus(DAY)
    scene = ArchiveScene(open_storage(Address(None, str(tmp_path))), PREFIX)
    scene.opened(S1, (0, LAST_HASH_KEY), S0)
    found = late_child(corpus, tmp_path)
    assert found.verdict == "unknown"
    assert [one.severity for one in found.findings if one.reasons == ("circle",)] == ["unknown"]
    assert ("missing_shard", "unknown", None) in told(found)


def test_a_quiet_shard_with_marks_is_clean(tmp_path: Path) -> None:
    """Not a record for days, and a restart every day."""
    corpus = Corpus(DAY, shape=Shape(shards=3, minutes=(-3000,)))
    store = open_storage(Address(None, str(tmp_path)))
    scene = ArchiveScene(store, PREFIX)
    for shard in corpus.shards:
        shard.end, shard.checkpoint = None, None
        tail = shard.segments[-1].metadata
        since_ms = tail.minute * MINUTE_MS - MINUTE_MS
        for hour in range(-48, 27, 23):
            until_ms = DAY.begin_ms + hour * 60 * MINUTE_MS
            mark = ReadMark(
                shard.shard_id, MarkKind.READ, Continuity.PROVEN, since_ms, until_ms, tail.last, f"w{hour}-1"
            )
            if until_ms > since_ms:
                scene.mark(mark)
                since_ms = until_ms
        scene.mark(
            ReadMark(
                shard.shard_id,
                MarkKind.READ,
                Continuity.PROVEN,
                since_ms,
                DAY.end_ms + 2 * MINUTE_MS,
                tail.last,
                "w-2",
            )
        )
    found = audit(corpus, tmp_path)
    assert (found.verdict, found.findings) == ("clean", ())
    assert since_ms > BEGIN_MS


def test_segments_that_are_committed_while_the_day_is_read_are_no_defect(tmp_path: Path) -> None:
    """One of the day and one behind it, after the day was listed: the day is looked at again."""
    corpus = Corpus(DAY, shape=Shape(shards=1))
    late = corpus.shards[0].segments[-2:]
    corpus.shards[0].segments = corpus.shards[0].segments[:-2]
    corpus.write(open_storage(Address(None, str(tmp_path))))
    context = job_context(tmp_path, clock=ManualClock(DAY.shift(1).begin_ms + 30 * MINUTE_MS))
    storage = context.archive.storage
    looked = 0

    class Growing:
        """Commits two segments once the day is listed."""

        def __getattr__(self, name: str) -> object:
            return getattr(storage, name)

        def list_level(self, folder: str) -> object:
            nonlocal looked
            found = storage.list_level(folder)
            looked += folder == DAY.path(PREFIX)
            return found

        def list_objects(self, prefix: str) -> object:
            if looked == 1 and prefix.startswith(DAY.shift(1).path(PREFIX)):
                for stored in late:
                    storage.put_if_absent(stored.key, stored.body, stored.fields, "application/gzip")
            return storage.list_objects(prefix)

    archive = type(context.archive)(Growing(), context.archive.new_backoff)  # type: ignore[arg-type]  # the storage, watched
    found = audit_day(context._replace(archive=archive), DAY, AuditOptions()).audit
    assert (found.verdict, found.findings) == ("clean", ())
    assert looked > 1
