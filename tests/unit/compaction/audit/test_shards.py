"""Which shards a day is answerable for: those without a segment of the day, too."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from compaction.audit.audit import audit_day
from compaction.job.context import AuditOptions
from compaction.verdict.audit_document import Audit
from minutebook.format.day import Day
from minutebook.format.keys import duplicates_key
from minutebook.format.segment import SegmentWriter
from minutebook.store.places import open_storage
from minutebook.store.storage import Address
from tests.corpus.auditing import job_context
from tests.corpus.model import PREFIX, Corpus, Shape
from tests.fakes.clock import START_MS, ManualClock

DAY = Day.parse("2026-11-20")


def audit(corpus: Corpus, folder: Path, day: Day = DAY, *, now_ms: int = START_MS, **options: object) -> Audit:
    """Write a corpus and audit a day of it."""
    corpus.write(open_storage(Address(None, str(folder))))
    asked = AuditOptions()._replace(**options)  # type: ignore[arg-type]
    return audit_day(job_context(folder, corpus.checkpoints, clock=ManualClock(now_ms)), day, asked).audit


def test_a_shard_that_was_quiet_all_day_is_proven_by_its_neighbours(tmp_path: Path) -> None:
    """No segment of the day, and the one after it names the one before it: nothing is missing."""
    found = audit(Corpus(DAY, shape=Shape(shards=1, minutes=(-3, 1443))), tmp_path)
    assert (found.verdict, [shard.end_proof for shard in found.shards]) == ("clean", ["successor"])


def test_neighbours_are_found_over_days_without_any_record(tmp_path: Path) -> None:
    """The search goes on through the days that hold something."""
    corpus = Corpus(DAY, shape=Shape(shards=1, minutes=(-1440 * 9, 5, 1440 * 8)))
    found = audit(corpus, tmp_path, now_ms=DAY.shift(9).begin_ms)
    assert (found.verdict, found.shards[0].start_proof) == ("clean", "link")


def test_a_predecessor_beyond_the_search_is_unknown(tmp_path: Path) -> None:
    """With older days left unsearched, a predecessor that was not found is no proof of loss."""
    corpus = Corpus(DAY, shape=Shape(shards=3, minutes=(-1440 * 3, -1440 * 2, -1440, 5, 1441)))
    quiet = corpus.shards[0]
    del quiet.segments[1:3]
    found = audit(corpus, tmp_path, lookback_days=1)
    assert [(finding.code, finding.severity) for finding in found.findings] == [("missing_start", "unknown")]


def test_a_chain_that_steps_back_over_midnight_is_whole(tmp_path: Path) -> None:
    """Arrival times may step back by a minute: a segment of the next day may stand between two of this one."""
    corpus = Corpus(DAY, shape=Shape(shards=1, minutes=(1430, 1440, 1439, 1441), records=1))
    first = audit(corpus, tmp_path)
    second = audit(corpus, tmp_path, DAY.shift(1))
    step = ("arrival_step_back", "warning")
    assert (first.verdict, [(finding.code, finding.severity) for finding in first.findings]) == ("clean", [step])
    assert [finding.code for finding in second.findings] == ["unproven_end", "arrival_step_back"]


def test_a_day_before_whose_times_step_back_over_midnight_hides_no_link(tmp_path: Path) -> None:
    """The chain's last segment but one lies on the day before, and its last one a day earlier."""
    corpus = Corpus(DAY, shape=Shape(shards=1, records=2, minutes=(-3000, -1440, -1441, 600, 1441)))
    assert audit(corpus, tmp_path).verdict == "clean"


def test_shards_of_later_times_do_not_concern_an_old_day(tmp_path: Path) -> None:
    """A shard that was begun weeks after the day needs no proof that it was empty then."""
    corpus = Corpus(DAY, shape=Shape(shards=3))
    later = corpus.shards[0]
    later.segments = []
    later.begun_at = "2027-02-01T00:00:00.000Z"
    corpus.first.remove(later.shard_id)
    assert audit(corpus, tmp_path).verdict == "clean"


