"""Add the typed columns of payloads to lines, and count values and misfits.

With `decode` the columns are those of a decoded copy of each payload; one that is not decoded has none.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from compaction.columns.arrow_columns import long_column, text_column, whole_column, with_gaps
from compaction.columns.columns import EVENT_INDEX, EVENT_TIME, Columns
from compaction.columns.counts import ColumnCount, FirstValues, LeafCount, Samples, TypedCounts, leaves_of
from compaction.columns.documents import Documents, is_exact, read_documents
from compaction.columns.event_time import EventWindow
from compaction.columns.fitting import fit
from compaction.columns.misfits import PAYLOAD, Misfit, reason
from compaction.columns.native_columns import NativeColumns, new_native_columns, put
from compaction.columns.paths import ValuePath
from compaction.columns.unknown_keys import UnknownKeys

_ROWS: Final = 4096
_BYTES: Final = 1 << 20
"""Limits of a block: decoded JSON takes up to twenty times the bytes of its text."""
_TABLE_BYTES: Final = 8 << 20
"""Columns of a table of `tables_of`, but for one block."""
_RAW: Final = frozenset({"data", "data_bytes"})
_Reasons = defaultdict[int, list[tuple[str, Misfit]]]
"""Row -> (column, misfit) pairs."""


class DecodedBlock(NamedTuple):
    """The texts of the rows [begin, end): null where a payload is not decoded, whose reason is in `misfits`.

    Rows of `misfits` count from `begin`. Where a record may hold several events, `events` says of each text the row
    of its record, and which of the events it is (None: the record has none, or is not decoded).
    """

    begin: int
    end: int
    texts: pa.StringArray
    misfits: dict[int, Misfit]
    events: tuple[list[int], list[int | None]] = ([], [])


class PayloadDecoder(Protocol):
    """Decodes the payloads of lines."""

    def blocks(self, lines: pa.Table, rows: int, text_bytes: int) -> Iterator[DecodedBlock]:
        """Yield the payloads of lines, decoded: at most `rows` a block, which ends behind `text_bytes`."""


class PayloadColumns:
    """Makes the columns of payloads for tables of lines, and counts. `decoder`: for columns with steps."""

    def __init__(
        self,
        columns: Columns,
        decoder: PayloadDecoder | None = None,
        new_native: Callable[..., NativeColumns | None] = new_native_columns,
    ) -> None:
        if bool(columns.decode) is not (decoder is not None):
            raise ValueError("columns with steps are read with their decoder, others without")
        self._fields = columns.fields
        self._index = _EventIndex() if columns.multiplies else None
        self._columns = columns = columns._replace(columns=columns.columns[1 if columns.multiplies else 0 :])
        self._decoder = decoder
        self._paths = [ValuePath(column.path) for column in columns.columns]
        names = [path.names for path in self._paths if path.names is not None]
        is_names = len(names) == len(self._paths)
        self._exact = not is_names or any(is_exact(kind) for _, kind in columns.leaves)
        self._native = new_native(columns.columns, names, _ROWS, _BYTES) if is_names else None
        self._samples = Samples()
        self._rows = self._unfit = 0
        self._filled = [0] * len(columns.columns)
        self._empty = [0] * len(columns.columns)
        self._misfits = [0] * len(columns.columns)
        self._leaves = {
            column.name + leaf.name: leaf._replace(name=column.name + leaf.name)
            for column in columns.columns
            if column.type.fields
            for leaf in leaves_of(column.type, pa.nulls(0, column.type.arrow))
        }
        self._window = None if columns.event is None else EventWindow(columns.event.window_days)
        self._firsts = FirstValues(len(columns.columns))
        self._unknown = UnknownKeys(columns.columns)

    def tables_of(self, lines: pa.Table) -> Iterator[pa.Table]:
        """Yield lines with their columns. Where a record may hold several events, each is a row.

        A table ends behind 8 MiB of columns: a few bytes of a payload may be megabytes of them.
        """
        schema = pa.schema([*lines.schema, *self._fields])
        if self._index is None or self._decoder is None:
            yield from self._whole_records(lines, schema)
            return
        for block in self._decoder.blocks(lines, _ROWS, _BYTES):
            rows = _rows_of_events(lines, block)
            index = self._index.add(rows, block.events[1])
            typed = self._typed(rows, block._replace(begin=0, end=len(block.texts)))
            yield pa.Table.from_arrays([*rows.columns, index, *typed], schema=schema)

    def _whole_records(self, lines: pa.Table, schema: pa.Schema) -> Iterator[pa.Table]:
        begin, parts, size = 0, list[list[pa.Array]](), 0
        blocks = _blocks(lines) if self._decoder is None else self._decoder.blocks(lines, _ROWS, _BYTES)
        for block in blocks:
            parts.append(self._typed(lines, block))
            size += sum(array.nbytes for array in parts[-1])
            if size >= _TABLE_BYTES or block.end == lines.num_rows:
                rows = lines.slice(begin, block.end - begin)
                arrays = [pa.chunked_array([part[at] for part in parts]) for at in range(len(self._fields))]
                yield pa.Table.from_arrays([*rows.columns, *arrays], schema=schema)
                begin, parts, size = block.end, [], 0

    def counts(self) -> TypedCounts:
        """Return the counts so far."""
        names = [column.name for column in self._columns.columns]
        numbers = zip(names, self._filled, self._empty, self._misfits, strict=True)
        counts = TypedCounts(
            self._rows,
            self._unfit,
            tuple(ColumnCount(*column) for column in numbers),
            self._samples.samples(),
            tuple(self._firsts.firsts),
            () if self._window is None else self._window.days(),
            tuple(self._leaves.values()),
            self._unknown.sampled(),
        )
        return counts if self._index is None else self._index.added(counts)

    def _typed(self, lines: pa.Table, block: DecodedBlock) -> list[pa.Array]:
        arrays, reasons = self._read(block.texts)
        self._unknown.look(block.texts)
        for row, misfit in block.misfits.items():  # it was read as null
            reasons[row] = [(PAYLOAD, misfit)]
        begin, count = block.begin, block.end - block.begin
        if self._window is not None:  # the last column is the event time
            arrivals = lines["arrival_time"].slice(begin, count).combine_chunks()
            arrays[-1], misfits = self._window.bound(arrays[-1], arrivals)
            for row, misfit in misfits.items():
                reasons[row].append((EVENT_TIME, misfit))
            self._filled[-1] -= len(misfits)
            self._misfits[-1] += len(misfits)
        self._firsts.add(lines, begin, arrays)
        for row in sorted(reasons):
            self._samples.add(reasons[row], lines, begin + row)
        self._rows += count
        self._unfit += len(reasons)
        if not reasons:
            return [*arrays, pa.nulls(count, pa.string())]
        texts = [reason(reasons[row]) if row in reasons else "" for row in range(count)]
        return [*arrays, with_gaps(text_column(texts), [row in reasons for row in range(count)])]

    def _read(self, data: pa.StringArray) -> tuple[list[pa.Array], _Reasons]:
        """Return the columns of payloads, and the reasons of unfit rows."""
        native = None if self._native is None else self._native.read(data)
        if native is None:
            return self._decode(data)
        left = len(native.left)
        for index, (column, array) in enumerate(zip(self._columns.columns, native.arrays, strict=True)):
            unfit = {path: count for (number, path), count in native.unfit.items() if number == index}
            leaves = [
                leaf._replace(empty=leaf.empty - unfit.get(leaf.name, 0), unfit=unfit.get(leaf.name, 0))
                for leaf in leaves_of(column.type, array, left)
            ]
            self._count(index, array, array.null_count - left - unfit.get("", 0), unfit.get("", 0), leaves)
        names = [column.name for column in self._columns.columns]
        reasons: _Reasons = defaultdict(list)
        for row, misfits in native.misfits.items():
            reasons[row] = [(names[number], misfit) for number, misfit in misfits]
        if not native.left:
            return native.arrays, reasons
        arrays, of_left = self._decode(data.take(long_column(native.left)))
        reasons.update({native.left[row]: why for row, why in of_left.items()})
        return [put(*parts, native.left) for parts in zip(native.arrays, arrays, strict=True)], reasons

    def _decode(self, data: pa.StringArray) -> tuple[list[pa.Array], _Reasons]:
        """Return the same from payloads decoded in Python."""
        documents = read_documents(data, exact=self._exact)
        reasons: _Reasons = defaultdict(list)
        for row, problems in documents.problems.items():
            reasons[row] += [(PAYLOAD, problem) for problem in problems]
        return [self._column(index, documents, reasons) for index in range(len(self._paths))], reasons

    def _column(self, index: int, documents: Documents, reasons: _Reasons) -> pa.Array:
        column, path = self._columns.columns[index], self._paths[index]
        values, failed = path.values(documents)
        if column.required:
            known = documents.unread | failed.keys()
            missing = [row for row, value in enumerate(values) if value is None and row not in known]
            failed |= dict.fromkeys(missing, Misfit("missing", "missing or null, and required"))
        lost = len(failed) + len(documents.unread)
        fitted = fit(column.type, values, lost)
        for row, misfit in failed.items():
            reasons[row].append((column.name, misfit))
        for row, misfits in fitted.misfits.items():
            reasons[row] += [(column.name, misfit) for misfit in misfits]
        unfit = lost + sum(not misfits[0].path for misfits in fitted.misfits.values())
        self._count(index, fitted.array, values.count(None) - lost, unfit, fitted.leaves)
        return fitted.array

    def _count(self, index: int, array: pa.Array, empty: int, unfit: int, leaves: Sequence[LeafCount]) -> None:
        """Add the values of a column, and those of its leaves."""
        self._filled[index] += len(array) - array.null_count
        self._empty[index] += empty
        self._misfits[index] += unfit
        for leaf in leaves if self._columns.columns[index].type.fields else ():
            name = self._columns.columns[index].name + leaf.name
            self._leaves[name] = self._leaves[name].plus(leaf)


class _EventIndex:
    """The column `event_index`, and its counts."""

    def __init__(self) -> None:
        self._filled = self._empty = self._records = 0
        self._firsts = FirstValues(1)

    def add(self, rows: pa.Table, indexes: Sequence[int | None]) -> pa.Array:
        """Return the column of some rows."""
        array = whole_column(indexes)
        self._filled += len(array) - array.null_count
        self._empty += array.null_count
        self._records += array.null_count + (pc.sum(pc.equal(array, 0)).as_py() or 0)
        self._firsts.add(rows, 0, [array])
        return array

    def added(self, counts: TypedCounts) -> TypedCounts:
        """Return the counts of the other columns with those of this one."""
        return counts._replace(
            columns=(ColumnCount(EVENT_INDEX, self._filled, self._empty, 0), *counts.columns),
            firsts=(*self._firsts.firsts, *counts.firsts),
            records=self._records,
        )


def _rows_of_events(lines: pa.Table, block: DecodedBlock) -> pa.Table:
    """Return the line of each event; the payload as it came stands in the first row of its record alone."""
    records, indexes = block.events
    every = long_column(records)
    first = with_gaps(every, [not index for index in indexes])
    columns = [lines[name].take(first if name in _RAW else every) for name in lines.schema.names]
    return pa.Table.from_arrays(columns, schema=lines.schema)


def _blocks(lines: pa.Table) -> Iterator[DecodedBlock]:
    """Yield payloads as they came, in blocks that are read together."""
    data, begin = lines["data"].combine_chunks(), 0
    while begin < len(data):
        end = min(begin + _ROWS, len(data))
        while end - begin > 1 and data[begin:end].nbytes > _BYTES:
            end = (begin + end) // 2
        yield DecodedBlock(begin, end, data[begin:end], {})
        begin = end
