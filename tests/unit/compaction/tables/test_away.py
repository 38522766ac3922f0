"""A catalog that is away longer than the grace: nothing that its table names is deleted, nor what queries read."""

import hashlib
import itertools
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from compaction.commands.vacuum.day import RawDays, delete_leftovers, find_leftovers
from compaction.publish.publisher import GRACE_MS, Publisher
from compaction.tables.commit import GENERATION_PROPERTY, ROWS_PROPERTY, TableCommitter
from compaction.tables.plan import Conflict, LiveFile, Recorded, Replacement
from minutebook.errors import CatalogUnavailable, OutcomeUnknown
from minutebook.format.day import Day
from minutebook.format.minute import iso_time
from minutebook.published.generation import DayFolder, Manifest, PointerVerdict, files_of
from minutebook.retry import Backoff
from minutebook.store.directory_storage import DirectoryStorage
from minutebook.store.objects import PutOutcome
from minutebook.store.retrying import RetryingStorage
from tests.fakes.clock import ManualClock
from tests.fakes.failing_storage import Crash

DAY: Final = Day.parse("2026-11-20")
_HOUR_SECONDS: Final = 3600
_LIVES: Final = 25
_STEPS: Final = 40


class TimedStorage(DirectoryStorage):
    """A folder whose files are as old as the clock says; `before_mark` is called once, before the next mark."""

    def __init__(self, root: Path, clock: ManualClock) -> None:
        super().__init__(root)
        self._clock = clock
        self.before_mark: Callable[[], None] | None = None

    def put_if_absent(self, key: str, body: bytes, metadata: Mapping[str, str], content_type: str) -> PutOutcome:
        """Put, with the time."""
        if "/_tables/" in key and self.before_mark is not None:
            hook, self.before_mark = self.before_mark, None
            hook()
        outcome = super().put_if_absent(key, body, metadata, content_type)
        if outcome is PutOutcome.CREATED:
            self._stamp(key)
        return outcome

    def put_if_match(self, key: str, body: bytes, etag: str | None, content_type: str) -> bool:
        """Put, with the time."""
        is_put = super().put_if_match(key, body, etag, content_type)
        if is_put:
            self._stamp(key)
        return is_put

    def _stamp(self, key: str) -> None:
        os.utime(self.root / key, ns=(self._clock.now_ms() * 1_000_000,) * 2)


class Table:
    """A table of one day in a catalog that may be away, or lose the client around a commit."""

    name = "lake.events.raw"

    def __init__(self, clock: ManualClock, uuid: str = "one") -> None:
        self._clock = clock
        self.uuid = uuid
        self.files: dict[str, int] = {}
        self.recorded: Recorded | None = None
        self.snapshot = 0
        self.is_away = False
        self.before_commit: Callable[[], None] | None = None
        self.dies: bool | None = None
        """The client dies at the next commit: before it is applied (False), or after (True)."""

    def look(self, day: Day) -> "TableView":
        """Load the current snapshot."""
        assert day == DAY
        if self.is_away:
            raise OutcomeUnknown("the catalog is away")
        live = tuple(LiveFile(uri, rows) for uri, rows in self.files.items())
        return TableView(self, self.snapshot, live, self.recorded)

    def conflicts(self, columns: Mapping[str, str] | None) -> Sequence[Conflict]:
        """Return none."""
        return self.look(DAY).conflicts(columns)

    def replace(self, snapshot: int, change: Replacement, sizes: Mapping[str, int], said: Mapping[str, str]) -> bool:
        """Replace files if the snapshot is still the current one."""
        if self.before_commit is not None:
            hook, self.before_commit = self.before_commit, None
            hook()
        dies, self.dies = self.dies, None
        if dies is False:
            raise Crash
        if self.is_away:
            raise OutcomeUnknown("the catalog is away")
        if self.snapshot != snapshot:
            return False
        self.snapshot += 1
        self.files = {uri: rows for uri, rows in self.files.items() if uri not in change.remove} | dict(sizes)
        self.recorded = Recorded(said[GENERATION_PROPERTY], int(said[ROWS_PROPERTY]), self._clock.now_ms())
        if dies:
            raise Crash
        return True


class TableView(NamedTuple):
    """The day in one snapshot."""

    table: Table
    snapshot: int
    files: tuple[LiveFile, ...]
    recorded: Recorded | None

    @property
    def table_uuid(self) -> str:
        """The table's."""
        return self.table.uuid

    @property
    def place(self) -> str:
        """The snapshot's."""
        return f"{self.table.uuid}/{self.snapshot}"

    def goes_on_from(self, place: str) -> bool:
        """Return True: nobody sets a table back here."""
        del place
        return True

    def conflicts(self, columns: Mapping[str, str] | None) -> Sequence[Conflict]:
        """Return none."""
        assert columns is None
        return ()

    def replace(
        self,
        change: Replacement,
        sizes: Mapping[str, int],
        properties: Mapping[str, str],
        columns: Mapping[str, str] | None = None,
        table_properties: Mapping[str, str] | None = None,
    ) -> bool:
        """Commit on this snapshot."""
        assert not columns
        assert not table_properties
        return self.table.replace(self.snapshot, change, sizes, properties)


