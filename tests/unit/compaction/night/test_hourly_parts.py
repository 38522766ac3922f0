"""`compact --so-far` at each h:25 of a day, on two hosts that are killed: what readers see never shrinks or lies."""

import itertools
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from compaction.job.context import AuditOptions, JobContext
from compaction.night.rewrite import Compacted, CompactOptions, compact_day
from compaction.publish.publisher import Publisher
from compaction.tasks.task import Order, TaskResult
from consumer.stream.port import StreamIdentity
from minutebook.format.day import Day
from minutebook.format.minute import MINUTE_MS, iso_time, parse_iso_time
from minutebook.format.record import Record
from minutebook.published.generation import DayFolder
from minutebook.store.places import StorePrefix, open_storage
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address, Storage
from tests.corpus.auditing import in_process, job_context
from tests.corpus.model import BEGIN_MS, PREFIX, STREAM_ARN
from tests.fakes.archive_scene import ArchiveScene
from tests.fakes.clock import ManualClock
from tests.fakes.failing_storage import Crash, FailingStorage
from tests.fakes.stream import DAY_MS
from tests.searching import IS_DEEP
from tests.unit.compaction.tables.test_away import Table

DAY: Final = Day.parse("2026-11-20")
BUSY: Final = "shardId-000000000000"
QUIET: Final = tuple(f"shardId-{number:012d}" for number in range(1, 5))
HOUR_MS: Final = 60 * MINUTE_MS
_NIGHTLY: Final = frozenset(range(1, 24) if IS_DEEP else (1, 2, 3, 6, 7, 8, 11, 14, 15, 18, 19, 23))
"""The hours in which hosts run: by default half of them. In some a table dies before and behind its commit, in some a
clock is late, and before some nobody ran for an hour or two."""
_SLOW_MS: Final = 90 * MINUTE_MS
"""By how much the clock of one host is late in some hours."""
Row = tuple[str, str]


