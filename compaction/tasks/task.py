"""What one Spark task does: read its segments, check every line, and write one Parquet file.

Plain Python that takes a value and returns one; Spark only carries it to a worker. A task that is run twice (a retry,
speculation) writes a file of another name; only the file that a returned row names counts, so nothing is doubled.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from archive.clock import SystemClock, new_id, new_random
from archive.errors import FormatError, ObjectVanished
from archive.retry import Backoff, until_known
from archive.store.places import open_storage
from archive.store.storage import Address, Storage
from compaction.tasks.event_ids import IdCollector, IdOrder, without
from compaction.tasks.facts import SegmentFacts
from compaction.tasks.fetching import FETCHES, Body, Fetched, fetch_ahead
from compaction.tasks.line_filter import Sieve
from compaction.tasks.merging import Repeat, merge
from compaction.tasks.parquet import ParquetPart
from compaction.tasks.plan import Piece, Task
from compaction.tasks.published_ids import read_published
from compaction.tasks.reading import LINE_SCHEMA, SegmentReader
from compaction.tasks.restored_lines import read_back

PARQUET_TYPE: Final = "application/vnd.apache.parquet"
_BUDGET_SECONDS: Final = 180
_FOOTER_BYTES: Final = 64 << 10


class Order(NamedTuple):
    """A task and where it reads and writes; `out` None: only read. Keys of parts begin with `folder`.

    `ids` asks for the event ids of all lines. `dropped` maps the key of a piece to the numbers of the lines that are
    not written, ascending. `published` are Parquet files below `archive` that are read for their ids instead.
    """

    task: Task
    archive: Address
    out: Address | None = None
    folder: str = ""
    ids: IdOrder | None = None
    dropped: Mapping[str, Sequence[int]] = {}
    published: tuple[str, ...] = ()


class Part(NamedTuple):
    """A Parquet file that exists. `segments` counts the objects that it was made of."""

    key: str
    rows: int
    size: int
    segments: int


class Outcome(NamedTuple):
    """What a task returns: facts of single pieces, repeats of merged ones, and its file.

    `without_id` counts the lines that have no event id, by the key of their piece, where ids were asked for.
    """

    number: int
    facts: tuple[SegmentFacts, ...]
    repeats: tuple[Repeat, ...]
    part: Part | None
    without_id: Mapping[str, int] = {}


def run(order: Order) -> Outcome:
    """Do the work of one task.

    Raises:
        StoreUnavailable, StoreRefused: the store.
        FormatError: a piece that was read before does not read the same again.
    """
    return run_collecting(order)[0]


def run_collecting(order: Order) -> tuple[Outcome, IdCollector | None]:
    """Do the work of one task; returns the ids of its lines, too, when they are asked for. Raises as `run`."""
    if order.ids is None:
        return _run(order, None), None
    if order.published:
        collector = IdCollector(order.ids, order.published)
        read_published(open_storage(order.archive), order.published, collector)
        return Outcome(order.task.number, (), (), None, collector.missing()), collector
    collector = IdCollector(order.ids, [piece.key for piece in order.task.pieces])
    return _run(order, collector)._replace(without_id=collector.missing()), collector


def _run(order: Order, ids: IdCollector | None) -> Outcome:
    storage = open_storage(order.archive)
    if order.out is None:
        return _work(order, storage, None if ids is None else Sieve(None, ids, {}), "")
    out = open_storage(order.out)
    key = f"{order.folder}part-{order.task.number:05d}-{new_id()[:12]}.parquet"
    sink = out.open_write(key, PARQUET_TYPE)
    try:
        part = ParquetPart(sink)
        outcome = _work(order, storage, Sieve(part, ids, _dropped(order)) if ids or order.dropped else part, key)
    except BaseException:  # whatever ends the task: no piece of an upload may stay behind
        sink.abort()
        raise
    if outcome.part is not None:
        _check_footer(out, outcome.part)
    return outcome


def _dropped(order: Order) -> Mapping[str, Sequence[int]]:
    """Return what is dropped while pieces are read one by one; `_whole_table` does it for those that are merged."""
    merged = {piece.key for unit in order.task.units if unit.merge for piece in unit.pieces}
    return {key: lines for key, lines in order.dropped.items() if key not in merged}


def _work(order: Order, storage: Storage, part: ParquetPart | Sieve | None, key: str) -> Outcome:
    task = order.task
    facts: list[SegmentFacts] = []
    repeats: list[Repeat] = []
    with ThreadPoolExecutor(max_workers=FETCHES, thread_name_prefix="fetch") as pool:
        fetched = fetch_ahead(pool, storage, task.pieces)
        for unit in task.units:
            if unit.merge:
                tables = [_whole_table(next(fetched), order.dropped) for _ in unit.pieces]
                extra, their = read_back(storage, unit)
                merged = merge([*tables, *extra], [*unit.pieces, *their])
                repeats += merged.repeats
                for lines, segment in merged.runs if part is not None else ():
                    part.add(lines, segment)  # type: ignore[union-attr]  # part is not None here
            else:
                facts.append(_read(unit.pieces[0], next(fetched).body, part))
    if part is None or not key:
        return Outcome(task.number, tuple(facts), tuple(repeats), None)
    part.close()
    written = Part(key, part.rows, part.size, len(task.pieces))
    return Outcome(task.number, tuple(facts), tuple(repeats), written)


def _read(piece: Piece, stored: Body | None, part: ParquetPart | Sieve | None) -> SegmentFacts:
    if stored is None:
        return SegmentFacts(piece.key, None, problem="it is not the object that was listed", changed=True)
    reader = SegmentReader(piece)
    for table in reader.tables(stored.drain()):
        if part is not None:
            part.add(table, piece.key)
    return reader.facts(dict(stored.metadata))


def _whole_table(fetched: Fetched, dropped: Mapping[str, Sequence[int]]) -> pa.Table:
    if fetched.body is None:
        raise ObjectVanished(
            f"{fetched.piece.key} changed while the day was rewritten",
            next_step="find out who writes below the prefix; then run the command again",
        )
    reader = SegmentReader(fetched.piece)
    tables = list(reader.tables(fetched.body.drain()))
    problem = reader.facts({}).problem
    if problem:
        raise FormatError(f"{fetched.piece.key}: {problem}", next_step="run the command again")
    whole = pa.concat_tables([LINE_SCHEMA.empty_table(), *tables])
    return without(whole, 0, dropped.get(fetched.piece.key, ()))


def _check_footer(out: Storage, part: Part) -> None:
    """Read the file's footer back: what will be published is what is stored, not what was meant."""
    waits = Backoff(SystemClock(), new_random(), budget_seconds=_BUDGET_SECONDS)
    tail = until_known(lambda: out.read_tail(part.key, _FOOTER_BYTES), waits, f"GET {part.key}")
    if tail.size != part.size:
        raise FormatError(f"{part.key} has {tail.size} bytes, {part.size} were written")
    footer = int.from_bytes(tail.data[-8:-4], "little") + 8
    data = tail.data
    if footer > len(data):
        data = until_known(lambda: out.read_tail(part.key, footer), waits, f"GET {part.key}").data
    rows = pq.read_metadata(pa.BufferReader(b"PAR1" + data[-footer:])).num_rows
    if rows != part.rows:
        raise FormatError(f"{part.key} holds {rows} rows, {part.rows} were written")
