"""Lines become wider: the typed columns of their payloads, and what does not fit, counted."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from compaction.columns.arrow_columns import long_column, text_column, with_gaps
from compaction.columns.columns import EVENT_TIME, Columns
from compaction.columns.counts import ColumnCount, FirstValues, Samples, TypedCounts
from compaction.columns.documents import Documents, read_documents
from compaction.columns.event_window import EventWindow
from compaction.columns.fitting import fit
from compaction.columns.misfits import PAYLOAD, Misfit, reason
from compaction.columns.native_columns import new_native_columns
from compaction.columns.paths import ValuePath

_ROWS: Final = 4096
_BYTES: Final = 1 << 20
"""What is decoded at once: the values of JSON take up to twenty times the bytes of their text."""
_EXACT: Final = frozenset({"decimal", "json"})
_Reasons = defaultdict[int, list[tuple[str, Misfit]]]
"""By row: (column, misfit)."""


class PayloadColumns:
    """Adds the columns of payloads to tables of lines, and counts."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._paths = [ValuePath(column.path) for column in columns.columns]
        names = [path.names for path in self._paths if path.names is not None]
        is_names = len(names) == len(self._paths)
        self._exact = not is_names or any(kind.name in _EXACT for _, kind in columns.leaves)
        self._native = new_native_columns(columns.columns, names, _ROWS, _BYTES) if is_names else None
        self._samples = Samples()
        self._rows = self._unfit = 0
        self._filled = [0] * len(columns.columns)
        self._empty = [0] * len(columns.columns)
        self._misfits = [0] * len(columns.columns)
        self._window = None if columns.event is None else EventWindow(columns.event.window_days)
        self._firsts = FirstValues(len(columns.columns))

    def columns_of(self, lines: pa.Table) -> list[pa.ChunkedArray]:
        """Return the columns for lines, `_unfit` last."""
        data = lines["data"].combine_chunks()
        slices = [self._typed(lines, data, begin, end) for begin, end in _slices(data)]
        return [
            pa.chunked_array([part[index] for part in slices], type=field.type)
            for index, field in enumerate(self._columns.fields)
        ]

    def counts(self) -> TypedCounts:
        """Return what was counted so far."""
        names = [column.name for column in self._columns.columns]
        counted = zip(names, self._filled, self._empty, self._misfits, strict=True)
        return TypedCounts(
            self._rows,
            self._unfit,
            tuple(ColumnCount(*numbers) for numbers in counted),
            self._samples.found(),
            self._firsts.found(),
            () if self._window is None else self._window.counted(),
        )

    def _typed(self, lines: pa.Table, data: pa.StringArray, begin: int, end: int) -> list[pa.Array]:
        arrays, reasons = self._read(data[begin:end])
        if self._window is not None:
            arrivals = lines["arrival_time"].slice(begin, end - begin).combine_chunks()
            arrays[-1] = self._near(self._window, arrays[-1], arrivals, reasons)
        self._firsts.look(lines, begin, arrays)
        for row in sorted(reasons):
            self._samples.add(reasons[row], lines, begin + row)
        self._rows += end - begin
        self._unfit += len(reasons)
        texts = [reason(reasons[row]) if row in reasons else "" for row in range(end - begin)] if reasons else []
        unfit = (
            with_gaps(text_column(texts), [row in reasons for row in range(end - begin)])
            if texts
            else pa.nulls(end - begin, pa.string())
        )
        return [*arrays, unfit]

    def _read(self, data: pa.StringArray) -> tuple[list[pa.Array], _Reasons]:
        """Return the columns of payloads, and why rows do not fit."""
        found = None if self._native is None else self._native.read(data)
        if found is None:
            return self._judged(data)
        for index, array in enumerate(found.arrays):
            self._filled[index] += len(array) - array.null_count
            self._empty[index] += array.null_count - len(found.left)
        if not found.left:
            return found.arrays, defaultdict(list)
        arrays, reasons = self._judged(data.take(long_column(found.left)))
        return (
            [_put(array, of_left, found.left) for array, of_left in zip(found.arrays, arrays, strict=True)],
            defaultdict(list, {found.left[row]: why for row, why in reasons.items()}),
        )

    def _judged(self, data: pa.StringArray) -> tuple[list[pa.Array], _Reasons]:
        """Return what `_read` does, each payload decoded, and each value that does not fit with its reason."""
        documents = read_documents(data, exact=self._exact)
        reasons: _Reasons = defaultdict(list)
        for row, problems in documents.problems.items():
            reasons[row] += [(PAYLOAD, problem) for problem in problems]
        return [self._column(index, documents, reasons) for index in range(len(self._paths))], reasons

    def _column(self, index: int, documents: Documents, reasons: _Reasons) -> pa.Array:
        column, path = self._columns.columns[index], self._paths[index]
        values, misfits = path.values(documents)
        fitted = fit(column.type, values)
        misfits |= fitted.misfits
        empty = 0
        for row in [row for row, value in enumerate(values) if value is None] if fitted.array.null_count else ():
            if row in documents.unread or row in misfits:
                continue
            if column.required:
                misfits[row] = Misfit("missing", "missing or null, and required")
            else:
                empty += 1
        for row, misfit in misfits.items():
            reasons[row].append((column.name, misfit))
        self._filled[index] += len(fitted.array) - fitted.array.null_count
        self._empty[index] += empty
        self._misfits[index] += len(misfits) + len(documents.unread)
        return fitted.array

    def _near(
        self,
        window: EventWindow,
        events: pa.Array,
        arrivals: pa.Array,
        reasons: _Reasons,
    ) -> pa.Array:
        """Bound the last column, the time of events, by the time of their arrival."""
        bounded, misfits = window.bound(events, arrivals)
        for row, misfit in misfits.items():
            reasons[row].append((EVENT_TIME, misfit))
        self._filled[-1] -= len(misfits)
        self._misfits[-1] += len(misfits)
        return bounded


def _put(array: pa.Array, others: pa.Array, rows: Sequence[int]) -> pa.Array:
    """Return an array with other values in some rows, which ascend."""
    places = [*range(len(array))]
    for number, row in enumerate(rows, len(array)):
        places[row] = number
    return pa.concat_arrays([array, others]).take(long_column(places))


def _slices(data: pa.StringArray) -> Iterator[tuple[int, int]]:
    """Yield the rows that are decoded together: [begin, end)."""
    begin = 0
    while begin < len(data):
        end = min(begin + _ROWS, len(data))
        while end - begin > 1 and data[begin:end].nbytes > _BYTES:
            end = (begin + end) // 2
        yield begin, end
        begin = end
