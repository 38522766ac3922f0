"""A day that is published hour by hour, and what its runs read."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from compaction.event_ids.copies import Layout, ShardTally
from compaction.night.rewrite import Compacted
from compaction.parquet.plan import TaskSizes
from compaction.publish.publisher import Publisher
from compaction.tasks.task import Order, TaskResult, run
from minutebook.format.day import Hour
from minutebook.published.generation import DayFolder
from minutebook.store.places import StorePrefix
from minutebook.store.storage import Storage
from tests.corpus.auditing import FoundInProcess, InProcess, shuffle_in_process
from tests.corpus.desk import DAY, Desk
from tests.corpus.model import Corpus, Shape

MINUTES = (-700, 0, 59, 60, 600, 601, 659, 660, 1439, 1441)
HELD = (0, 1, 10, 11, 23)
"""Of `MINUTES`: two pairs of hours side by side, and one alone."""
SIZES = TaskSizes(segments=4, shards=2)


class Noted(NamedTuple):
    """Ids of tasks whose results are noted; implements `compaction.job.context.Shuffled`."""

    shuffled: InProcess
    note: Callable[[Sequence[Order], Sequence[TaskResult]], None]

    @property
    def results(self) -> list[TaskResult]:
        """Return the tasks' results."""
        return self.shuffled.results

    def find(self, layout: Layout, orders: Mapping[int, Order]) -> "NotedFound":
        """Find the copies."""
        return NotedFound(self.shuffled.find(layout, orders), self.note)


class NotedFound(NamedTuple):
    """Copies; what leaves them out is noted."""

    found: FoundInProcess
    note: Callable[[Sequence[Order], Sequence[TaskResult]], None]

    @property
    def shards(self) -> dict[int, ShardTally]:
        """Return the copies of each shard."""
        return self.found.shards

    def write(self) -> list[TaskResult]:
        """Run the orders that leave them out."""
        results = self.found.write()
        self.note(self.found.orders, results)
        return results


class Hours(Desk):
    """A day with records on both sides of full hours. `read` are the keys of the segments that the last run read."""

    def __init__(self, folder: Path, corpus: Corpus | None = None) -> None:
        super().__init__(folder, corpus or Corpus(DAY, shape=Shape(records=3, minutes=MINUTES)))
        self.out = StorePrefix(self.out.address, "")
        self.results: list[TaskResult] = []
        self.read: list[str] = []

    def publish(self, hour: int | None = None, storage: Storage | None = None, **asked: object) -> Compacted:
        """Compact an hour, or the day."""
        self.results, self.read = [], []

        def engine(orders: Sequence[Order]) -> list[TaskResult]:
            done = [run(order) for order in orders]
            self._note(orders, done)
            return done

        given = {"engine": engine, "shuffle": self._shuffle, "sizes": SIZES, **asked}
        return self.compact(storage, hour=hour, **given)  # type: ignore[arg-type]

    def _shuffle(self, orders: Sequence[Order]) -> "Noted":
        shuffled = shuffle_in_process(orders)
        self._note(orders, shuffled.results)
        return Noted(shuffled, self._note)

    def _note(self, orders: Sequence[Order], results: Sequence[TaskResult]) -> None:
        """Note which segments were read: all of a task's, or none."""
        self.results += results
        for order, result in zip(orders, results, strict=True):
            if result.read:
                self.read += [raw_object.key for raw_object in order.task.objects]

    def publish_hours(self, *hours: int) -> list[Compacted]:
        """Compact some hours, or all that hold something."""
        return [self.publish(hour) for hour in hours or HELD]

    def keys_of(self, *hours: int) -> set[str]:
        """Return the keys of the segments of some hours."""
        wanted = {Hour(DAY, hour).first_minute // 60 for hour in hours}
        return {
            segment.key
            for shard in self.corpus.shards
            for segment in shard.segments
            if segment.metadata.minute // 60 in wanted
        }

    def hour(self, hour: int) -> Publisher:
        """Return the publisher of an hour."""
        return Publisher(self.publisher().storage, DayFolder(self.out.prefix, DAY, Hour(DAY, hour)))

    def rows_of_hour(self, hour: int) -> set[tuple[str, str]]:
        """Return shard and segment of each row of a published hour."""
        _, manifest = self.hour(hour).published()
        assert manifest is not None
        tables = [self._table(file.key) for file in manifest.files]
        return {(row["shard_id"], row["segment"]) for table in tables for row in table.to_pylist()}

    def files(self, hour: int, what: str) -> list[Path]:
        """Return the facts (`_facts`), the kept ids (`_ids`) or the parts (`part`) of an hour."""
        folder = Path(self.storage.uri(self.hour(hour).folder.path))
        return sorted(folder.glob("_gen-*/part*" if what == "part" else f"_gen-*/{what}/*"))

    def check_whole(self) -> None:
        """Assert that each record of the day is published once, and no hour beside it."""
        rows = self.published_rows()
        assert len(rows) == len(set(rows)) == self.corpus.records
        assert not [hour for hour in HELD if self.hour(hour).current().pointer is not None]

    def _table(self, key: str) -> pa.Table:
        stored = self.storage.get(key)
        assert stored is not None
        return pq.ParquetFile(pa.BufferReader(stored.body)).read()


def small(folder: Path) -> Hours:
    """Return a day of one shard and two hours."""
    return Hours(folder, Corpus(DAY, shape=Shape(shards=1, records=2, minutes=(59, 60, 1441))))


def same_day(one: Compacted, other: Compacted) -> None:
    """Assert that two runs found the same: verdict, equation, findings, checks, shards."""
    assert one.result is not None
    assert other.result is not None
    left, right = one.result.audit, other.result.audit
    assert one.verdict == other.verdict
    for what in ("verdict", "equation", "findings", "checks", "shards"):
        assert getattr(left, what) == getattr(right, what), what
