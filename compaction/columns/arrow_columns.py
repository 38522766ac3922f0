"""Build Arrow columns from Python values by joining buffers.

`pyarrow.array` is no faster, and imports pandas where it is installed: a second of start and 25 MB in every worker.
"""

import struct
from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final

import pyarrow as pa

from minutebook.codec.columns import Texts

_CACHED_BYTES: Final = 1 << 20
"""Largest repeated text that is cached for the next column: about 4,000 lines of a segment's key."""


def text_column(values: Sequence[str]) -> pa.StringArray:
    """Return a column of texts, which must not contain lone surrogates."""
    joined = "".join(values)
    if joined.isascii():
        return _column(pa.string(), joined.encode("ascii"), map(len, values), len(values))
    return _column_of_bytes(pa.string(), [value.encode() for value in values])


def constant_column(value: str, count: int) -> pa.StringArray:
    """Return a column that repeats one text. Columns of similar length share cached buffers (blocks of a segment)."""
    text = value.encode()
    rows = 1 << max(count - 1, 1).bit_length()
    repeated = _repeated_cached if len(text) * rows <= _CACHED_BYTES else _repeated
    return pa.Array.from_buffers(pa.string(), count, [None, _even_offsets(len(text), rows), repeated(text, rows)])


def repeated_column(runs: Sequence[tuple[str, int]]) -> pa.StringArray:
    """Return a column of texts, each repeated as often as is said."""
    if len({text for text, _ in runs}) == 1:
        return constant_column(runs[0][0], sum(count for _, count in runs))
    return text_column([text for text, count in runs for _ in range(count)])


@lru_cache(maxsize=4)
def _even_offsets(size: int, rows: int) -> pa.Buffer:
    """Return the 32-bit offsets of texts of equal size."""
    return pa.py_buffer(array("i", range(0, size * rows + 1, size)) if size else bytes(4 * (rows + 1)))


def _repeated(text: bytes, times: int) -> pa.Buffer:
    return pa.py_buffer(text * times)


_repeated_cached = lru_cache(maxsize=4)(_repeated)


def bytes_column(values: Sequence[bytes]) -> pa.BinaryArray:
    """Return a column of bytes."""
    return _column_of_bytes(pa.binary(), values)


def long_column(values: Iterable[int]) -> pa.Int64Array:
    """Return a column of 64-bit integers; raise OverflowError if one is larger."""
    numbers = array("q", values)
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def whole_column(values: Sequence[int | None]) -> pa.Int32Array:
    """Return a column of 32-bit integers (None: null)."""
    numbers = array("i", [value or 0 for value in values])
    column = pa.Array.from_buffers(pa.int32(), len(numbers), [None, pa.py_buffer(numbers)])
    return with_gaps(column, [value is not None for value in values])


def flag_column(flags: Sequence[int]) -> pa.BooleanArray:
    """Return a column of booleans, given as bytes of 0 and 1 or as bools."""
    return pa.Array.from_buffers(pa.uint8(), len(flags), [None, pa.py_buffer(bytes(flags))]).cast(pa.bool_())


def with_gaps(column: pa.Array, is_there: Sequence[int]) -> pa.Array:
    """Return the column with null where `is_there` is False or 0; the values there must be empty."""
    _, *others = column.buffers()
    return pa.Array.from_buffers(column.type, len(column), [flag_column(is_there).buffers()[1], *others])


def column_of(kind: pa.DataType, content: Texts) -> pa.Array:
    """Return a column of texts or bytes from ready-made offsets and content."""
    rows = len(content.offsets) // 4 - 1
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(content.offsets), pa.py_buffer(content.content)])


def column_of_longs(numbers: bytes) -> pa.Int64Array:
    """Return a column of 64-bit integers from their bytes."""
    return pa.Array.from_buffers(pa.int64(), len(numbers) // 8, [None, pa.py_buffer(numbers)])


def _column_of_bytes(kind: pa.DataType, values: Sequence[bytes]) -> pa.Array:
    return _column(kind, b"".join(values), map(len, values), len(values))


def _column(kind: pa.DataType, data: bytes, lengths: Iterable[int], count: int) -> pa.Array:
    packed = struct.pack(f"{count + 1}i", *accumulate(lengths, initial=0))  # half the time of `array`
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(packed), pa.py_buffer(data)])
