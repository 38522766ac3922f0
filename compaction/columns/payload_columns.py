"""Add the typed columns of payloads to lines, and count values and misfits."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pyarrow as pa

from compaction.columns.arrow_columns import long_column, text_column, with_gaps
from compaction.columns.columns import EVENT_TIME, Columns
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
_Reasons = defaultdict[int, list[tuple[str, Misfit]]]
"""Row -> (column, misfit) pairs."""


class PayloadColumns:
    """Makes the columns of payloads for tables of lines, and counts."""

    def __init__(
        self, columns: Columns, new_native: Callable[..., NativeColumns | None] = new_native_columns
    ) -> None:
        self._columns = columns
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

    def columns_of(self, lines: pa.Table) -> list[pa.ChunkedArray]:
        """Return the columns for lines, `_unfit` last."""
        data = lines["data"].combine_chunks()
        slices = [self._typed(lines, data, begin, end) for begin, end in _slices(data)]
        return [
            pa.chunked_array([part[index] for part in slices], type=field.type)
            for index, field in enumerate(self._columns.fields)
        ]

    def counts(self) -> TypedCounts:
        """Return the counts so far."""
        names = [column.name for column in self._columns.columns]
        numbers = zip(names, self._filled, self._empty, self._misfits, strict=True)
        return TypedCounts(
            self._rows,
            self._unfit,
            tuple(ColumnCount(*column) for column in numbers),
            self._samples.samples(),
            tuple(self._firsts.firsts),
            () if self._window is None else self._window.days(),
            tuple(self._leaves.values()),
            self._unknown.sampled(),
        )

    def _typed(self, lines: pa.Table, data: pa.StringArray, begin: int, end: int) -> list[pa.Array]:
        arrays, reasons = self._read(data[begin:end])
        self._unknown.look(data[begin:end])
        count = end - begin
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


def _slices(data: pa.StringArray) -> Iterator[tuple[int, int]]:
    """Yield blocks of rows [begin, end) that are decoded together."""
    begin = 0
    while begin < len(data):
        end = min(begin + _ROWS, len(data))
        while end - begin > 1 and data[begin:end].nbytes > _BYTES:
            end = (begin + end) // 2
        yield begin, end
        begin = end
