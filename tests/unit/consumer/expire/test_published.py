"""`expire` behind the real nightly job: what that publishes is what this believes."""

from pathlib import Path

from compaction.job.context import AuditOptions
from compaction.night.rewrite import CompactOptions, compact_day
from minutebook.format.day import Day
from minutebook.format.tombstone import decode_tombstone
from minutebook.store.places import StorePrefix, open_storage
from minutebook.store.storage import Address, Storage
from tests.corpus.auditing import job_context
from tests.corpus.model import PREFIX, Corpus
from tests.corpus.object_defects import truncated_object
from tests.fakes.clock import ManualClock
from tests.fakes.published_archive import expire_published

DAY = Day.parse("2026-11-20")
ROOT = "tables/events/"


def compact(folder: Path, corpus: Corpus, *, accept: str | None = None) -> tuple[Storage, ManualClock]:
    """Write the archive and compact its day; returns the archive's store and the clock."""
    clock = ManualClock()
    raw = Address(None, str(folder / "raw"))
    corpus.write(open_storage(raw))
    out = StorePrefix(Address(None, str(folder / "out")), ROOT)
    job = job_context(folder / "raw", corpus.checkpoints, clock=clock)
    compact_day(job, job.open(out.address), DAY, CompactOptions(AuditOptions(), out, accept))
    return open_storage(raw), clock


def expire(folder: Path, clock: ManualClock) -> str:
    """Expire 40 days later; returns what was printed."""
    return expire_published(folder / "raw", StorePrefix(Address(None, str(folder / "out")), ROOT), clock)


def segments(raw: Storage) -> list[str]:
    """Return the keys of the day's segments."""
    return [row.key for row in raw.list_objects(DAY.path(PREFIX))]


def test_a_day_that_was_compacted_clean_is_expired(tmp_path: Path) -> None:
    """Each shard keeps one segment at most, and the tombstone counts all of them."""
    corpus = Corpus(DAY)
    raw, clock = compact(tmp_path, corpus)
    before = segments(raw)
    expire(tmp_path, clock)
    stored = raw.get(f"{PREFIX}_expired/{DAY}.json")
    assert stored is not None
    tombstone = decode_tombstone(stored.body, "tombstone")
    assert tombstone.segments == len(before) > len(corpus.shards)
    assert segments(raw) == sorted(tombstone.kept_keys())


def test_a_day_that_was_compacted_with_defects_is_refused(tmp_path: Path) -> None:
    """Its Parquet is published, and its raw segments are the evidence."""
    corpus = Corpus(DAY)
    shard = corpus.shards[0]
    truncated_object(corpus, shard, shard.in_day(DAY)[0])
    raw, clock = compact(tmp_path, corpus, accept="known")
    before = segments(raw)
    text = expire(tmp_path, clock)
    assert (segments(raw), "verdict is defects" in text) == (before, True)


def test_a_day_that_was_never_compacted_is_refused(tmp_path: Path) -> None:
    """The day before lies in the same archive, and was not published."""
    raw, clock = compact(tmp_path, Corpus(DAY))
    text = expire(tmp_path, clock)
    assert f"minutebook compact --date {DAY.shift(-1)}" in text
    assert list(raw.list_objects(DAY.shift(-1).path(PREFIX)))


def test_a_day_whose_published_file_was_overwritten_is_refused(tmp_path: Path) -> None:
    """With as many bytes: the audit has its ETag. The segments are the only whole copy."""
    raw, clock = compact(tmp_path, Corpus(DAY))
    before = segments(raw)
    (part,) = (tmp_path / "out" / ROOT).glob(f"dt={DAY}/_gen-*/part-*.parquet")
    body = part.read_bytes()
    part.write_bytes(body[:200] + bytes(200) + body[400:])
    text = expire(tmp_path, clock)
    assert (segments(raw), "is not there as it was written" in text) == (before, True)
