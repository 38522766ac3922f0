"""A run that was killed goes on: whole parts are reused, all else is done again, and ids come from the lines."""

import hashlib
import io
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from compaction.event_ids.copies import Layout, ShardTally
from compaction.event_ids.dropping import DroppedLines, Drops
from compaction.job.context import AuditOptions
from compaction.local.shuffle import FoundHere, ShuffledHere
from compaction.local.workers import each_here
from compaction.night.rewrite import Compacted
from compaction.parquet.plan import TaskSizes
from compaction.tasks.finished import YOUNG_MS, find_facts
from compaction.tasks.task import Order, TaskResult, run, run_collecting
from tests.corpus.auditing import in_process, shuffle_in_process
from tests.corpus.desk import DAY, Desk, repeated
from tests.corpus.object_defects import truncated_object
from tests.fakes.failing_storage import Crash

SIZES = TaskSizes(segments=4, shards=2)


class Killed:
    """A desk whose first run was killed when so many of its tasks were done."""

    def __init__(self, folder: Path, done: int | None = None) -> None:
        self.desk = Desk(folder)
        self.results: list[TaskResult] = []
        self.tasks = 0

        def engine(orders: Sequence[Order]) -> list[TaskResult]:
            self.tasks = len(orders)
            for order in orders[:done]:
                run(order)
            raise Crash

        with pytest.raises(Crash):
            self.desk.compact(engine=engine, sizes=SIZES)

    def again(self) -> Compacted:
        """Run again; `results` are those of its tasks."""

        def engine(orders: Sequence[Order]) -> list[TaskResult]:
            found = in_process(orders)
            self.results += found
            return found

        return self.desk.compact(engine=engine, sizes=SIZES)

    @property
    def taken_over(self) -> int:
        """How many tasks the run again did not have to do."""
        return sum(result.is_earlier for result in self.results)

    def files(self, what: str) -> list[Path]:
        """Return the facts (`_facts`) or the parts (`part`) of the generation."""
        folder = Path(self.desk.out.address.root, "tables", f"dt={DAY}")
        return sorted(folder.glob("_gen-*/_facts/*" if what == "_facts" else "_gen-*/part*"))

    def check_whole(self) -> None:
        """Assert that each record of the day is published once."""
        rows = self.desk.published_rows()
        assert len(rows) == len(set(rows)) == self.desk.corpus.records


@pytest.fixture
def killed(tmp_path: Path) -> Killed:
    """Return a run that was killed with all tasks done, and nothing published."""
    return Killed(tmp_path)


@pytest.mark.parametrize("done", [0, 1, 3])
def test_only_what_is_missing_is_read(tmp_path: Path, done: int) -> None:
    """The tasks that were done are counted, and the day is the one that a single run makes."""
    killed = Killed(tmp_path / "killed", done)
    again = killed.again()
    whole = Desk(tmp_path / "whole")
    expected = whole.compact(sizes=SIZES)
    assert killed.tasks == len(killed.results) > 3
    assert killed.taken_over == done
    assert killed.desk.published_rows() == whole.published_rows()
    assert again.result is not None
    assert expected.result is not None
    assert again.result.audit.equation == expected.result.audit.equation
    assert again.result.audit.findings == expected.result.audit.findings


def test_parts_that_are_taken_over_are_the_published_ones(killed: Killed) -> None:
    """Nothing is written twice."""
    before = killed.files("part")
    done = killed.again()
    assert killed.files("part") == before
    assert done.manifest is not None
    assert len(done.manifest.files) == len(before) == killed.taken_over
    killed.check_whole()


def cut(path: Path) -> None:
    """Leave the first half of a file."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    """Change one byte of a file."""
    body = bytearray(path.read_bytes())
    body[len(body) // 4] ^= 0xFF
    path.write_bytes(body)


def empty(path: Path) -> None:
    """Leave nothing of a file."""
    path.write_bytes(b"")


def stretch(path: Path) -> None:
    """Write more behind a file."""
    path.write_bytes(path.read_bytes() + b"more")


def scribble(path: Path) -> None:
    """Overwrite a file's end: its size stays."""
    body = path.read_bytes()
    path.write_bytes(body[:-200] + b"x" * 200)