class Life:
    """One day's life: what is published, committed, swept and vacuumed while time passes, in an order by chance."""

    def __init__(self, root: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.clock = ManualClock()
        self.storage = TimedStorage(root, self.clock)
        self.table = Table(self.clock)
        self.ids: Iterator[int] = itertools.count(1)
        self.past: list[tuple[tuple[str, ...], int]] = []
        """The files of each pointer that was replaced, and when."""
        self.pointers: list[tuple[bytes, tuple[str, ...]]] = []
        self.log: list[str] = []

    def publisher(self) -> Publisher:
        """Return a run's view of the day."""
        waits = lambda: Backoff(self.clock, self.rng, budget_seconds=10)  # noqa: E731 - said once
        return Publisher(RetryingStorage(self.storage, waits), DayFolder("", DAY))

    def id(self) -> str:
        """Return a new id."""
        return f"run{next(self.ids)}"

    def files(self) -> tuple[str, ...]:
        """Return the files that the pointer names."""
        _, manifest = self.publisher().published()
        return () if manifest is None else tuple(file.key for file in manifest.files)

    def publish(self) -> None:
        """Publish a new generation, or an earlier one anew."""
        publisher, current = self.publisher(), self.publisher().current()
        generation = f"g{self.rng.randrange(1 + next(self.ids))}"
        writer, files = self.id(), self.files()
        keys = [f"{publisher.folder.generation(generation)}part-{self.id()}.parquet" for _ in range(2)]
        for key in keys:
            self.storage.put_if_absent(key, b"rows", {}, "x/y")
        audit = publisher.folder.audit(generation, writer)
        manifest = Manifest(
            format=1,
            day=str(DAY),
            generation=generation,
            files=files_of([(key, 2, 4) for key in keys]),
            rows=4,
            inventory="",
            verdict="clean",
            audit=audit,
            ends={},
            writer=writer,
            written_at=iso_time(self.clock.now_ms()),
        )
        publisher.put_audit(audit, writer.encode())
        publisher.put_manifest(manifest)
        if current.pointer is not None and self.rng.random() < 0.2:
            return  # it dies before the swap
        assert publisher.swap_pointer(manifest, current, writer, iso_time(self.clock.now_ms()))
        self.moved(files)

    def moved(self, files: tuple[str, ...]) -> None:
        """Note that the pointer names other files."""
        self.past.append((files, self.clock.now_ms()))
        stored = self.storage.get(self.publisher().folder.pointer)
        assert stored is not None
        self.pointers.append((stored.body, self.files()))
        if self.rng.random() < 0.8:
            self.publisher().write_symlinks()

    def judge(self) -> None:
        """Swap the verdict alone."""
        publisher = self.publisher()
        pointer, manifest = publisher.published()
        if pointer is not None and manifest is not None:
            audit = publisher.folder.audit(pointer.generation, f"e{self.rng.randrange(3)}")
            publisher.put_audit(audit, self.id().encode())
            judged = PointerVerdict(self.rng.choice(("clean", "unknown")), audit)
            assert publisher.swap_pointer(manifest, publisher.current(), self.id(), pointer.written_at, judged)

    def put_back(self) -> None:
        """Let a person put an earlier version of the pointer back whose files are there."""
        if not self.pointers:
            return
        body, files = self.rng.choice(self.pointers)
        publisher, before = self.publisher(), self.files()
        manifest = body.decode().split('"manifest": "')[1].partition('"')[0]
        if files != before and all(self.storage.head(key) for key in (*files, manifest)):
            assert self.storage.put_if_match(publisher.folder.pointer, body, publisher.current().etag, "x/y")
            self.moved(before)

    def commit(self) -> None:
        """Commit to the table; the client may die around it, or stand still at two moments while others work."""
        self.table.dies = self.rng.choice((None, None, None, False, True))
        if self.rng.random() < 0.3:
            self.storage.before_mark = self.others
        if self.rng.random() < 0.3:
            self.table.before_commit = self.others
        try:
            TableCommitter(self.table, self.publisher(), self.clock, self.id).commit()
        except (Crash, CatalogUnavailable) as exc:
            self.log.append(type(exc).__name__)
        self.table.dies = self.table.before_commit = self.storage.before_mark = None

    def others(self) -> None:
        """Let others work."""
        for _ in range(self.rng.randrange(6)):
            self.step()

    def leave(self) -> None:
        """Let the catalog go away, or come back."""
        self.table.is_away = not self.table.is_away

    def sweep(self) -> None:
        """Sweep, as each night does."""
        self.publisher().sweep(self.clock.now_ms())

    def vacuum(self) -> None:
        """Vacuum, as somebody does in between."""
        publisher = self.publisher()
        before_ms = self.clock.now_ms() - GRACE_MS
        left = find_leftovers(publisher.storage, publisher.folder, before_ms, RawDays(lambda _: True, lambda _: ""))
        delete_leftovers(publisher.storage, publisher.folder, left)

    def wait(self) -> None:
        """Let time pass: sometimes more than the grace."""
        self.clock.advance(self.rng.choice((1, 24, 100)) * _HOUR_SECONDS)

    def step(self) -> None:
        """Let something happen."""
        what = self.rng.choice(
            (self.publish, self.judge, self.put_back, self.commit, self.leave, self.sweep, self.vacuum, self.wait)
        )
        self.log.append(what.__name__)
        what()
        self.check()

    def check(self) -> None:
        """Demand every file that the table names, that the pointer names, and that a query may still read."""
        gone = [uri for uri in self.table.files if not Path(uri.removeprefix("file://")).exists()]
        assert not gone, f"the table names {gone}: {self.log}"
        since_ms = self.clock.now_ms() - GRACE_MS
        read = [key for files, until_ms in self.past if until_ms > since_ms for key in files]
        gone = [key for key in (*self.files(), *read) if self.storage.head(key) is None]
        assert not gone, f"readers miss {gone}: {self.log}"


@pytest.mark.parametrize("part", range(3))
def test_nothing_that_a_table_names_is_deleted_while_its_catalog_is_away(tmp_path: Path, part: int) -> None:
    """Nor what readers of a pointer began on within the grace; in the end, all that is replaced is gone."""
    for seed in range(part * _LIVES, (part + 1) * _LIVES):
        life = Life(tmp_path / str(seed), seed)
        for _ in range(_STEPS):
            life.step()
        life.table.is_away = False
        life.publish()
        for _ in range(3):
            TableCommitter(life.table, life.publisher(), life.clock, life.id).commit()
            life.clock.advance(100 * _HOUR_SECONDS)
            life.publisher().write_symlinks()
        life.sweep()
        life.check()
        folder = life.publisher().folder
        kept = {folder.generation_of(key) for key in life.publisher().storage.keys("") if "/part-" in key}
        assert kept == {folder.generation_of(key) for key in life.files()}, life.log


def test_a_generation_that_was_swept_before_its_mark_is_not_committed(tmp_path: Path) -> None:
    """A run stands still before its mark for longer than the grace: it looks at the pointer again."""
    life = Life(tmp_path, 1)
    life.rng.random = lambda: 0.5  # type: ignore[method-assign]  # nobody dies
    life.publish()
    first = life.files()

    def meanwhile() -> None:
        life.publish()
        life.clock.advance(100 * _HOUR_SECONDS)
        life.sweep()
        assert not any(life.storage.head(key) for key in first)

    life.storage.before_mark = meanwhile
    with pytest.raises(CatalogUnavailable, match="keep changing"):
        TableCommitter(life.table, life.publisher(), life.clock, life.id).commit()
    assert life.table.snapshot == 0
    done = TableCommitter(life.table, life.publisher(), life.clock, life.id).commit()
    assert done is not None
    assert done.state == "committed"
    life.check()


def commit_all(life: Life, table: Table) -> None:
    """Commit what the pointer names, and come back when the grace has passed twice."""
    for _ in range(3):
        assert TableCommitter(table, life.publisher(), life.clock, life.id).commit() is not None
        life.clock.advance(100 * _HOUR_SECONDS)
        life.publisher().write_symlinks()


def test_tables_of_one_name_in_two_catalogs_have_marks_of_their_own(tmp_path: Path) -> None:
    """One is away longer than the grace, and the other one goes on: the files of the first stay."""
    life, other = Life(tmp_path, 1), Table(ManualClock(), "two")
    life.rng.random = lambda: 0.5  # type: ignore[method-assign]  # nobody dies
    life.publish()
    for table in (life.table, other):
        assert TableCommitter(table, life.publisher(), life.clock, life.id).commit() is not None
    life.publish()
    commit_all(life, other)
    life.sweep()
    life.check()


def test_marks_of_an_earlier_release_keep_files_until_the_table_has_left_them(tmp_path: Path) -> None:
    """They name the table without its UUID."""
    life = Life(tmp_path, 1)
    life.rng.random = lambda: 0.5  # type: ignore[method-assign]  # nobody dies
    life.publish()
    assert TableCommitter(life.table, life.publisher(), life.clock, life.id).commit() is not None
    (mark,) = life.publisher().storage.keys(life.publisher().folder.tables)
    generation, _, run = mark.removesuffix(".json").split(".")
    short = hashlib.sha256(life.table.name.encode()).hexdigest()[:16]
    (tmp_path / mark).rename(tmp_path / f"{generation}.{short}.{run}.json")
    first = life.files()
    life.publish()
    life.clock.advance(100 * _HOUR_SECONDS)
    life.sweep()
    life.check()
    assert all(life.storage.head(key) for key in first)
    commit_all(life, life.table)
    life.sweep()
    assert not any(life.storage.head(key) for key in first)
