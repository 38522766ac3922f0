"""`expire` behind the real nightly job: what that publishes is what this believes."""

import random
from pathlib import Path

from rich.console import Console

from archive.format.day import Day
from archive.format.tombstone import decode_tombstone
from archive.retry import Backoff
from archive.store.places import StorePrefix, open_storage
from archive.store.retrying import RetryingStorage, RetryingStore
from archive.store.storage import Address, Storage
from compaction.job.context import AuditOptions
from compaction.rewrite import CompactOptions, compact_day
from consumer.expire.command import Archive, parse_age, run
from consumer.stream.port import StreamIdentity
from tests.corpus.auditing import job_context
from tests.corpus.model import PREFIX, STREAM_ARN, Corpus
from tests.corpus.object_defects import truncated_object
from tests.fakes.clock import ManualClock

DAY = Day.parse("2026-11-20")
ROOT = "tables/events/"


def compact(folder: Path, corpus: Corpus, *, accept_defects: bool = False) -> tuple[Storage, ManualClock]:
    """Write the archive and compact its day; returns the archive's store and the clock."""
    clock = ManualClock()
    raw = Address(None, str(folder / "raw"))
    corpus.write(open_storage(raw))
    out = StorePrefix(Address(None, str(folder / "out")), ROOT)
    job = job_context(folder / "raw", corpus.checkpoints, clock=clock)
    compact_day(job, job.open(out.address), DAY, CompactOptions(AuditOptions(), out, accept_defects))
    return open_storage(raw), clock


def expire(folder: Path, raw: Storage, clock: ManualClock) -> str:
    """Expire 40 days later; returns what was printed."""
    clock.advance(40 * 86_400)
    store = RetryingStorage(raw, lambda: Backoff(clock, random.Random(1), budget_seconds=10))
    archive = Archive(
        store=store,
        prefix=PREFIX,
        identity=StreamIdentity(STREAM_ARN, 1, 86_400_000),
        published=RetryingStore(open_storage(Address(None, str(folder / "out"))), store.new_backoff),
        published_root=ROOT,
        clock=clock,
        new_id=lambda: "writer",
    )
    console = Console(width=200)
    with console.capture() as capture:
        run(archive, parse_age("30d"), console, 1000)
    return capture.get()


def segments(raw: Storage) -> list[str]:
    """Return the keys of the day's segments."""
    return [row.key for row in raw.list_objects(DAY.path(PREFIX))]


def test_a_day_that_was_compacted_clean_is_expired(tmp_path: Path) -> None:
    """Each shard keeps one segment at most, and the tombstone counts all of them."""
    corpus = Corpus(DAY)
    raw, clock = compact(tmp_path, corpus)
    before = segments(raw)
    expire(tmp_path, raw, clock)
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
    raw, clock = compact(tmp_path, corpus, accept_defects=True)
    before = segments(raw)
    text = expire(tmp_path, raw, clock)
    assert (segments(raw), "verdict is defects" in text) == (before, True)


def test_a_day_that_was_never_compacted_is_refused(tmp_path: Path) -> None:
    """The day before lies in the same archive, and was not published."""
    raw, clock = compact(tmp_path, Corpus(DAY))
    text = expire(tmp_path, raw, clock)
    assert f"minutebook compact --date {DAY.shift(-1)}" in text
    assert list(raw.list_objects(DAY.shift(-1).path(PREFIX)))