def restate(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Write facts whose footer says something else, under the digest of their bytes."""
    table = pq.read_table(path)
    sink = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({b"minutebook": change(table.schema.metadata[b"minutebook"])}), sink)
    digest = hashlib.sha256(sink.getvalue()).hexdigest()[:32]
    path.unlink()
    path.with_name(f"{path.name.partition('-')[0]}-{digest}.parquet").write_bytes(sink.getvalue())


@pytest.mark.parametrize("what", ["_facts", "part"])
@pytest.mark.parametrize("damage", [cut, empty, stretch, scribble, Path.unlink])
def test_what_is_damaged_is_done_again(killed: Killed, damage: Callable[[Path], None], what: str) -> None:
    """One of the facts or of the parts: that task alone is done again, and the day is whole."""
    damage(killed.files(what)[1])
    killed.again()
    assert killed.taken_over == killed.tasks - 1
    killed.check_whole()


def test_facts_with_another_byte_are_not_believed(killed: Killed) -> None:
    """Their name holds their digest: a number that changed on its way is noticed."""
    for path in killed.files("_facts"):
        flip(path)
    killed.again()
    assert killed.taken_over == 0
    killed.check_whole()


def test_facts_of_one_task_say_nothing_of_another(killed: Killed) -> None:
    """Facts under another task's name: the footer and the rows name whose they are."""
    one, two, *_ = killed.files("_facts")
    two.write_bytes(one.read_bytes())
    killed.again()
    assert killed.taken_over == killed.tasks - 1
    killed.check_whole()


def test_facts_that_name_a_part_elsewhere_are_not_believed(killed: Killed) -> None:
    """A part in another generation's folder is swept with that one, however well it fits."""
    for path in killed.files("_facts"):
        restate(path, lambda stated: stated.replace(b"/_gen-", b"/_gen-other-"))
    for path in killed.files("part"):
        other = path.parent.with_name(path.parent.name.replace("_gen-", "_gen-other-"))
        other.mkdir(exist_ok=True)
        (other / path.name).write_bytes(path.read_bytes())
    killed.again()
    assert killed.taken_over == 0
    killed.check_whole()


def test_facts_that_earlier_versions_stored_with_ids_are_not_believed(killed: Killed) -> None:
    """Those without ids are the same in both versions."""
    for path in killed.files("_facts")[1:]:
        restate(path, lambda stated: stated.removesuffix(b"}") + b',"ids":{"version":"ids-1","key":"k","rows":1}}')
    killed.again()
    assert killed.taken_over == 1
    killed.check_whole()


def test_a_part_that_was_written_again_is_not_believed(killed: Killed) -> None:
    """Of the same size and with a good footer, under another ETag: somebody else's rows."""
    path = killed.files("part")[1]
    body = bytearray(path.read_bytes())
    body[6] ^= 1
    path.write_bytes(body)
    killed.again()
    assert killed.taken_over == killed.tasks - 1
    killed.check_whole()


def test_foreign_files_among_the_facts_are_passed_over(killed: Killed) -> None:
    """Whatever lies there, also under a name like ours."""
    folder = killed.files("_facts")[0].parent
    name = killed.files("_facts")[0].name.partition("-")[0]
    (folder / "notes.txt").write_text("not ours")
    (folder / f"{name}-0000.parquet").write_bytes(killed.files("part")[0].read_bytes())
    (folder / "below").mkdir()
    (folder / "below" / "x.parquet").write_bytes(b"PAR1PAR1")
    killed.again()
    assert killed.taken_over == killed.tasks
    killed.check_whole()


def test_an_object_that_changed_makes_another_generation(killed: Killed) -> None:
    """Its facts and its part stay behind."""
    killed.desk.archive_more()
    killed.again()
    assert killed.taken_over == 0
    killed.check_whole()


def test_an_object_that_was_written_again_is_read_again(killed: Killed) -> None:
    """A copy onto itself keeps ETag and size, and may change what the metadata says."""
    stored = killed.desk.corpus.shards[0].segments[4]
    path = killed.desk.raw / stored.key
    later = path.stat().st_mtime_ns + 10_000_000_000
    os.utime(path, ns=(later, later))
    killed.again()
    assert killed.taken_over == killed.tasks - 1
    killed.check_whole()


def test_a_day_old_part_is_left_to_the_sweep(killed: Killed) -> None:
    """A sweep may take it while the run goes on."""
    for path in killed.files("_facts"):
        old = killed.desk.clock.now_ms() - YOUNG_MS - 1
        os.utime(path, ns=(old * 1_000_000,) * 2)
    killed.again()
    assert killed.taken_over == 0


def test_a_task_with_an_object_that_cannot_be_read_leaves_no_facts(tmp_path: Path) -> None:
    """A second reading may find it whole."""
    desk = Desk(tmp_path)
    truncated_object(desk.corpus, desk.corpus.shards[0], 3)
    desk = Desk(tmp_path / "damaged", desk.corpus)
    assert desk.compact(sizes=SIZES).state == "held"
    results: list[TaskResult] = []

    def engine(orders: Sequence[Order]) -> list[TaskResult]:
        results.extend(found := in_process(orders))
        return found

    assert desk.compact(engine=engine, sizes=SIZES).state == "held"
    assert results == []  # what holds it is told by its facts, and the object is read again by itself
    assert desk.compact(engine=engine, sizes=SIZES, accept="it is cut").state == "published"
    first = results[: len(results) - len(results[-1:])]
    assert [any(read.problem for read in result.facts) for result in first if not result.is_earlier] == [True]


T = TypeVar("T")
U = TypeVar("U")


class Ended(NamedTuple):
    """Copies that were found; the driver is killed when so many tasks have left them out."""

    found: FoundHere
    after: int | None
    written: list[TaskResult]

    @property
    def shards(self) -> Mapping[int, ShardTally]:
        """Return the copies of each shard."""
        return self.found.shards

    def write(self) -> list[TaskResult]:
        """Run the orders, or some of them."""

        def some(work: Callable[[T], U], items: Iterable[T]) -> Iterator[tuple[int, U]]:
            return each_here(work, itertools.islice(items, self.after))

        self.written.extend(self.found._replace(begin=lambda _phase, _total: some).write())
        if self.after is not None:
            raise Crash
        return self.written


class Shuffled(NamedTuple):
    """Ids of tasks that were run; see `Ended`."""

    shuffled: ShuffledHere
    after: int | None
    written: list[TaskResult]

    @property
    def results(self) -> list[TaskResult]:
        """Return the tasks' results."""
        return self.shuffled.results

    def find(self, layout: Layout, orders: Mapping[int, Order]) -> Ended:
        """Find the copies."""
        return Ended(self.shuffled.find(layout, orders), self.after, self.written)


class Run:
    """Runs on a day with copies of every kind; `read` and `written` are the results of the last one's tasks."""

    def __init__(self, folder: Path, *, drop: bool) -> None:
        corpus, _ = repeated()
        self.desk = Desk(folder, corpus)
        self.options = AuditOptions(event_id="n", published=self.desk.out, drop_producer_duplicates=drop)
        self.read: list[TaskResult] = []
        self.written: list[TaskResult] = []

    def compact(self, *, read: int | None = None, write: int | None = None) -> Compacted:
        """Compact the day; killed when so many of its tasks have read, or written."""
        self.read, self.written = [], []

        def shuffle(orders: Sequence[Order]) -> Shuffled:
            for order in orders[:read] if read is not None else ():
                run_collecting(order)
            if read is not None:
                raise Crash
            shuffled = shuffle_in_process(orders)
            self.read += shuffled.results
            return Shuffled(shuffled, write, self.written)

        return self.desk.compact(audit=self.options, shuffle=shuffle, sizes=SIZES)

    def said(self, done: Compacted) -> object:
        """Return what was published, and what was found."""
        assert done.result is not None
        audit = done.result.audit
        return self.desk.published_rows(), audit.findings, audit.equation, audit.checks, done.verdict


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, object]:
    """Return what a run says that was not ended, without copies and with them."""
    found = {}
    for drop in (False, True):
        once = Run(tmp_path_factory.mktemp("whole"), drop=drop)
        found[drop] = once.said(once.compact())
    return found


