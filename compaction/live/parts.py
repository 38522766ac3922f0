"""Read a live part's segments, and write its rows, or those of several, without some segments.

A part is cut from itself: the objects of its segments may be gone by then. The column `segment` names each row's.
"""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import IO, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from compaction.columns.columns import EVENT_INDEX, Column, Columns, quoted
from compaction.columns.types import parse_type
from compaction.inventory.segments import SegmentFacts
from compaction.parquet.fetching import local_copy
from compaction.parquet.plan import RawObject, Task, order_of_objects, single_groups
from compaction.parquet.rows import PARQUET_TYPE, NotSorted, ParquetRows
from compaction.tasks.finished import FinishedTask, Part, Reading, check_footer, keep_facts, read_facts
from minutebook.clock import IdSource
from minutebook.errors import FormatError, SafetyRefusal
from minutebook.format.keys import parse_segment_key
from minutebook.format.position import Position
from minutebook.published.live import LivePart
from minutebook.published.schema import SCHEMA
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import ObjectChanged

_CHUNK_BYTES: Final = 1 << 20
_AGAIN: Final = (
    "restore the file from a version of it; or delete the live pointer beside it, and follow writes the day anew"
)

Span = tuple[Position, Position] | None
"""The least and the greatest position of a segment's rows; None: it has none."""


class OpenedPart(NamedTuple):
    """A live part, and its segments: key to span. `types` are its typed columns, name to type."""

    part: LivePart
    segments: Mapping[str, Span]
    types: Mapping[str, str] = MappingProxyType({})

    @property
    def key(self) -> str:
        """Its key."""
        return self.part.key

    @property
    def rows(self) -> int:
        """Its rows."""
        return self.part.rows


class Rest(NamedTuple):
    """A part, and those of its segments that stay; `without` are typed columns that do not.

    Without the number of an event within its record, or with no other column left, each record is one row without
    typed columns.
    """

    opened: OpenedPart
    segments: Collection[str]
    without: frozenset[str] = frozenset()

    @property
    def types(self) -> Mapping[str, str]:
        """The typed columns that stay."""
        types = {name: text for name, text in self.opened.types.items() if name not in self.without}
        is_whole = EVENT_INDEX not in self.without and types.keys() - {EVENT_INDEX}
        return types if is_whole else {}

    @property
    def columns(self) -> str:
        """The digest that tells the rest's columns from others."""
        digest = self.opened.part.columns
        if not self.types or not self.without:
            return digest if self.types else ""
        return hashlib.sha256("\n".join([digest, *sorted(self.without)]).encode()).hexdigest()


def live_part(part: Part, facts: str, columns: str = "") -> LivePart:
    """Return the entry of a written part; `columns`: the digest of its typed columns."""
    return LivePart(key=part.key, rows=part.rows, bytes=part.size, digest=part.digest, facts=facts, columns=columns)


def span_of(read: SegmentFacts) -> Span:
    """Return the span of an object's rows."""
    return None if read.low is None or read.high is None else (read.low, read.high)


def overlapped(span: Span, others: Mapping[str, Span]) -> str:
    """Return the first of other segments that a span overlaps; empty: there is none."""
    if span is None:
        return ""
    return next(
        (key for key, other in others.items() if other is not None and other[0] <= span[1] and span[0] <= other[1]),
        "",
    )


def open_part(out: RetryingStorage, part: LivePart, types: Mapping[str, str] | None = None) -> OpenedPart | None:
    """Return a part with its segments: by its facts, else by its own rows. None: facts and file are gone."""
    types = types or {}
    stored = read_facts(out, part.facts) if part.facts else None
    if stored is not None:
        return OpenedPart(part, {reading.facts.key: span_of(reading.facts) for reading in stored.readings}, types)
    try:
        return OpenedPart(part, _spans(out, part), types)
    except ObjectChanged:
        return None


