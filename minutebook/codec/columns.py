"""Read a block of a segment's lines into the buffers of Arrow columns in one pass (src/read_lines.c).

The twin is `minutebook.format.record.decode_block` with `compaction.parquet.line_tables`, which makes an object and
seven list items of each row.
"""

import ctypes
import mmap
import threading
from collections.abc import Callable
from functools import cache
from typing import Final, NamedTuple

from minutebook.codec.library import bind, native_library
from minutebook.codec.lines import line_prefix

MOST_BLOCK_BYTES: Final = 2 << 20
"""Longer blocks are left to the twin: with such long lines it is as fast."""
SLACK_BYTES: Final = 16
"""`BLOCK` of text.h."""
_MOST_ROWS: Final = MOST_BLOCK_BYTES // 96
"""A line has at least 96 bytes: the names of its fields."""
BYTES, OFFSETS, LONGS, FLAGS = range(4)
FIELDS: Final = (
    ("sequence_offsets", OFFSETS),
    ("sequences", BYTES),
    ("subs", LONGS),
    ("key_offsets", OFFSETS),
    ("keys", BYTES),
    ("arrivals", LONGS),
    ("text_offsets", OFFSETS),
    ("texts", BYTES),
    ("blob_offsets", OFFSETS),
    ("blobs", BYTES),
    ("is_text", FLAGS),
)


class LineColumns(ctypes.Structure):
    """`struct columns` of read_lines.c."""

    _fields_ = (*((name, ctypes.c_void_p) for name, _ in FIELDS), ("most_rows", ctypes.c_int64))


class Shown(ctypes.Structure):
    """`struct shown` of read_lines.c."""

    _fields_ = tuple(
        (name, ctypes.c_int64) for name in ("payload_bytes", "arrival_min_ms", "arrival_max_ms", "blobs", "ascends")
    )


class Texts(NamedTuple):
    """A column of texts or bytes: 32-bit offsets, one more than rows, into `content`."""

    offsets: bytes
    content: bytes


class BlockColumns(NamedTuple):
    """The rows of a block. A payload is in `texts` if it is valid UTF-8, else in `blobs`.

    `is_text` has a byte per row, 1 or 0. `ascends`: positions are in ascending order.
    """

    rows: int
    sequences: Texts
    subs: bytes
    keys: Texts
    arrivals: bytes
    texts: Texts
    blobs: Texts | None
    is_text: bytes
    payload_bytes: int
    arrival_min_ms: int
    arrival_max_ms: int
    ascends: bool


class _Buffers(threading.local):
    """The buffers that C fills, mapped once per thread; only pages that were used take memory."""

    def __init__(self) -> None:
        sizes = {
            BYTES: MOST_BLOCK_BYTES + SLACK_BYTES,
            OFFSETS: 4 * (_MOST_ROWS + 1),
            LONGS: 8 * _MOST_ROWS,
            FLAGS: _MOST_ROWS,
        }
        self.memory = {
            name: memoryview(mmap.mmap(-1, sizes[kind], flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
            for name, kind in FIELDS
        }
        addresses = {name: ctypes.addressof(ctypes.c_char.from_buffer(view)) for name, view in self.memory.items()}
        self.columns = LineColumns(**addresses, most_rows=_MOST_ROWS)
        self.shown = Shown()


_buffers = _Buffers()


@cache
def reading(library: ctypes.CDLL) -> Callable[..., int]:
    """Return the function: block, size, prefix, its size, `LineColumns`, `Shown` -> rows, or less than 0."""
    return bind(library, "minutebook_read_lines", ctypes.POINTER(LineColumns), ctypes.POINTER(Shown))


class ColumnReader:
    """Reads blocks of one shard's lines."""

    def __init__(self, library: ctypes.CDLL, shard_id: str) -> None:
        self._read = reading(library)
        self._prefix = line_prefix(shard_id)

    def read(self, block: bytearray, size: int) -> BlockColumns | None:
        """Read whole lines, the first `size` bytes of a buffer; None unless all are usual lines of this shard."""
        if not 0 < size <= min(len(block), MOST_BLOCK_BYTES):
            return None
        source = ctypes.c_char.from_buffer(block)
        shown = _buffers.shown
        rows = self._read(ctypes.addressof(source), size, self._prefix, len(self._prefix), _buffers.columns, shown)
        del source  # it would prevent the owner from resizing the buffer
        return None if rows < 0 else _copied(rows, shown, _buffers.memory)


def _copied(rows: int, shown: Shown, memory: dict[str, memoryview]) -> BlockColumns:
    def texts(offsets: str, content: str) -> Texts:
        ends = memory[offsets][: 4 * (rows + 1)]
        return Texts(bytes(ends), bytes(memory[content][: ends.cast("i")[rows]]))

    return BlockColumns(
        rows,
        texts("sequence_offsets", "sequences"),
        bytes(memory["subs"][: 8 * rows]),
        texts("key_offsets", "keys"),
        bytes(memory["arrivals"][: 8 * rows]),
        texts("text_offsets", "texts"),
        texts("blob_offsets", "blobs") if shown.blobs else None,
        bytes(memory["is_text"][:rows]),
        shown.payload_bytes,
        shown.arrival_min_ms,
        shown.arrival_max_ms,
        bool(shown.ascends),
    )


def new_column_reader(shard_id: str) -> ColumnReader | None:
    """Return a reader of a shard's lines; None without the library."""
    library = native_library()
    return None if library is None else ColumnReader(library, shard_id)