@pytest.mark.parametrize("done", [1, 3])
def test_parts_with_copies_are_not_written_twice(tmp_path: Path, whole: dict[bool, object], done: int) -> None:
    """Their lines are read again for the ids, and the same copies are found."""
    killed = Run(tmp_path, drop=False)
    with pytest.raises(Crash):
        killed.compact(read=done)
    again = killed.compact()
    assert sum(result.is_earlier for result in killed.read) == done
    assert killed.said(again) == whole[False]


def before(killed: Run) -> int:
    """Return how many tasks read the day before."""
    return sum(result.part is None for result in killed.read)


def test_all_parts_of_a_run_that_read_everything_are_taken_over(tmp_path: Path, whole: dict[bool, object]) -> None:
    """It was killed before it published."""
    killed = Run(tmp_path, drop=False)
    with pytest.raises(Crash):
        killed.compact(read=99)
    again = killed.compact()
    assert sum(result.is_earlier for result in killed.read) == len(killed.read) - before(killed) > 3
    assert killed.said(again) == whole[False]


@pytest.mark.parametrize("done", [1, 3, 99])
def test_parts_without_copies_are_not_written_twice(tmp_path: Path, whole: dict[bool, object], done: int) -> None:
    """The copies are found again, and each task that left the same ones out is done."""
    killed = Run(tmp_path, drop=True)
    with pytest.raises(Crash):
        killed.compact(write=done)
    again = killed.compact()
    assert sum(result.is_earlier for result in killed.written) == min(done, len(killed.written))
    assert len(killed.written) > 3
    assert killed.said(again) == whole[True]


