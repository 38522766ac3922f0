"""A night on one host: what is due is found and done, as `minutebook compact --due` does it, and rows are told."""

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from compaction.job.context import AuditOptions, JobContext
from compaction.local.shuffle import ShuffledHere
from compaction.night.days.run import DayRow, row_of_due, row_of_error
from compaction.night.due import Due, do_due, find_due, pointer_word
from compaction.night.rewrite import Compacted, CompactOptions, compact_day
from compaction.publish.publisher import Publisher
from compaction.tables.commit import DayTable
from compaction.tasks.task import Order, TaskResult
from minutebook.errors import MinutebookError
from minutebook.format.day import Day
from minutebook.published.generation import DayFolder
from minutebook.retry import Backoff
from minutebook.store.places import StorePrefix
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address
from tests.corpus.auditing import in_process, job_context, shuffle_in_process
from tests.lives.memory import MemoryDirectory
from tests.lives.store import InterruptedStorage, Interruptions, StampedDirectory
from tests.lives.world import FIRST_DAY, World

T = TypeVar("T")
U = TypeVar("U")
OUT: Final = "tables/"
_NUMBERS: Final = itertools.count(1)


class _HostContext(JobContext):
    """A context whose output is the host's, too."""

    def open(self, address: Address) -> RetryingStorage:
        """Return the output, interrupted as the archive is."""
        assert address.root != self.place.address.root
        opened = self.new_id.opened  # type: ignore[attr-defined]  # a host's
        return RetryingStorage(opened, self.archive.new_backoff, _one_by_one)


def _one_by_one(work: Callable[[T], U], items: Sequence[T]) -> list[U]:
    return [work(item) for item in items]


class _Ids:
    """Ids, and the output of their host."""

    def __init__(self, opened: InterruptedStorage) -> None:
        self.opened = opened

    def __call__(self) -> str:
        return f"run-{next(_NUMBERS)}"


class Night(NamedTuple):
    """What one night found due, and told."""

    due: Due
    rows: Mapping[Day, DayRow]
    results: Mapping[Day, Compacted]


class Site:
    """A world, and the output of its nights, in a folder or (None) in memory, where it may lie already."""

    def __init__(
        self,
        folder: Path | None,
        world: World,
        *,
        event_id: str | None = None,
        table: DayTable | None = None,
        out: MemoryDirectory | None = None,
    ) -> None:
        self.world = world
        self.out = out or (MemoryDirectory(world.clock) if folder is None else StampedDirectory(folder, world.clock))
        self.place = StorePrefix(Address(None, str(self.out.root)), OUT)
        self.table = table
        audit = AuditOptions(
            event_id=event_id, published=self.place, drop_producer_duplicates=event_id is not None, max_repeats=1.0
        )
        self.options = CompactOptions(audit, self.place)

    def context(self, interruptions: Interruptions | None = None) -> JobContext:
        """Return the context of one run on one host."""
        between = interruptions or Interruptions()
        world = self.world
        raw, out = InterruptedStorage(world.store, between), InterruptedStorage(self.out, between)
        rng = random.Random(1)

        def engine(orders: Sequence[Order]) -> list[TaskResult]:
            results = between.send(lambda: in_process(orders))
            self.stamp_files()
            return results

        def shuffle(orders: Sequence[Order]) -> ShuffledHere:
            shuffled = between.send(lambda: shuffle_in_process(orders))
            self.stamp_files()
            return shuffled

        context = job_context(world.store.root, clock=world.clock, engine=engine, shuffle=shuffle)
        return _HostContext(
            *context._replace(
                archive=RetryingStorage(raw, lambda: Backoff(world.clock, rng, budget_seconds=10), _one_by_one),
                new_id=_Ids(out),
                checkpoints=lambda: world.checkpoints,
                table=self.table,
            )
        )

    def stamp_files(self) -> None:
        """Stamp what tasks wrote: they open the store themselves, by the machine's clock, which is in the past."""
        if isinstance(self.out, MemoryDirectory):
            return
        for path in self.out.root.rglob("*.parquet"):
            if path.stat().st_mtime_ns // 1_000_000 < FIRST_DAY.shift(-2).begin_ms:
                self.out.stamp(path.relative_to(self.out.root).as_posix())

    def night(
        self,
        window: int,
        interruptions: Interruptions | None = None,
        *,
        accept: Mapping[Day, str] | None = None,
    ) -> Night:
        """Do what is due; a day's error is its row. `accept` are a person's decisions on days, made before."""
        context = self.context(interruptions)
        for day, reason in (accept or {}).items():
            compact_day(context, context.open(self.place.address), day, self.options._replace(accept=reason))
        due = find_due(context, self.place, self.options.audit, window)
        rows, results = {}, {}
        for day in sorted(due.by_day, reverse=self.options.audit.event_id is None):
            each = due.by_day[day]
            try:
                done = do_due(context, each, self.options)
            except MinutebookError as exc:
                rows[day] = row_of_error(day, exc)
                continue
            results[day] = done
            is_changed = bool(each.why) and not each.is_expired
            pointer = pointer_word(context.open(self.place.address), OUT, day) if is_changed else each.pointer
            rows[day] = row_of_due(each, done, pointer, "unknown")
        self.stamp_files()
        return Night(due, rows, results)

    def so_far(self, day: Day, until_ms: int, interruptions: Interruptions | None = None) -> Compacted:
        """Publish a part of a day."""
        context = self.context(interruptions)
        options = self.options._replace(audit=self.options.audit._replace(so_far_ms=until_ms))
        return compact_day(context, context.open(self.place.address), day, options)

    def publisher(self, day: Day) -> Publisher:
        """Return the publisher of a day, without interruptions."""
        context = self.context()
        return Publisher(context.open(self.place.address), DayFolder(OUT, day))
