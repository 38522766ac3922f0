"""A block of a segment's lines as the buffers of Arrow's columns, straight from the text.

The twin is `minutebook.format.record.decode_block` with what `compaction.parquet.line_tables` makes of its lines: an
object and a place in seven lists for each row, where this is one pass (minutebook/codec/src/read_lines.c).
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
"""A longer block is left to the twin: it holds a line so long that the twin is as good."""
SLACK_BYTES: Final = 16
"""`BLOCK` of text.h."""
_MOST_ROWS: Final = MOST_BLOCK_BYTES // 96
"""A line is never shorter: so many bytes take the names of its fields alone."""
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
    """A column of texts or bytes: 32-bit offsets, one more than rows, and what they point into."""

    offsets: bytes
    content: bytes


class BlockColumns(NamedTuple):
    """The rows of a block. Each has its payload in `texts` or, where that is no UTF-8, in `blobs`.

    `is_text` has a byte a row, 1 or 0, and says which. `ascends`: each row lies behind the one before.
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


class _Room(threading.local):
    """Where columns are put before they are taken: mapped once a thread, and only what is used takes memory."""

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
        places = {name: ctypes.addressof(ctypes.c_char.from_buffer(view)) for name, view in self.memory.items()}
        self.columns = LineColumns(**places, most_rows=_MOST_ROWS)
        self.shown = Shown()


_room = _Room()


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
        """Read the first `size` bytes of a buffer: whole lines.

        None unless all of them are lines of this shard as they are written: nothing is decided then.
        """
        if not 0 < size <= min(len(block), MOST_BLOCK_BYTES):
            return None
        source = ctypes.c_char.from_buffer(block)
        rows = self._read(ctypes.addressof(source), size, self._prefix, len(self._prefix), _room.columns, _room.shown)
        del source  # it holds the buffer, which its owner may make longer
        return None if rows < 0 else _taken(rows, _room.shown, _room.memory)


def _taken(rows: int, shown: Shown, memory: dict[str, memoryview]) -> BlockColumns:
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
    """Return what reads a shard's lines; None where there is no library."""
    library = native_library()
    return None if library is None else ColumnReader(library, shard_id)
