"""An archive of some days, in which one shard is quiet for most of them, and the nights that compact them."""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from compaction.audit.audit import audit_day
from compaction.job.context import AuditOptions, JobContext
from compaction.night.rewrite import Compacted, CompactOptions, compact_day
from compaction.publish.ends import PublishedEnds
from compaction.publish.publisher import Publisher
from compaction.verdict.audit_document import Audit
from consumer.stream.port import StreamIdentity
from minutebook.clock import SystemClock
from minutebook.format.day import Day
from minutebook.published.generation import DayFolder
from minutebook.retry import Backoff
from minutebook.store.directory_storage import DirectoryStorage
from minutebook.store.objects import ListedObject, ObjectHead
from minutebook.store.places import StorePrefix, open_storage
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address
from tests.corpus.auditing import job_context
from tests.corpus.model import BEGIN_MS, PREFIX, STREAM_ARN
from tests.fakes.archive_scene import ArchiveScene
from tests.fakes.clock import ManualClock
from tests.fakes.stream import DAY_MS

FIRST: Final = Day.parse("2026-11-02")
QUIET, BUSY = "shardId-000000000000", "shardId-000000000001"
OUT: Final = "tables/"


class Counted(DirectoryStorage):
    """A folder that counts what is asked: LISTs of hours and of less by their day, and HEADs."""

    asked: Counter[str]

    def list_objects(self, prefix: str) -> Iterator[ListedObject]:
        """Count a LIST."""
        day, _, hour = prefix.removeprefix(PREFIX)[:12].rpartition("/")
        self.asked[day] += bool(hour)
        return super().list_objects(prefix)

    def head(self, key: str) -> ObjectHead | None:
        """Count a HEAD."""
        self.asked["HEAD"] += 1
        return super().head(key)


class Nights:
    """The quiet shard wrote once, on the first day, and is read on each day; the busy one writes every day.

    `days` are so many, archived whole.
    """

    def __init__(self, folder: Path, days: int) -> None:
        self.raw, self.out = folder / "raw", StorePrefix(Address(None, str(folder / "out")), OUT)
        self.store = open_storage(Address(None, str(self.raw)))
        self.scene = ArchiveScene(self.store, PREFIX)
        self.scene.settle(StreamIdentity(STREAM_ARN, BEGIN_MS, DAY_MS))
        self.scene.first(QUIET, BUSY)
        self.scene.begin(QUIET)
        self.scene.begin(BUSY)
        self.tail = self.scene.segment(QUIET, FIRST.first_minute + 600)
        self.days = 0
        for _ in range(days):
            self.pass_day()

    def day(self, number: int) -> Day:
        """Return a day by its number from the first."""
        return FIRST.shift(number)

    def pass_day(self, *quiet_writes_at: int) -> Day:
        """Let one more day pass; the quiet shard may write in some of its minutes."""
        day = self.day(self.days)
        for minute in (10, 700, 1438):
            self.scene.segment(BUSY, day.first_minute + minute)
        for minute in quiet_writes_at:
            self.scene.segment(QUIET, day.first_minute + minute)
        self.scene.read_on(QUIET, day.end_ms + 5 * 60_000)
        self.scene.read_on(BUSY, day.end_ms + 5 * 60_000)
        self.days += 1
        return day

    def context(self) -> JobContext:
        """Return the context of a run in the night behind the last day."""
        clock = ManualClock(self.day(self.days).begin_ms + 30 * 60_000)
        given = job_context(self.raw, clock=clock)
        storage = Counted(self.raw)
        storage.asked = Counter()
        waits = lambda: Backoff(SystemClock(), random.Random(1), budget_seconds=5)  # noqa: E731 - as ports take it
        return given._replace(archive=RetryingStorage(storage, waits))

    def compact(self, day: Day) -> tuple[Compacted, Counter[str]]:
        """Compact a day; returns what was asked of the archive, too."""
        context = self.context()
        options = CompactOptions(AuditOptions(), self.out)
        done = compact_day(context, context.open(self.out.address), day, options)
        return done, context.archive.storage.asked  # type: ignore[attr-defined] # it is ours

    def publish(self, *days: Day) -> None:
        """Compact days, each of them clean."""
        for day in days:
            assert self.compact(day)[0].verdict == "clean"

    def audit(self, day: Day, *, published: bool = True, lookback: int = 14) -> tuple[Audit, Counter[str]]:
        """Audit a day, with what is published or without."""
        context = self.context()
        options = AuditOptions("keys", lookback, published=self.out if published else None)
        found = audit_day(context, day, options).audit
        return found, context.archive.storage.asked  # type: ignore[attr-defined] # the same

    def publisher(self, day: Day) -> Publisher:
        """Return the publisher of a day."""
        return Publisher(self.context().open(self.out.address), DayFolder(OUT, day))

    def ends(self) -> PublishedEnds:
        """Return what published days say."""
        return PublishedEnds(lambda: self.context().open(self.out.address), OUT)
