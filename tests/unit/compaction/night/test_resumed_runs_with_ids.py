"""A run with event ids that was ended goes on where it was: parts are taken over, ids come from the lines again."""

import hashlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from compaction.event_ids.copies import Layout, ShardTally
from compaction.event_ids.dropping import DroppedLines, Drops
from compaction.job.context import AuditOptions
from compaction.night.rewrite import Compacted
from compaction.parquet.plan import TaskSizes
from compaction.tasks.finished import find_facts
from compaction.tasks.task import Order, TaskResult, leaving_out, run, run_collecting
from tests.corpus.auditing import FoundInProcess, InProcess, shuffle_in_process
from tests.corpus.desk import DAY, Desk, repeated
from tests.fakes.failing_storage import Crash

SIZES = TaskSizes(segments=4, shards=2)


class Ended(NamedTuple):
    """Copies that were found; the driver is killed when so many tasks have left them out."""

    found: FoundInProcess
    after: int | None
    written: list[TaskResult]

    @property
    def shards(self) -> dict[int, ShardTally]:
        """Return the copies of each shard."""
        return self.found.shards

    def write(self) -> list[TaskResult]:
        """Run the orders, or some of them."""
        pairs = list(zip(self.found.orders, self.found.drops, strict=True))
        self.written.extend(run(leaving_out(order, chunks)) for order, chunks in pairs[: self.after])
        if self.after is not None:
            raise Crash
        return self.written


class Shuffled(NamedTuple):
    """Ids of tasks that were run; see `Ended`."""

    shuffled: InProcess
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