class Held:
    """Rows of parts, held in memory up to a number of bytes."""

    def __init__(self, out: RetryingStorage, most_bytes: int) -> None:
        self.rests: list[Rest] = []
        self.tables: list[pa.Table] = []
        self._out = out
        self._most_bytes = most_bytes
        self.bytes = 0

    def add(self, rest: Rest) -> bool:
        """Read a part's rows; False: they are too many, and not held. Raises SafetyRefusal as `write_rest`."""
        tables, size = [_schema(rest.types).empty_table()], self.bytes
        for table in _rows(self._out, rest):
            size += table.nbytes
            if size > self._most_bytes:
                return False
            tables.append(table)
        self.bytes = size
        self.rests.append(rest)
        self.tables.append(pa.concat_tables(tables))
        return True


def write_rest(out: RetryingStorage, prefix: str, folder: str, rest: Rest, new_id: IdSource) -> OpenedPart:
    """Write the rows of some segments of a part as one part below `folder`.

    `prefix` is the archive's; typed columns are moved as they are. Memory is one row group. Raises FormatError or
    SafetyRefusal if the part is not what was written.
    """
    return _written(out, prefix, folder, [rest], lambda: _rows(out, rest), new_id)


def write_joined(out: RetryingStorage, prefix: str, folder: str, held: Held, new_id: IdSource) -> OpenedPart:
    """Write what is held of parts as one, in the order of shards and positions; see `write_rest`.

    All parts have the same typed columns. Memory is that of what is held, twice.
    """
    return _written(out, prefix, folder, held.rests, lambda: iter([_merged(held.tables)]), new_id)


def _written(
    out: RetryingStorage,
    prefix: str,
    folder: str,
    rests: Sequence[Rest],
    rows: Callable[[], Iterator[pa.Table]],
    new_id: IdSource,
) -> OpenedPart:
    try:
        part = _write(out, folder, rests, rows(), new_id, is_sorted=True)
    except NotSorted:
        part = _write(out, folder, rests, rows(), new_id, is_sorted=False)
    readings = [reading for rest in rests for reading in _readings(out, rest)]
    segments = {key: rest.opened.segments[key] for rest in rests for key in rest.segments}
    if len(readings) < len(segments):
        return OpenedPart(live_part(part, "", rests[0].columns), segments, rests[0].types)
    if (lines := sum(reading.facts.lines for reading in readings)) != part.records:
        raise FormatError(f"{part.key} holds {part.records} records of {lines} lines", next_step=_AGAIN)
    ordered = sorted(
        ((_raw_object(prefix, reading), reading.facts) for reading in readings),
        key=lambda pair: order_of_objects(pair[0]),
    )
    task = Task(0, tuple(single_groups(raw_object for raw_object, _ in ordered)))
    facts = tuple(facts for _, facts in ordered)
    kept = keep_facts(out, folder, task, FinishedTask(part, facts))
    return OpenedPart(live_part(part, kept, rests[0].columns), segments, rests[0].types)


def _write(
    out: RetryingStorage,
    folder: str,
    rests: Sequence[Rest],
    tables: Iterator[pa.Table],
    new_id: IdSource,
    *,
    is_sorted: bool,
) -> Part:
    key = f"{folder}part-00000-{new_id()[:12]}.parquet"
    columns, records = _columns(rests[0].types), 0
    written = ParquetRows(out.open_write(key, PARQUET_TYPE), columns, is_sorted=is_sorted)
    try:
        for table in tables:
            written.add(table)
            records += _firsts(table).num_rows
        written.close()
    except BaseException:  # also KeyboardInterrupt: an upload must not be left behind
        written.abort()
        raise
    segments = sum(len(rest.segments) for rest in rests)
    several = records if columns is not None and EVENT_INDEX in rests[0].types else None
    part = Part(key, written.rows, written.size, segments, digest=written.digest, several=several)
    return part._replace(etag=check_footer(out, part))


