"""Read the rows that certainly fit with the native codec; `payload_columns` reads the others.

A row that it reads is the one that Python's decoder and `arrays.build` would make.
"""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from compaction.columns.arrays import EPOCH_UNITS, FIRST_DAY, LAST_DAY
from compaction.columns.arrow_columns import column_of, flag_column, with_gaps
from compaction.columns.columns import Column
from compaction.columns.misfits import is_unicode
from compaction.columns.types import ColumnType
from minutebook.codec.columns import Texts
from minutebook.codec.documents import (
    ColumnsOfDocuments,
    FoundColumn,
    FoundValues,
    ValueKind,
    WantedColumn,
    WantedValues,
    new_columns_of_documents,
)
from minutebook.codec.library import native_library

_FEW: Final = 8
"""If more than one row in so many is left over, Python's decoder alone is faster."""
_ATTEMPTS: Final = 3
"""After so many blocks with more rows left over, the native codec is no longer tried."""


class NativeRows(NamedTuple):
    """The columns of a block of payloads; the rows in `left` were not read and are null in all columns."""

    arrays: list[pa.Array]
    left: list[int]


class NativeColumns:
    """Reads blocks of payloads into the arrays of columns."""

    def __init__(self, columns: Sequence[Column], reader: ColumnsOfDocuments, one_in: int = _FEW) -> None:
        self._types = [column.type for column in columns]
        self._reader = reader
        self._one_in = one_in
        self._attempts = _ATTEMPTS

    def read(self, data: pa.StringArray) -> NativeRows | None:
        """Read payloads; None: too many of them are unusual or too long."""
        if data.null_count:  # the bytes below a null are no payload
            data = data.fill_null("")
        _, offsets, texts = data.buffers()
        if not self._attempts or texts is None or not len(data):
            return None
        ends = memoryview(offsets).cast("i")[data.offset : data.offset + len(data) + 1]
        rows = self._reader.read(ends, texts.address)
        if rows is None:
            return None
        if len(rows.left) * self._one_in > len(data) >= self._one_in:
            self._attempts -= 1
            return None
        arrays = [_array(kind, column) for kind, column in zip(self._types, rows.columns, strict=True)]
        return NativeRows(arrays, rows.left)


def new_native_columns(
    columns: Sequence[Column],
    paths: Sequence[tuple[str, ...]],
    rows: int,
    text_bytes: int,
    *,
    library: Callable[[], ctypes.CDLL | None] = native_library,
    one_in: int = _FEW,
) -> NativeColumns | None:
    """Return a reader of blocks of at most `rows` and `text_bytes`.

    None: there is no native codec, or it does not support the type or path of a column.
    """
    supported = [_wanted(column, names) for column, names in zip(columns, paths, strict=True)]
    if None in supported:
        return None
    reader = new_columns_of_documents(
        [column for column in supported if column is not None], rows, text_bytes, library
    )
    return None if reader is None else NativeColumns(columns, reader, one_in)


def _wanted(column: Column, names: tuple[str, ...]) -> WantedColumn | None:
    is_list = column.type.name == "list"
    element = column.type.fields[0] if is_list else None
    values = _values(column.type if element is None else element.type)
    if values is None or not all(map(is_unicode, names)):
        return None
    is_element_required = element is not None and element.required
    return WantedColumn(names, values, column.required, is_list, is_element_required)


def _values(kind: ColumnType) -> WantedValues | None:
    if kind.how:
        return _units(kind)
    if kind.name == "decimal":
        return WantedValues(ValueKind.DECIMAL, 16, kind.precision, kind.scale)
    return _KINDS.get(kind.name)


def _units(kind: ColumnType) -> WantedValues | None:
    """Return how days or (parts of) seconds since 1970 are read; None: the type has a strptime format."""
    if kind.how == "days":
        return WantedValues(ValueKind.WHOLE, 4, low=FIRST_DAY, high=LAST_DAY)
    unit = EPOCH_UNITS.get(kind.how)
    return None if unit is None else WantedValues(ValueKind.WHOLE, 8, low=unit.low, high=unit.high, factor=unit.us)


_KINDS: Final = {
    "string": WantedValues(ValueKind.TEXT),
    "json": WantedValues(ValueKind.JSON),
    "bool": WantedValues(ValueKind.TRUTH, 1),
    "int32": WantedValues(ValueKind.WHOLE, 4, low=-(1 << 31), high=(1 << 31) - 1),
    "int64": WantedValues(ValueKind.WHOLE, 8, low=-(1 << 63), high=(1 << 63) - 1),
    "float64": WantedValues(ValueKind.DOUBLE, 8),
    "date": WantedValues(ValueKind.DATE, 4),
    "timestamp": WantedValues(ValueKind.ZONED_TIME, 8),
    "local_timestamp": WantedValues(ValueKind.LOCAL_TIME, 8),
}


def _array(kind: ColumnType, column: FoundColumn) -> pa.Array:
    if kind.name != "list":
        return _of_values(kind, column.values)
    rows = len(column.list_offsets) // 4 - 1
    offsets = pa.Array.from_buffers(pa.int32(), rows + 1, [None, pa.py_buffer(column.list_offsets)])
    mask = pc.invert(flag_column(column.list_there)) if column.list_there else None
    elements = _of_values(kind.fields[0].type, column.values)
    return pa.ListArray.from_arrays(offsets, elements, type=kind.arrow, mask=mask)


def _of_values(kind: ColumnType, values: FoundValues) -> pa.Array:
    if isinstance(values.content, Texts):
        array: Any = column_of(kind.arrow, values.content)
    elif kind.name == "bool":
        array = flag_column(values.content)
    else:
        array = pa.Array.from_buffers(kind.arrow, values.number, [None, pa.py_buffer(values.content)])
    return with_gaps(array, values.there) if values.there else array
