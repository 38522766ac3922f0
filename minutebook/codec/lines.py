"""Write a batch's records as lines of a segment in one pass over the daemon's JSON (src/write_lines.c).

The twin is msgspec's decoder with `minutebook.format.record.encode_lines`, which takes ten passes, and some objects
per record.
"""

import ctypes
import mmap
from collections.abc import Callable
from functools import cache
from typing import Final

import msgspec

from minutebook.codec.library import bind, native_library
from minutebook.format.position import Position, SequenceRange
from minutebook.format.record import Measured, WrittenLines

MOST_INPUT_BYTES: Final = 512 << 10
"""Longer input is left to the twin: with such large records it is as fast."""
_OUTPUT_BYTES: Final = 3 * MOST_INPUT_BYTES
"""The size of the buffer for lines; only pages that were used take memory."""


class Stretch(ctypes.Structure):
    """`struct stretch` of write_lines.c."""

    _fields_ = tuple(
        (name, ctypes.c_int64)
        for name in (
            "records",
            "payload_bytes",
            "arrival_min_ms",
            "arrival_max_ms",
            "first_at",
            "first_sub",
            "last_at",
            "last_sub",
            "sequence_digits",
        )
    )


@cache
def writing(library: ctypes.CDLL) -> Callable[..., int]:
    """Return the function: input, size, prefix, its size, output, its size, `Stretch` -> bytes, or less than 0."""
    more = ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(Stretch)
    return bind(library, "minutebook_write_lines", *more)


def line_prefix(shard_id: str) -> bytes:
    """Return the begin of each line of a shard, up to its sequence number."""
    return b'{"shard_id":' + msgspec.json.encode(shard_id) + b',"sequence_number":"'


class LineWriter:
    """Writes the lines of one shard."""

    def __init__(self, library: ctypes.CDLL, shard_id: str) -> None:
        self._write = writing(library)
        self._prefix = line_prefix(shard_id)
        self._output = memoryview(mmap.mmap(-1, _OUTPUT_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        self._output_at = ctypes.addressof(ctypes.c_char.from_buffer(self._output))
        self._stretch = Stretch()

    def write(self, line: memoryview, begin: int, end: int) -> WrittenLines | None:
        """Write the records between two indexes of the daemon's message, where commas separate them.

        None unless all have the daemon's usual form and ascending positions.
        """
        if not 0 <= begin < end <= len(line) or end - begin > MOST_INPUT_BYTES:
            return None
        source = ctypes.c_char.from_buffer(line, begin)
        written = self._write(
            ctypes.addressof(source),
            end - begin,
            self._prefix,
            len(self._prefix),
            self._output_at,
            _OUTPUT_BYTES,
            self._stretch,
        )
        del source  # it would prevent the owner from releasing the line's memory
        if written < 0:
            return None
        stretch, digits = self._stretch, self._stretch.sequence_digits

        def position(at: int, sub: int) -> Position:
            return Position(int(bytes(line[begin + at : begin + at + digits])), sub)

        return WrittenLines(
            self._output[:written],
            stretch.records,
            SequenceRange(position(stretch.first_at, stretch.first_sub), position(stretch.last_at, stretch.last_sub)),
            Measured(stretch.arrival_min_ms, stretch.arrival_max_ms, stretch.payload_bytes),
        )


def new_line_writer(shard_id: str) -> LineWriter | None:
    """Return a writer of a shard's lines; None without the library."""
    library = native_library()
    return None if library is None else LineWriter(library, shard_id)
