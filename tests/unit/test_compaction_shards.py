"""Which shards a day is answerable for: those without a segment of the day, too."""

from pathlib import Path

import msgspec

from archive.segment import SegmentWriter
from compaction.audit import audit_day
from compaction.day import Day
from compaction.places import open_storage
from compaction.ports import AuditOptions
from compaction.result import Audit
from compaction.storage import Address
from tests.corpus.auditing import ports
from tests.corpus.model import Corpus, Shape

DAY = Day.parse("2026-11-20")


def audit(corpus: Corpus, folder: Path, day: Day = DAY, **options: object) -> Audit:
    """Write a corpus and audit a day of it by names and metadata."""
    corpus.write(open_storage(Address(None, str(folder))))
    asked = AuditOptions(level="inventory")._replace(**options)  # type: ignore[arg-type]
    return audit_day(ports(folder, corpus.checkpoints), day, asked).audit


def test_a_shard_that_was_quiet_all_day_is_proven_by_its_neighbours(tmp_path: Path) -> None:
    """No segment of the day, and the one after it names the one before it: nothing is missing."""
    found = audit(Corpus(DAY, shape=Shape(shards=1, minutes=(-3, 1443))), tmp_path)
    assert (found.verdict, [shard.end_proof for shard in found.shards]) == ("clean", ["successor"])


def test_neighbours_are_found_over_days_without_any_record(tmp_path: Path) -> None:
    """The search goes on through the days that hold something."""
    found = audit(Corpus(DAY, shape=Shape(shards=1, minutes=(-1440 * 9, 5, 1440 * 8))), tmp_path)
    assert (found.verdict, found.shards[0].start_proof) == ("clean", "link")


def test_a_predecessor_beyond_the_search_is_unknown(tmp_path: Path) -> None:
    """With older days left unsearched, a predecessor that was not found is no proof of loss."""
    corpus = Corpus(DAY, shape=Shape(shards=3, minutes=(-1440 * 3, -1440 * 2, -1440, 5, 1441)))
    quiet = corpus.shards[0]
    del quiet.segments[1:3]
    found = audit(corpus, tmp_path, lookback_days=1)
    assert [(one.code, one.severity) for one in found.findings] == [("missing_start", "unknown")]


def test_a_chain_that_steps_back_over_midnight_is_whole(tmp_path: Path) -> None:
    """Arrival times may step back: a segment of the next day may stand between two of this one."""
    corpus = Corpus(DAY, shape=Shape(shards=1, minutes=(1430, 1440, 1439, 1441)))
    first = audit(corpus, tmp_path)
    second = audit(corpus, tmp_path, DAY.shift(1))
    assert (first.verdict, first.findings) == ("clean", ())
    assert [one.code for one in second.findings] == ["unproven_end"]


def test_shards_of_later_times_do_not_concern_an_old_day(tmp_path: Path) -> None:
    """A shard that was begun weeks after the day needs no proof that it was empty then."""
    corpus = Corpus(DAY, shape=Shape(shards=3))
    later = corpus.shards[0]
    later.segments = []
    later.begun_at = "2027-02-01T00:00:00.000Z"
    assert audit(corpus, tmp_path).verdict == "clean"


def test_shards_that_ended_before_the_day_do_not_concern_it(tmp_path: Path) -> None:
    """`end.json` from before the day: nothing of the shard can be missing on it."""
    corpus = Corpus(DAY, shape=Shape(shards=2, minutes=(-3000, -2999)))
    corpus.shards = [corpus.shards[1]]
    end = corpus.shards[0].end
    assert end is not None
    corpus.shards[0].end = msgspec.structs.replace(end, written_at=f"{DAY.shift(-1)}T00:10:00.000Z")
    found = audit(corpus, tmp_path)
    assert (found.shards, found.findings) == ((), ())


def test_one_shard_alone_can_be_audited(tmp_path: Path) -> None:
    """`--shard` judges it as the whole audit would, and nothing else."""
    corpus = Corpus(DAY)
    del corpus.shards[0].segments[3]
    whole = audit(corpus, tmp_path)
    alone = audit(corpus, tmp_path, shard=corpus.shards[0].shard_id)
    others = audit(corpus, tmp_path, shard=corpus.shards[1].shard_id)
    assert [one.message for one in alone.findings] == [one.message for one in whole.findings]
    assert (others.verdict, len(others.shards)) == ("clean", 1)


def test_dropped_producer_duplicates_are_part_of_the_span(tmp_path: Path) -> None:
    """A segment whose first and last records were dropped is whole: its span is wider than its lines."""
    corpus = Corpus(DAY)
    shard = corpus.shards[0]
    one = shard.segments[3]
    writer = SegmentWriter(shard.shard_id, one.metadata.minute)
    writer.drop(one.records[0], "corpus/shardId-000000000000/1:0")
    writer.extend(one.records[1:-1])
    writer.drop(one.records[-1], "corpus/shardId-000000000000/2:0")
    metadata = writer.metadata(after=one.metadata.after, writer="dropper")
    one.body, one.fields = writer.body(), metadata.encode()
    corpus.write(open_storage(Address(None, str(tmp_path))))
    found = audit_day(ports(tmp_path, corpus.checkpoints), DAY, AuditOptions()).audit
    assert (found.verdict, found.findings) == ("clean", ())
    assert found.equation.raw == corpus.records - 2
