"""The work of one Spark task: read its segments, collect facts about every line, and write one Parquet file.

Plain Python; Spark only carries orders and results. A task that runs twice (retry, speculation) writes files of
different names, and only the one that the returned result names counts, so no row is doubled.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from compaction.columns.columns import Columns
from compaction.columns.decode.registered import SchemaPlace, open_schemas
from compaction.event_ids.dropping import DroppedLines, LineFilter, read_published_ids, unpack_drops
from compaction.event_ids.rows import IdCollector, IdOrder
from compaction.inventory.segments import SegmentFacts, with_history
from compaction.parquet.fetching import FETCHES, FetchedBody, fetch, fetch_ahead
from compaction.parquet.gathering import GatheredLines
from compaction.parquet.line_tables import table_of_records
from compaction.parquet.plan import MergeGroup, RawObject, RestoredLines, Task, single_groups
from compaction.parquet.reading import SegmentReader
from compaction.parquet.rows import PARQUET_TYPE, ZSTD_LEVEL, NotSorted, ParquetPart
from compaction.parquet.sorting import sorted_tables
from compaction.shard_groups.opened import open_in_task
from compaction.tasks.finished import FinishedTask, Part, check_footer, keep_facts, reuse
from compaction.tasks.merging import Merge, MergeSource, Repeat
from minutebook.clock import new_id
from minutebook.compression import compression_of
from minutebook.errors import FormatError, ObjectVanished
from minutebook.format.record import decode_dropped_line
from minutebook.format.segment import inflate
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address


class Order(NamedTuple):
    """A task and its options. It reads from `archive`, and writes below `folder` of `out` (None: only reads).

    `ids`: collect the event ids of all lines. `dropped`: lines that are not written. `numbers`: the numbers of the
    task's objects among all whose ids were collected, if copies are left out. `published`: Parquet files in `archive`
    to read for their ids instead of objects. `is_sorted` False: the file declares no sort order. `columns`: typed
    columns, `schemas`: where a registry's schemas are found for them. `keeps`: store facts
    (`compaction.tasks.finished`), and with `writes` False nothing else. `earlier`: keys of facts of earlier runs of
    the task. `published_folder`: that of the generation that readers see, where what is found to be altered is
    stored, too. `is_again`: its objects were read before, so a changed object is an error.
    """

    task: Task
    archive: Address
    out: Address | None = None
    folder: str = ""
    ids: IdOrder | None = None
    dropped: DroppedLines = DroppedLines()
    numbers: tuple[int, ...] = ()
    published: tuple[str, ...] = ()
    zstd_level: int = ZSTD_LEVEL
    is_sorted: bool = True
    columns: Columns | None = None
    keeps: bool = False
    writes: bool = True
    earlier: tuple[str, ...] = ()
    published_folder: str = ""
    is_again: bool = False
    schemas: SchemaPlace | None = None


class _FactsDifferError(Exception):
    """The facts of an earlier run differ from the lines read now. Caught in this module."""


class TaskResult(NamedTuple):
    """The result of a task: facts of single objects, repeats of merged ones, and its part.

    `without_id`: number of lines without an event id, by object key. `is_earlier`: the part is of an earlier run.
    `starts`: each shard with the number of its first object in the task; sent to the driver in place of facts if ids
    are collected.
    """

    number: int
    facts: tuple[SegmentFacts, ...]
    repeats: tuple[Repeat, ...]
    part: Part | None
    without_id: Mapping[str, int] = {}
    is_earlier: bool = False
    starts: tuple[tuple[str, int], ...] = ()


def run(order: Order) -> TaskResult:
    """Run a task; raise FormatError or ObjectVanished if an object that was read before has changed."""
    return run_collecting(order)[0]


def leaving_out(order: Order, chunks: Iterable[bytes]) -> Order:
    """Return an order that drops copies; `chunks` are packed drops."""
    keys = {number: raw_object.key for number, raw_object in zip(order.numbers, order.task.objects, strict=True)}
    return order._replace(dropped=DroppedLines(order.dropped.expression, unpack_drops(chunks, keys)))


def run_collecting(order: Order) -> tuple[TaskResult, IdCollector | None]:
    """Run a task; also return the ids of its lines if the order has `ids`. Raises as `run`.

    If rows turn out to be unsorted, the file is written again without a declared order. If the facts of an earlier
    run differ from the lines, the task runs as if there were none.
    """
    try:
        return _run_once(order)
    except NotSorted:
        again = partial(_run_once, order._replace(is_sorted=False))
    except _FactsDifferError:
        again = partial(run_collecting, order._replace(earlier=()))
    return again()  # out of the handlers, whose exception holds what the first run has read


def _run_once(order: Order) -> tuple[TaskResult, IdCollector | None]:
    if order.ids is None:
        return _run(order, None), None
    if order.published:
        collector = IdCollector(order.ids, order.published)
        read_published_ids(open_in_task(order.archive), order.published, collector)
        return TaskResult(order.task.number, (), (), None, collector.missing()), collector
    collector = IdCollector(order.ids, [raw_object.key for raw_object in order.task.objects])
    return _run(order, collector)._replace(without_id=collector.missing()), collector


def _run(order: Order, ids: IdCollector | None) -> TaskResult:
    storage = open_in_task(order.archive)
    if order.out is None:
        return _read_for_ids(order, storage, ids)
    out = open_in_task(order.out)
    if not order.writes:
        result = _read_for_ids(order, storage, ids)
        _keep_facts(order, out, FinishedTask(None, result.facts))
        return result
    done = reuse(out, order.folder, order.task, order.earlier, order.dropped.digest) if order.keeps else None
    if done is not None:
        return _reused(order, storage, done, ids)
    return _write(order, storage, out, ids)


def _write(order: Order, storage: RetryingStorage, out: RetryingStorage, ids: IdCollector | None) -> TaskResult:
    """Read the lines, and write the part."""
    key = f"{order.folder}part-{order.task.number:05d}-{new_id()[:12]}.parquet"
    sink = out.open_write(key, PARQUET_TYPE)
    schemas = None if order.schemas is None else open_schemas(order.schemas)
    part = ParquetPart(sink, order.columns, zstd_level=order.zstd_level, is_sorted=order.is_sorted, schemas=schemas)
    try:
        filtered = LineFilter(part, ids, order.dropped) if ids or order.dropped.objects else part
        result = _read_groups(order, storage, filtered)
        part.close()
    except BaseException:  # also KeyboardInterrupt: an upload must not be left behind
        part.abort()
        raise
    several = part.records if order.columns is not None and order.columns.multiplies else None
    written = Part(
        key, part.rows, part.size, len(order.task.objects), part.typed, digest=part.digest, several=several
    )
    written = written._replace(etag=check_footer(out, written))
    if order.keeps:
        _keep_facts(order, out, FinishedTask(written, result.facts, order.dropped.digest))
    return result._replace(part=written)


def _keep_facts(order: Order, out: RetryingStorage, finished: FinishedTask) -> None:
    """Store facts beside the part; what is newly altered beside the published generation, too.

    The day may be held, and its next generation must know of it.
    """
    keep_facts(out, order.folder, order.task, finished)
    if order.published_folder in {"", order.folder}:
        return
    altered = [
        (raw_object, read)
        for raw_object, read in zip(order.task.objects, finished.facts, strict=True)
        if raw_object.history is not None and read.altered > raw_object.history.altered
    ]
    if altered:
        task = Task(order.task.number, tuple(single_groups(raw_object for raw_object, _ in altered)))
        facts = tuple(read for _, read in altered)
        keep_facts(out, order.published_folder, task, FinishedTask(None, facts, is_later=True))


def _reused(order: Order, storage: RetryingStorage, done: FinishedTask, ids: IdCollector | None) -> TaskResult:
    """Return the result of an earlier run. Only its ids are read from lines again; nothing is written."""
    if ids is not None and _read_for_ids(order, storage, ids).facts != done.facts:
        raise _FactsDifferError
    return TaskResult(order.task.number, done.facts, (), done.part, is_earlier=True)


def _read_for_ids(order: Order, storage: RetryingStorage, ids: IdCollector | None) -> TaskResult:
    return _read_groups(order, storage, None if ids is None else LineFilter(None, ids, DroppedLines()))


def _read_groups(order: Order, storage: RetryingStorage, part: ParquetPart | LineFilter | None) -> TaskResult:
    facts: list[SegmentFacts] = []
    repeats: list[Repeat] = []
    gathered = None if isinstance(part, LineFilter) else GatheredLines(part)
    with ThreadPoolExecutor(max_workers=FETCHES, thread_name_prefix="fetch") as pool:
        fetched = fetch_ahead(pool, storage, [group.objects[0] for group in order.task.groups if not group.merge])
        for group in order.task.groups:
            if not group.merge:
                raw_object, body = next(fetched)
                if body is None and order.is_again:
                    raise changed(raw_object)
                facts.append(_read(raw_object, body, part, gathered))
                continue
            if gathered is not None:
                gathered.flush()
            merge = Merge(merge_sources(storage, group, order.dropped))
            for run in merge.runs():
                if part is not None:
                    part.add(run.lines, run.keys)
            repeats += merge.repeats()
    if gathered is not None:
        gathered.flush()
    return TaskResult(order.task.number, tuple(facts), tuple(repeats), None)


def read_objects_whole(storage: RetryingStorage, objects: Sequence[RawObject]) -> list[SegmentFacts]:
    """Read every line of objects, and return the facts alone."""
    with ThreadPoolExecutor(max_workers=FETCHES, thread_name_prefix="fetch") as pool:
        gathered = GatheredLines(None)
        return [_read(raw_object, body, None, gathered) for raw_object, body in fetch_ahead(pool, storage, objects)]


def _read(
    raw_object: RawObject,
    stored: FetchedBody | None,
    part: ParquetPart | LineFilter | None,
    gathered: GatheredLines | None,
) -> SegmentFacts:
    """Read an object; its lines come into the part, by way of `gathered` where that may take them."""
    if stored is None:
        gone = SegmentFacts(raw_object.key, None, problem="it is not the object that was listed", changed=True)
        return with_history(gone, raw_object.history)
    reader = SegmentReader(raw_object)
    for table in reader.tables(stored.drain(), gathered):
        if gathered is not None:
            gathered.flush()
        if part is not None:
            part.add(table, raw_object.key)
    facts = reader.facts(dict(stored.metadata))._replace(digest=stored.digest)
    return with_history(facts, raw_object.history)


def merge_sources(storage: RetryingStorage, group: MergeGroup, dropped: DroppedLines) -> list[MergeSource]:
    """Return the sources of a merge: the group's objects without dropped lines, and its restored lines.

    The merge opens the objects, and sorts those that are out of order. Restored lines were dropped as copies of a
    record that is not archived; they are read here. Raises ObjectVanished or FormatError if they have changed since.
    """

    def source(raw_object: RawObject) -> MergeSource:
        lines = partial(_reread, storage, raw_object, dropped)
        if raw_object.key not in group.unsorted:
            return MergeSource(raw_object, raw_object.first, lines)
        return MergeSource(raw_object, raw_object.first, lambda: sorted_tables(lines()))

    def restored_source(restored: RestoredLines) -> MergeSource:
        table = _restored(storage, restored)
        return MergeSource(
            group.objects[0]._replace(key=restored.key), min(restored.positions), lambda: iter([table])
        )

    return [*map(source, group.objects), *map(restored_source, group.restored)]


def changed(raw_object: RawObject) -> ObjectVanished:
    """Return the error for an object that has changed since it was first read."""
    return ObjectVanished(
        f"{raw_object.key} changed while the day was rewritten",
        next_step="find out who writes below the prefix; then run the command again",
    )


def _reread(storage: RetryingStorage, raw_object: RawObject, dropped: DroppedLines) -> Iterator[pa.Table]:
    """Yield the lines of an object that was read before, without dropped ones."""
    body = fetch(storage, raw_object)
    if body is None:
        raise changed(raw_object)
    reader, begin = SegmentReader(raw_object), 0
    for table in reader.tables(body.drain()):
        yield dropped.remaining(table, begin, raw_object.key)
        begin += table.num_rows
    problem = reader.facts({}).problem
    if problem:
        raise FormatError(f"{raw_object.key}: {problem}", next_step="run the command again")


def _restored(storage: RetryingStorage, restored: RestoredLines) -> pa.Table:
    stored = storage.get(restored.key)
    if stored is None:
        raise ObjectVanished(f"{restored.key} is gone", next_step="find out who deletes objects under the prefix")
    positions = set(restored.positions)
    records = {
        record.position: (shard_id, record)
        for shard_id, record, _ in map(decode_dropped_line, inflate([stored.body], compression_of(restored.key)))
        if record.position in positions
    }
    if len(records) != len(positions):
        raise FormatError(f"{restored.key} does not read the same again", next_step="run the command again")
    return table_of_records([records[position] for position in sorted(records)])