def test_a_part_that_left_other_lines_out_is_written_again(tmp_path: Path, whole: dict[bool, object]) -> None:
    """Objects in doubt, or another day before, make other copies: the facts name what their part lacks."""
    killed = Run(tmp_path, drop=True)
    with pytest.raises(Crash):
        killed.compact(write=99)
    lacking = change_facts(killed.desk, b'"left_out":"', b'"left_out":"0')
    again = killed.compact()
    assert lacking > 0
    assert sum(not result.is_earlier for result in killed.written) == lacking
    assert killed.said(again) == whole[True]


def test_facts_that_the_lines_do_not_bear_out_are_not_believed(tmp_path: Path, whole: dict[bool, object]) -> None:
    """Lines are read for their ids anyway: what they show now counts, and their part is written again."""
    killed = Run(tmp_path, drop=False)
    with pytest.raises(Crash):
        killed.compact(read=99)
    for key in facts_of(killed.desk):
        path = Path(killed.desk.storage.uri(key))
        table = pq.read_table(path)
        minimum = pc.add(table["arrival_min_ms"], 1)
        store(path, table.set_column(table.schema.get_field_index("arrival_min_ms"), "arrival_min_ms", minimum))
    again = killed.compact()
    assert not any(result.is_earlier for result in killed.read)
    assert killed.said(again) == whole[False]


def change_facts(desk: Desk, old: bytes, new: bytes) -> int:
    """Change what facts say of their part, where they say it; returns how many did."""
    changed = 0
    for key in facts_of(desk):
        path = Path(desk.storage.uri(key))
        table = pq.read_table(path)
        stated = table.schema.metadata[b"minutebook"]
        if old in stated and b'"left_out":""' not in stated:
            store(path, table.replace_schema_metadata({b"minutebook": stated.replace(old, new)}))
            changed += 1
    return changed


def store(path: Path, table: pa.Table) -> None:
    """Store facts in the place of others, under a name that fits them."""
    sink = io.BytesIO()
    pq.write_table(table, sink)
    path.unlink()
    digest = hashlib.sha256(sink.getvalue()).hexdigest()[:32]
    path.with_name(f"{path.name.partition('-')[0]}-{digest}.parquet").write_bytes(sink.getvalue())


def facts_of(desk: Desk) -> list[str]:
    """Return the keys of the facts of the day."""
    folder = Path(desk.storage.uri(f"tables/dt={DAY}/"))
    generation = next(path.name for path in folder.iterdir() if path.name.startswith("_gen-"))
    found = find_facts(desk.context().open(desk.out.address), f"tables/dt={DAY}/{generation}/", 0)
    return [key for keys in found.values() for key in keys]


def test_what_is_left_out_has_a_name() -> None:
    """Of path, objects, lines and events; nothing at all has none."""
    drops = Drops((1, 2), {b"e": 3})
    names = {
        DroppedLines("n", {"a": drops}).digest,
        DroppedLines("m", {"a": drops}).digest,
        DroppedLines("n", {"b": drops}).digest,
        DroppedLines("n", {"a": Drops((1,), {b"e": 3})}).digest,
        DroppedLines("n", {"a": Drops((1, 2), {b"e": None})}).digest,
        DroppedLines("n", {"a": Drops((1, 2))}).digest,
        DroppedLines("n").digest,
    }
    assert len(names) == 7
    assert DroppedLines("n").digest == ""
    assert DroppedLines("n", {"b": drops, "a": drops}).digest == DroppedLines("n", {"a": drops, "b": drops}).digest
