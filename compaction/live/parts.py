"""Read a live part's segments, and write its rows, or those of several, without some segments.

A part is cut from itself: the objects of its segments may be gone by then. The column `segment` names each row's.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import IO, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from compaction.inventory.segments import SegmentFacts
from compaction.parquet.fetching import local_copy
from compaction.parquet.line_tables import LINE_SCHEMA
from compaction.parquet.plan import RawObject, Task, order_of_objects, single_groups
from compaction.parquet.rows import PARQUET_TYPE, NotSorted, ParquetPart
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
    """A live part, and its segments: key to span."""

    part: LivePart
    segments: Mapping[str, Span]

    @property
    def key(self) -> str:
        """Its key."""
        return self.part.key

    @property
    def rows(self) -> int:
        """Its rows."""
        return self.part.rows


class Rest(NamedTuple):
    """A part, and those of its segments that stay."""

    opened: OpenedPart
    segments: Collection[str]


def live_part(part: Part, facts: str) -> LivePart:
    """Return the entry of a written part."""
    return LivePart(key=part.key, rows=part.rows, bytes=part.size, digest=part.digest, facts=facts)


def span_of(read: SegmentFacts) -> Span:
    """Return the span of an object's rows."""
    return None if read.low is None or read.high is None else (read.low, read.high)


def slot_folder(key: str) -> str:
    """Return the folder of a segment's minute and shard: only segments of one folder may share records."""
    return key.rpartition("/")[0]


def overlapped(span: Span, others: Mapping[str, Span]) -> str:
    """Return the first of other segments that a span overlaps; empty: there is none."""
    if span is None:
        return ""
    return next(
        (key for key, other in others.items() if other is not None and other[0] <= span[1] and span[0] <= other[1]),
        "",
    )


def open_part(out: RetryingStorage, part: LivePart) -> OpenedPart | None:
    """Return a part with its segments: by its facts, else by its own rows. None: facts and file are gone."""
    stored = read_facts(out, part.facts) if part.facts else None
    if stored is not None:
        return OpenedPart(part, {reading.facts.key: span_of(reading.facts) for reading in stored.readings})
    try:
        return OpenedPart(part, _spans(out, part))
    except ObjectChanged:
        return None


def write_rest(out: RetryingStorage, prefix: str, folder: str, rests: Sequence[Rest], new_id: IdSource) -> OpenedPart:
    """Write the rows of some segments of parts as one part below `folder`, in the order of shards and positions.

    `prefix` is the archive's. Memory is one row group of a single part, and all rows of several. Raises FormatError
    or SafetyRefusal if a part is not what was written.
    """
    try:
        part = _write(out, folder, rests, new_id, is_sorted=True)
    except NotSorted:
        part = _write(out, folder, rests, new_id, is_sorted=False)
    readings = [reading for rest in rests for reading in _readings(out, rest)]
    segments = {key: rest.opened.segments[key] for rest in rests for key in rest.segments}
    if len(readings) < len(segments):
        return OpenedPart(live_part(part, ""), segments)
    if (rows := sum(reading.facts.lines for reading in readings)) != part.rows:
        raise FormatError(f"{part.key} holds {part.rows} rows of segments with {rows} lines", next_step=_AGAIN)
    ordered = sorted(
        ((_raw_object(prefix, reading), reading.facts) for reading in readings),
        key=lambda pair: order_of_objects(pair[0]),
    )
    task = Task(0, tuple(single_groups(raw_object for raw_object, _ in ordered)))
    facts = tuple(facts for _, facts in ordered)
    return OpenedPart(live_part(part, keep_facts(out, folder, task, FinishedTask(part, facts))), segments)


def _write(out: RetryingStorage, folder: str, rests: Sequence[Rest], new_id: IdSource, *, is_sorted: bool) -> Part:
    key = f"{folder}part-00000-{new_id()[:12]}.parquet"
    written = ParquetPart(out.open_write(key, PARQUET_TYPE), is_sorted=is_sorted)
    try:
        tables = _rows(out, rests[0]) if len(rests) == 1 else iter([_merged(out, rests)])
        for table in tables:
            written.add(_lines(table), table["segment"].combine_chunks())
        written.close()
    except BaseException:  # also KeyboardInterrupt: an upload must not be left behind
        written.abort()
        raise
    part = Part(key, written.rows, written.size, sum(len(rest.segments) for rest in rests), digest=written.digest)
    return part._replace(etag=check_footer(out, part))


def _rows(out: RetryingStorage, rest: Rest) -> Iterator[pa.Table]:
    """Yield the rows of a part's segments, one row group after the other."""
    part, keys = rest.opened.part, pa.array(sorted(rest.segments), pa.string())
    try:
        with local_copy(out, part.key) as file:
            _check_digest(file, part)
            parquet = pq.ParquetFile(file)
            for number in range(parquet.num_row_groups):
                table = parquet.read_row_group(number)
                yield table.filter(pc.is_in(table["segment"], value_set=keys))
    except ObjectChanged as exc:
        raise SafetyRefusal(f"{part.key} is gone", next_step=_AGAIN) from exc


def _check_digest(file: IO[bytes], part: LivePart) -> None:
    digest = hashlib.sha256()
    while chunk := file.read(_CHUNK_BYTES):
        digest.update(chunk)
    file.seek(0)
    if digest.hexdigest() != part.digest:
        raise SafetyRefusal(f"{part.key} is not the file that was written", next_step=_AGAIN)


def _merged(out: RetryingStorage, rests: Sequence[Rest]) -> pa.Table:
    """Return the rows of several parts. Each segment lies together in one of them, and is moved as a whole."""
    tables = [pa.concat_tables([SCHEMA.empty_table(), *_rows(out, rest)]).combine_chunks() for rest in rests]
    runs = [run for table in tables for run in _runs(table)]
    runs.sort(key=lambda run: run[0])
    slices = (table.slice(begin, count) for _, table, begin, count in runs)
    return pa.concat_tables([SCHEMA.empty_table(), *slices]).combine_chunks()


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


def _lines(rows: pa.Table) -> pa.Table:
    """Return rows of a part as the lines that they were written from."""
    arrivals = rows["arrival_time"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    columns = [arrivals if name == "arrival_ms" else rows[name] for name in LINE_SCHEMA.names]
    return pa.Table.from_arrays(
        [column.cast(field.type) for column, field in zip(columns, LINE_SCHEMA, strict=True)], schema=LINE_SCHEMA
    )


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