def _rows(out: RetryingStorage, rest: Rest) -> Iterator[pa.Table]:
    """Yield the rows of a part's segments in the rest's columns, one row group after the other."""
    part, keys, schema = rest.opened.part, pa.array(sorted(rest.segments), pa.string()), _schema(rest.types)
    try:
        with local_copy(out, part.key) as file:
            _check_digest(file, part)
            parquet = pq.ParquetFile(file)
            for number in range(parquet.num_row_groups):
                table = parquet.read_row_group(number)
                table = table.filter(pc.is_in(table["segment"], value_set=keys))
                if EVENT_INDEX in rest.opened.types and not rest.types:
                    table = _firsts(table)
                yield table.select(schema.names).cast(schema)
    except ObjectChanged as exc:
        raise SafetyRefusal(f"{part.key} is gone", next_step=_AGAIN) from exc


def _check_digest(file: IO[bytes], part: LivePart) -> None:
    digest = hashlib.sha256()
    while chunk := file.read(_CHUNK_BYTES):
        digest.update(chunk)
    file.seek(0)
    if digest.hexdigest() != part.digest:
        raise SafetyRefusal(f"{part.key} is not the file that was written", next_step=_AGAIN)


def _merged(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of several parts. Each segment lies together in one of them, and is moved as a whole."""
    runs = [run for table in tables for run in _runs(table)]
    runs.sort(key=lambda run: run[0])
    slices = (table.slice(begin, count) for _, table, begin, count in runs)
    return pa.concat_tables([tables[0].slice(0, 0), *slices]).combine_chunks()


def _runs(table: pa.Table) -> Iterator[tuple[tuple[str, int, int, str], pa.Table, int, int]]:
    """Yield each run of rows of one segment: its place in the order of shards and positions, and where it lies."""
    if not table.num_rows:
        return
    encoded = pc.run_end_encode(table["segment"].combine_chunks())
    begin = 0
    for end, key in zip(encoded.run_ends.to_pylist(), encoded.values.to_pylist(), strict=True):
        names = ("shard_id", "sequence_number", "sub_sequence_number")
        shard, sequence, sub = (table[name][begin].as_py() for name in names)
        yield (shard, int(sequence), sub, key), table, begin, end - begin
        begin = end


def _columns(types: Mapping[str, str]) -> Columns | None:
    """Return typed columns by their names and types alone: their values were read when the part was written."""
    columns = tuple(Column(name, quoted(name), parse_type(text)) for name, text in types.items())
    return Columns(columns) if columns else None


def _schema(types: Mapping[str, str]) -> pa.Schema:
    columns = _columns(types)
    return SCHEMA if columns is None else pa.schema([*SCHEMA, *columns.fields])


def _firsts(rows: pa.Table) -> pa.Table:
    """Return one row of each record: the one with its payload as it came."""
    if EVENT_INDEX not in rows.column_names:
        return rows
    return rows.filter(pc.equal(pc.fill_null(rows[EVENT_INDEX], 0), 0))


def _spans(out: RetryingStorage, part: LivePart) -> dict[str, Span]:
    """Return the segments of a part whose facts were lost, by its rows. Raises ObjectChanged if it is gone.

    Raises SafetyRefusal if it is another one.
    """
    spans: dict[str, tuple[Position, Position]] = {}
    with local_copy(out, part.key) as file:
        _check_digest(file, part)
        for batch in pq.ParquetFile(file).iter_batches(columns=["segment", "sequence_number", "sub_sequence_number"]):
            for key, sequence, sub in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                at = Position(int(sequence), sub)
                low, high = spans.get(key, (at, at))
                spans[key] = (min(low, at), max(high, at))
    return dict(spans)


def _readings(out: RetryingStorage, rest: Rest) -> list[Reading]:
    stored = read_facts(out, rest.opened.part.facts) if rest.opened.part.facts else None
    return [] if stored is None else [each for each in stored.readings if each.facts.key in rest.segments]


def _raw_object(prefix: str, reading: Reading) -> RawObject:
    parsed = parse_segment_key(prefix, reading.facts.key)
    return RawObject(
        reading.facts.key,
        reading.etag,
        reading.size,
        parsed.shard_id,
        parsed.minute,
        parsed.first,
        reading.modified_ms,
    )