class Hours:
    """A day as it is archived: one shard writes each ten minutes, four hardly ever, and all are marked each hour.

    One event in three hours is a copy of an earlier one, and is not published.
    """

    def __init__(self, folder: Path) -> None:
        self.raw, self.out = folder / "raw", StorePrefix(Address(None, str(folder / "out")), "tables/")
        self.storage = open_storage(self.out.address)
        self.scene = ArchiveScene(open_storage(Address(None, str(self.raw))), PREFIX)
        self.scene.settle(StreamIdentity(STREAM_ARN, BEGIN_MS, DAY_MS))
        self.scene.first(BUSY, *QUIET)
        self.rows: list[tuple[int, Row]] = []
        """The minute, shard and sequence number of each row that is to be published."""
        self.numbers = itertools.count(1000, 5)
        self.clock = ManualClock()
        self.table = Table(self.clock)
        for shard in (BUSY, *QUIET):
            self.scene.begin(shard, first=f"{self.write(shard, DAY.first_minute - 30)}:0")
        self.mark(0)

    def write(self, shard: str, minute: int, *, copy_of: int | None = None) -> int:
        """Archive a segment of one event; return its sequence number."""
        number = next(self.numbers)
        data = b'{"n":"%d"}' % (copy_of or number)
        self.scene.segment(shard, minute, [Record(str(number), 0, "k", minute * MINUTE_MS + 1, data)])
        if copy_of is None and minute in DAY:
            self.rows.append((minute, (shard, str(number))))
        return number

    def mark(self, hour: int) -> None:
        """Let every quiet shard be read to its tip, some minutes after the hour; a write may follow."""
        for number, shard in enumerate(QUIET):
            self.scene.read_on(shard, DAY.begin_ms + hour * HOUR_MS + (70 + number * 150) * 1000)

    def pass_hour(self, hour: int) -> None:
        """Archive what arrives between h-1:14 and h:14, and write the marks of h."""
        first = DAY.first_minute + hour * 60
        numbers = [self.write(BUSY, first + minute) for minute in range(-46, 10, 10)]
        if hour % 3 == 0:
            self.write(BUSY, first + 12, copy_of=numbers[0])
        if hour % 5 == 0:
            self.write(QUIET[hour // 5 % 4], first - 20)
        self.mark(hour)

    def run(self, storage: Storage | None = None, **changes: object) -> Compacted:
        """Publish the day so far."""
        context = self.context()._replace(**changes)  # type: ignore[arg-type]
        audit = AuditOptions(
            event_id="n", drop_producer_duplicates=True, published=self.out, so_far_ms="covered", max_repeats=1
        )
        retrying = RetryingStorage(storage or self.storage, context.archive.new_backoff)
        return compact_day(context, retrying, DAY, CompactOptions(audit, self.out))

    def context(self) -> JobContext:
        """Return the context of a run."""
        return job_context(self.raw, clock=self.clock)._replace(table=self.table)

    def at(self, now_ms: int) -> None:
        """Set the hosts' clock."""
        self.clock.jump_wall((now_ms - self.clock.now_ms()) / 1000)

    def until_ms(self) -> int:
        """Return how far what is published reaches; 0: nothing is."""
        pointer = self.publisher().current().pointer
        if pointer is None:
            return 0
        assert pointer.until is not None
        return parse_iso_time(pointer.until)

    def publisher(self) -> Publisher:
        """Return the publisher of the day."""
        return Publisher(RetryingStorage(self.storage, self.context().archive.new_backoff), DayFolder("tables/", DAY))

    def expected(self, until_ms: int) -> list[Row]:
        """Return the rows of the day before a time."""
        return sorted(row for minute, row in self.rows if minute * MINUTE_MS < until_ms)

    def by_pointer(self) -> list[Row]:
        """Return the rows that a reader of the pointer gets."""
        _, manifest = self.publisher().published()
        return self._read(() if manifest is None else [self.storage.uri(file.key) for file in manifest.files])

    def by_symlinks(self) -> list[Row]:
        """Return the rows that an engine gets."""
        stored = self.storage.get(self.publisher().folder.symlinks)
        return self._read([] if stored is None else stored.body.decode().split())

    def by_table(self) -> list[Row]:
        """Return the rows that a reader of the table gets."""
        return self._read([uri.removeprefix("file://") for uri in self.table.files])

    @staticmethod
    def _read(paths: Sequence[str]) -> list[Row]:
        rows: list[Row] = []
        for path in paths:
            table = pq.ParquetFile(pa.BufferReader(Path(path).read_bytes())).read().to_pylist()
            rows += [(row["shard_id"], row["sequence_number"]) for row in table]
        return sorted(rows)


def assert_true(hours: Hours, before_ms: int) -> int:
    """Assert that what readers see has not shrunk, and that its rows are right; return how far it reaches."""
    until_ms = hours.until_ms()
    assert until_ms >= before_ms
    assert hours.by_pointer() == hours.expected(until_ms)
    earlier = [hours.expected(number * HOUR_MS + DAY.begin_ms) for number in range(25)]
    assert hours.by_symlinks() in earlier
    assert hours.by_table() in earlier
    return until_ms


@pytest.mark.parametrize("first", range(1, 16 if IS_DEEP else 2))
def test_hosts_that_are_killed_each_hour_publish_a_day_that_grows(tmp_path: Path, first: int) -> None:
    """Each hour one dies, at a later request than the one before, and another one begins while a third one works.

    In some hours the third one has a late clock.
    """
    hours, verdicts, until_ms = Hours(tmp_path), list[str](), 0
    for hour in range(1, 24):
        hours.pass_hour(hour)
        if hour not in _NIGHTLY:
            continue
        now_ms = DAY.begin_ms + hour * HOUR_MS + 25 * MINUTE_MS
        hours.at(now_ms)
        applied = hour % 2 == 0
        hours.table.dies = applied if hour % 7 == 0 else None
        with suppress(Crash):
            hours.run(FailingStorage(hours.storage, first + hour, applied=applied))
        hours.table.dies = None
        until_ms = assert_true(hours, until_ms)
        inner: list[Compacted] = []

        def engine(orders: Sequence[Order], now_ms: int = now_ms, inner: list[Compacted] = inner) -> list[TaskResult]:
            if not inner:
                hours.at(now_ms)
                inner.append(hours.run())
            return in_process(orders)

        if hour % 4 == 3:
            hours.at(now_ms - _SLOW_MS)
        done = hours.run(engine=engine)
        hours.at(now_ms)
        if not inner:
            inner.append(hours.run())
        until_ms = assert_true(hours, until_ms)
        assert done.state in {"published", "already"}
        assert iso_time(until_ms) == iso_time(DAY.begin_ms + hour * HOUR_MS)
        assert hours.by_symlinks() == hours.by_table() == hours.expected(until_ms)
        pointer = hours.publisher().current().pointer
        assert pointer is not None
        verdicts.append(pointer.verdict)
    assert verdicts.count("clean") >= 0.9 * len(verdicts)
    hours.pass_hour(24)
    hours.at(DAY.end_ms + 25 * MINUTE_MS)
    assert (hours.run().state, hours.publisher().current().pointer.until) == ("published", None)  # type: ignore[union-attr]
    assert hours.by_pointer() == hours.by_table() == hours.expected(DAY.end_ms)
