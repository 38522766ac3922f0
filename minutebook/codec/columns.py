"""Read blocks of segments' lines into the buffers of Arrow columns, each in one pass (src/read_lines.c).

The rows of several blocks may gather in the buffers, of whatever segments they are: where a segment has a few lines,
columns of its own take longer than they do. The twin is `minutebook.format.record.decode_block` with
`compaction.parquet.line_tables`, which makes an object and seven list items of each row.
"""

import ctypes
import mmap
import threading
from collections.abc import Callable
from functools import cache
from typing import Final, NamedTuple

from minutebook.codec.library import bind, native_library
from minutebook.codec.lines import line_prefix
from minutebook.format.position import Position

MOST_BLOCK_BYTES: Final = 2 << 20
"""Room for lines. Longer blocks are left to the twin: with such long lines it is as fast."""
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

    _fields_ = (
        *((name, ctypes.c_void_p) for name, _ in FIELDS),
        ("most_rows", ctypes.c_int64),
        ("rows", ctypes.c_int64),
    )


class Shown(ctypes.Structure):
    """`struct shown` of read_lines.c."""

    _fields_ = tuple(
        (name, ctypes.c_int64)
        for name in (
            *("payload_bytes", "arrival_min_ms", "arrival_max_ms", "blobs", "ascends"),
            *("latest_ms", "step_back_ms"),
        )
    )


class Texts(NamedTuple):
    """A column of texts or bytes: 32-bit offsets, one more than rows, into `content`."""

    offsets: bytes
    content: bytes


class BlockColumns(NamedTuple):
    """Rows. A payload is in `texts` if it is valid UTF-8, else in `blobs`. `is_text` has a byte per row, 1 or 0."""

    rows: int
    sequences: Texts
    subs: bytes
    keys: Texts
    arrivals: bytes
    texts: Texts
    blobs: Texts | None
    is_text: bytes


class ReadRows(NamedTuple):
    """What is said of the rows of one block.

    `ascends`: positions are in ascending order. `step_back_ms`: the longest way back from the latest arrival so far,
    also before the block. `positions` and `arrivals_ms` can be asked for until the next block is read.
    """

    rows: int
    payload_bytes: int
    arrival_min_ms: int
    arrival_max_ms: int
    step_back_ms: int
    ascends: bool
    first: Position
    last: Position
    positions: Callable[[], list[Position]]
    arrivals_ms: Callable[[], list[int]]


class LineBuffers:
    """The buffers that C fills, mapped once: pages that are used take memory. Rows stay until they are taken."""

    def __init__(self) -> None:
        sizes = {
            BYTES: MOST_BLOCK_BYTES + SLACK_BYTES,
            OFFSETS: 4 * (_MOST_ROWS + 1),
            LONGS: 8 * _MOST_ROWS,
            FLAGS: _MOST_ROWS,
        }
        self._memory = {
            name: memoryview(mmap.mmap(-1, sizes[kind], flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
            for name, kind in FIELDS
        }
        addresses = {name: ctypes.addressof(ctypes.c_char.from_buffer(view)) for name, view in self._memory.items()}
        self._columns = LineColumns(**addresses, most_rows=_MOST_ROWS)
        self._shown = Shown()
        self._ends, self._subs = self._memory["sequence_offsets"].cast("i"), self._memory["subs"].cast("q")
        self._blobs = 0
        self.bytes = 0
        """Of the lines whose rows are here."""

    def has_room(self, size: int) -> bool:
        """Return whether a block of so many bytes can be read behind the others."""
        return 0 < size <= MOST_BLOCK_BYTES - self.bytes

    def read(self, reader: "ColumnReader", block: bytearray, size: int, latest_ms: int) -> ReadRows | None:
        """Read whole lines, the first `size` bytes of a block, behind the rows that are here.

        None unless there is room, and all are usual lines of the reader's shard. `latest_ms` as of `ReadRows`.
        """
        if not self.has_room(size) or size > len(block):
            return None
        source = ctypes.c_char.from_buffer(block)
        shown, columns, prefix = self._shown, self._columns, reader.prefix
        shown.latest_ms = latest_ms
        rows = reader.function(ctypes.addressof(source), size, prefix, len(prefix), columns, shown)
        del source  # it would prevent the owner from resizing the buffer
        if rows < 0:
            return None
        begin: int = columns.rows
        columns.rows = end = begin + rows
        self.bytes += size
        self._blobs += shown.blobs
        return ReadRows(
            rows,
            shown.payload_bytes,
            shown.arrival_min_ms,
            shown.arrival_max_ms,
            shown.step_back_ms,
            bool(shown.ascends),
            self._position(begin),
            self._position(end - 1),
            lambda: [*map(self._position, range(begin, end))],
            self._memory["arrivals"].cast("q")[begin:end].tolist,
        )

    def _position(self, row: int) -> Position:
        text = self._memory["sequences"][self._ends[row] : self._ends[row + 1]]
        return Position(int(bytes(text)), self._subs[row])

    def clear(self) -> None:
        """Forget the rows."""
        self._columns.rows = self._blobs = self.bytes = 0

    def take(self) -> BlockColumns:
        """Return the rows, and forget them."""
        memory, rows = self._memory, self._columns.rows

        def texts(offsets: str, content: str) -> Texts:
            ends = memory[offsets][: 4 * (rows + 1)]
            return Texts(bytes(ends), bytes(memory[content][: ends.cast("i")[rows]]))

        taken = BlockColumns(
            rows,
            texts("sequence_offsets", "sequences"),
            bytes(memory["subs"][: 8 * rows]),
            texts("key_offsets", "keys"),
            bytes(memory["arrivals"][: 8 * rows]),
            texts("text_offsets", "texts"),
            texts("blob_offsets", "blobs") if self._blobs else None,
            bytes(memory["is_text"][:rows]),
        )
        self.clear()
        return taken


class _Own(threading.local):
    """The buffers of a thread."""

    def __init__(self) -> None:
        self.buffers = LineBuffers()


_own = _Own()


def own_buffers() -> LineBuffers:
    """Return the thread's buffers, empty: for rows that are taken before anything else is read."""
    _own.buffers.clear()
    return _own.buffers


@cache
def reading(library: ctypes.CDLL) -> Callable[..., int]:
    """Return the function: block, size, prefix, its size, `LineColumns`, `Shown` -> rows, or less than 0."""
    return bind(library, "minutebook_read_lines", ctypes.POINTER(LineColumns), ctypes.POINTER(Shown))


class ColumnReader(NamedTuple):
    """Reads blocks of one shard's lines: the function of `reading`, and how each line begins."""

    function: Callable[..., int]
    prefix: bytes


def new_column_reader(shard_id: str) -> ColumnReader | None:
    """Return a reader of a shard's lines; None without the library."""
    library = native_library()
    return None if library is None else ColumnReader(reading(library), line_prefix(shard_id))