def test_shards_that_ended_before_the_day_do_not_concern_it(tmp_path: Path) -> None:
    """`end.json` from before the day: nothing of the shard can be missing on it, and what came after it is judged."""
    corpus = Corpus(DAY, shape=Shape(shards=2, minutes=(-3000, -2999, 1441)))
    child, parent = corpus.shards
    assert parent.end is not None
    early = f"{DAY.shift(-1)}T00:10:00.000Z"
    parent.end = msgspec.structs.replace(parent.end, written_at=early, children=[child.shard_id])
    corpus.first = [parent.shard_id]
    found = audit(corpus, tmp_path)
    assert ([shard.shard for shard in found.shards], found.findings) == ([child.shard_id], ())


def test_one_shard_alone_can_be_audited(tmp_path: Path) -> None:
    """`--shard` judges it as the whole audit would, and nothing else."""
    corpus = Corpus(DAY)
    del corpus.shards[0].segments[3]
    whole = audit(corpus, tmp_path)
    alone = audit(corpus, tmp_path, shard=corpus.shards[0].shard_id)
    others = audit(corpus, tmp_path, shard=corpus.shards[1].shard_id)
    assert [finding.message for finding in alone.findings] == [finding.message for finding in whole.findings]
    assert (others.verdict, len(others.shards)) == ("clean", 1)


def with_drops(folder: Path, originals: Callable[[Corpus], str], *, keep: bool = True) -> Audit:
    """Audit a day in which the first and last record of a segment were dropped as duplicates of `originals`."""
    corpus = Corpus(DAY)
    shard = corpus.shards[0]
    segment = shard.segments[3]
    original = originals(corpus)
    writer = SegmentWriter(shard.shard_id, segment.metadata.minute)
    writer.drop(segment.records[0], original)
    writer.extend(segment.records[1:-1])
    writer.drop(segment.records[-1], original)
    metadata = writer.metadata(after=segment.metadata.after, writer="writer0-dropper")
    segment.body, segment.fields = writer.body(), metadata.encode()
    if keep:
        key = duplicates_key(PREFIX, shard.shard_id, metadata.minute, metadata.first, metadata.writer)
        corpus.objects[key] = (writer.duplicates_body(), {})
    corpus.write(open_storage(Address(None, str(folder))))
    found = audit_day(job_context(folder, corpus.checkpoints), DAY, AuditOptions()).audit
    assert found.equation.raw == corpus.records - 2
    return found


def kept(corpus: Corpus) -> str:
    """Return the place of an archived record of another shard."""
    shard = corpus.shards[1]
    return f"corpus/{shard.shard_id}/{shard.segments[2].records[0].position}"


def test_dropped_producer_duplicates_are_part_of_the_span(tmp_path: Path) -> None:
    """A segment whose first and last records were dropped is whole: its span is wider than its lines."""
    found = with_drops(tmp_path, kept)
    assert (found.verdict, found.findings) == ("clean", ())


def test_a_dropped_record_whose_original_is_not_archived_is_a_defect(tmp_path: Path) -> None:
    """The record that was kept instead lies in a gap: both are lost to readers."""

    def between(corpus: Corpus) -> str:
        segment = corpus.shards[1].segments[2].metadata
        return f"corpus/{corpus.shards[1].shard_id}/{segment.last.sequence}:1"

    found = with_drops(tmp_path, between)
    assert [(finding.code, finding.severity, finding.count) for finding in found.findings] == [
        ("dropped_without_original", "defect", 2)
    ]


def test_an_original_on_a_day_that_was_not_looked_at_is_unknown(tmp_path: Path) -> None:
    """An original from before everything that is known may be archived: nobody looked."""
    found = with_drops(tmp_path, lambda corpus: f"corpus/{corpus.shards[1].shard_id}/7:0")
    assert [(finding.code, finding.severity) for finding in found.findings] == [
        ("dropped_without_original", "unknown")
    ]


def test_dropped_records_that_are_not_kept_are_a_defect(tmp_path: Path) -> None:
    """What was dropped must stand in `_duplicates`: nothing is thrown away."""
    found = with_drops(tmp_path, kept, keep=False)
    assert [(finding.code, finding.severity) for finding in found.findings] == [
        ("dropped_without_original", "defect")
    ]


def test_a_producers_number_is_no_position(tmp_path: Path) -> None:
    """Watermarks name no record: there is nothing to follow."""
    assert with_drops(tmp_path, lambda corpus: "producer p number 5").verdict == "clean"  # noqa: ARG005 - the port
