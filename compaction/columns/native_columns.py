"""Read the rows that certainly fit with the native codec; `payload_columns` reads the others.

A row that it reads is the one that Python's decoder and `arrays.build` would make.
"""

import ctypes
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from compaction.columns.arrays import EPOCH_UNITS, FIRST_DAY, LAST_DAY, RANGES
from compaction.columns.arrow_columns import column_of, flag_column, long_column, with_gaps
from compaction.columns.columns import Column
from compaction.columns.documents import is_exact, read_documents
from compaction.columns.fitting import fit
from compaction.columns.misfits import Misfit, is_unicode
from compaction.columns.types import ColumnType
from minutebook.codec.columns import Texts
from minutebook.codec.documents import (
    ColumnsOfDocuments,
    Found,
    FoundMisfits,
    FoundStruct,
    FoundValues,
    ValueKind,
    Wanted,
    WantedColumn,
    WantedField,
    WantedList,
    WantedStruct,
    WantedValues,
    new_columns_of_documents,
)
from minutebook.codec.library import native_library

_FEW: Final = 2
"""If more than one row in so many is left over, Python's decoder alone is as fast."""
_ATTEMPTS: Final = 3
"""After so many blocks with more rows left over, the native codec is no longer tried."""


class NativeRows(NamedTuple):
    """The columns of a block of payloads; the rows in `left` were not read and are null in all columns.

    `misfits` are single values that do not fit, by row: (number of the column, misfit). `unfit` counts them by the
    number of the column and the path of the leaf.
    """

    arrays: list[pa.Array]
    left: list[int]
    misfits: dict[int, list[tuple[int, Misfit]]]
    unfit: Counter[tuple[int, str]]


class _FittedValues(NamedTuple):
    """Values of a leaf at some rows, null where they do not fit, and their misfits by row."""

    rows: list[int]
    array: pa.Array
    misfits: list[tuple[int, Misfit]]


class NativeColumns:
    """Reads blocks of payloads into the arrays of columns."""

    def __init__(self, columns: Sequence[Column], reader: ColumnsOfDocuments, one_in: int = _FEW) -> None:
        self._types = [column.type for column in columns]
        self._leaves = {
            (number, path): kind for number, column in enumerate(columns) for path, kind in column.type.leaves("")
        }
        self._exact = any(map(is_exact, self._leaves.values()))
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
        text = memoryview(texts)[ends[0] : ends[-1]] if rows.misfits else memoryview(b"")
        fitted = {leaf: self._fit(leaf, found, text, ends[0]) for leaf, found in sorted(rows.misfits.items())}
        arrays = [_array(kind, column, fitted) for kind, column in zip(self._types, rows.columns, strict=True)]
        misfits: dict[int, list[tuple[int, Misfit]]] = {}
        unfit: Counter[tuple[int, str]] = Counter()
        for leaf in sorted(fitted, key=self._order):
            number, path = self._place(leaf)
            unfit[number, path] += len(fitted[leaf].misfits)
            for row, misfit in fitted[leaf].misfits:
                misfits.setdefault(row, []).append((number, misfit))
        return NativeRows(arrays, rows.left, misfits, unfit)

    def _place(self, leaf: int) -> tuple[int, str]:
        """Return the number of the column that a leaf lies in, and its path there."""
        number, fields = self._reader.leaves[leaf] or (leaf, ())
        return number, "".join(f".{name}" for name in fields)

    def _order(self, leaf: int) -> tuple[int, int]:
        """Return where a leaf stands in the order of columns: those within structs are numbered after all others."""
        return self._place(leaf)[0], leaf

    def _fit(self, leaf: int, found: FoundMisfits, texts: memoryview, begin: int) -> "_FittedValues":
        """Read the values of a leaf as Python's decoder does."""
        number, path = self._place(leaf)
        documents = [b"".join((b'{"x":', texts[low - begin : high - begin], b"}")) for low, high in found.places]
        column = pa.array(documents, pa.binary()).cast(pa.string())
        rows = read_documents(column, exact=self._exact).rows
        fitted = fit(self._leaves[number, path], [row["x"] for row in rows])
        misfits = [(found.rows[at], why[0].below(path)) for at, why in sorted(fitted.misfits.items())]
        return _FittedValues(found.rows, fitted.array, misfits)


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
    wanted = _wanted_of(column.type)
    if wanted is None or not all(map(is_unicode, names)):
        return None
    return WantedColumn(names, wanted, column.required)


def _wanted_of(kind: ColumnType) -> Wanted | None:
    if kind.name == "map":
        return None
    inner = [_wanted_of(field.type) for field in kind.fields]
    known = [wanted for wanted in inner if wanted is not None]
    if len(known) < len(inner):
        return None
    if kind.name == "list":
        return WantedList(known[0], kind.fields[0].required)
    if kind.name == "struct":
        fields = zip(kind.fields, known, strict=True)
        return WantedStruct(tuple(WantedField(field.name, wanted, field.required) for field, wanted in fields))
    return _values(kind)


def _values(kind: ColumnType) -> WantedValues | None:
    if kind.zone:
        return None
    if kind.how:
        return _units(kind)
    if kind.name == "decimal":
        return WantedValues(ValueKind.DECIMAL, 16, kind.precision, kind.scale)
    found = _KINDS.get(kind.name)
    return found._replace(takes_text=True) if found is not None and kind.is_from_text else found


def _units(kind: ColumnType) -> WantedValues | None:
    """Return how days or (parts of) seconds since 1970 are read; None: the type has a strptime format."""
    if kind.how == "days":
        return WantedValues(ValueKind.WHOLE, 4, low=FIRST_DAY, high=LAST_DAY)
    unit = EPOCH_UNITS.get(kind.how)
    if unit is None:
        return None
    low, high = max(unit.low, RANGES["int64"][0]), min(unit.high, RANGES["int64"][1])
    return WantedValues(ValueKind.WHOLE, 8, low=low, high=high, factor=unit.us, divisor=unit.parts, takes_text=True)


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


def put(array: pa.Array, others: pa.Array, rows: Sequence[int]) -> pa.Array:
    """Return an array with the values of some ascending rows replaced."""
    indices = [*range(len(array))]
    for index, row in enumerate(rows, len(array)):
        indices[row] = index
    return pa.concat_arrays([array, others]).take(long_column(indices))


def _array(kind: ColumnType, found: Found, fitted: Mapping[int, _FittedValues]) -> pa.Array:
    if isinstance(found, FoundValues):
        array = _of_values(kind, found)
        known = fitted.get(found.leaf)
        is_new = known is not None and known.array.null_count < len(known.array)
        return put(array, known.array, known.rows) if known is not None and is_new else array
    mask = pc.invert(flag_column(found.there)) if found.there else None
    if isinstance(found, FoundStruct):
        children = [_array(field.type, part, fitted) for field, part in zip(kind.fields, found.fields, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(kind.arrow), mask=mask)
    rows = len(found.offsets) // 4 - 1
    offsets = pa.Array.from_buffers(pa.int32(), rows + 1, [None, pa.py_buffer(found.offsets)])
    elements = _array(kind.fields[0].type, found.elements, fitted)
    return pa.ListArray.from_arrays(offsets, elements, type=kind.arrow, mask=mask)


def _of_values(kind: ColumnType, values: FoundValues) -> pa.Array:
    if isinstance(values.content, Texts):
        array: Any = column_of(kind.arrow, values.content)
    elif kind.name == "bool":
        array = flag_column(values.content)
    else:
        array = pa.Array.from_buffers(kind.arrow, values.number, [None, pa.py_buffer(values.content)])
    return with_gaps(array, values.there) if values.there else array
