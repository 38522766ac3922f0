"""Python values as Arrow columns.

`pyarrow.array` would do, but imports pandas wherever it is installed: a second of start and 25 MB for every worker.
Joining what Python holds already is as fast.
"""

import struct
from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate

import pyarrow as pa

from archive.native.columns import Texts


def text_column(values: Sequence[str]) -> pa.StringArray:
    """Return a column of texts. They must be encodable: no half surrogates."""
    joined = "".join(values)
    if joined.isascii():
        return _column(pa.string(), joined.encode("ascii"), map(len, values), len(values))
    return _column_of_bytes(pa.string(), [value.encode() for value in values])


def constant_column(value: str, count: int) -> pa.StringArray:
    """Return a column of one text, again and again."""
    text = value.encode()
    offsets = array("i", range(0, len(text) * count + 1, len(text))) if text else array("i", [0] * (count + 1))
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(text * count)])


def bytes_column(values: Sequence[bytes]) -> pa.BinaryArray:
    """Return a column of bytes."""
    return _column_of_bytes(pa.binary(), values)


def long_column(values: Iterable[int]) -> pa.Int64Array:
    """Return a column of 64-bit integers. Raises OverflowError when one is larger."""
    numbers = array("q", values)
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def with_gaps(column: pa.Array, is_there: Sequence[bool]) -> pa.Array:
    """Return the column with null wherever `is_there` is False; the values there must be empty."""
    count = len(column)
    there = pa.Array.from_buffers(pa.uint8(), count, [None, pa.py_buffer(bytes(is_there))])
    _, *others = column.buffers()
    return pa.Array.from_buffers(column.type, count, [there.cast(pa.bool_()).buffers()[1], *others])


def column_of(kind: pa.DataType, content: Texts) -> pa.Array:
    """Return a column of texts or bytes whose offsets are made already."""
    rows = len(content.offsets) // 4 - 1
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(content.offsets), pa.py_buffer(content.content)])


def column_of_longs(numbers: bytes) -> pa.Int64Array:
    """Return a column of 64-bit integers that stand side by side."""
    return pa.Array.from_buffers(pa.int64(), len(numbers) // 8, [None, pa.py_buffer(numbers)])


def _column_of_bytes(kind: pa.DataType, values: Sequence[bytes]) -> pa.Array:
    return _column(kind, b"".join(values), map(len, values), len(values))


def _column(kind: pa.DataType, data: bytes, lengths: Iterable[int], count: int) -> pa.Array:
    packed = struct.pack(f"{count + 1}i", *accumulate(lengths, initial=0))  # half the time of `array`
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(packed), pa.py_buffer(data)])
