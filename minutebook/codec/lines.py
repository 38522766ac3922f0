"""A batch's records as lines of a segment, straight from the daemon's JSON.

The twin is `minutebook.format.record.encode_lines` behind msgspec's decoder: ten passes and some objects a record, where
this is one pass (minutebook/codec/src/write_lines.c).
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
"""A longer piece is left to the twin: it holds records so large that the twin is as good."""
_ROOM_BYTES: Final = 3 * MOST_INPUT_BYTES
"""For a piece's lines: mapped once, and only what was written to takes memory."""


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
    """Return the function: input, size, prefix, its size, output, its room, `Stretch` -> bytes, or less than 0."""
    more = ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(Stretch)
    return bind(library, "minutebook_write_lines", *more)


def line_prefix(shard_id: str) -> bytes:
    """Return how each line of a shard begins, up to its sequence number."""
    return b'{"shard_id":' + msgspec.json.encode(shard_id) + b',"sequence_number":"'


class LineWriter:
    """Writes the lines of one shard."""

    def __init__(self, library: ctypes.CDLL, shard_id: str) -> None:
        self._write = writing(library)
        self._prefix = line_prefix(shard_id)
        self._room = memoryview(mmap.mmap(-1, _ROOM_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        self._room_at = ctypes.addressof(ctypes.c_char.from_buffer(self._room))
        self._seen = Stretch()

    def write(self, line: memoryview, begin: int, end: int) -> WrittenLines | None:
        """Write the records that stand there in the daemon's message, separated by commas.

        None unless each is plainly as the daemon writes it and lies behind the one before: nothing is decided then.
        """
        if not 0 <= begin < end <= len(line) or end - begin > MOST_INPUT_BYTES:
            return None
        source = ctypes.c_char.from_buffer(line, begin)
        written = self._write(
            ctypes.addressof(source),
            end - begin,
            self._prefix,
            len(self._prefix),
            self._room_at,
            _ROOM_BYTES,
            self._seen,
        )
        del source  # it holds the line's memory, which its owner takes back
        if written < 0:
            return None
        return self._described(line, begin, written)

    def _described(self, line: memoryview, begin: int, written: int) -> WrittenLines:
        seen, digits = self._seen, self._seen.sequence_digits

        def position(at: int, sub: int) -> Position:
            return Position(int(bytes(line[begin + at : begin + at + digits])), sub)

        return WrittenLines(
            self._room[:written],
            seen.records,
            SequenceRange(position(seen.first_at, seen.first_sub), position(seen.last_at, seen.last_sub)),
            Measured(seen.arrival_min_ms, seen.arrival_max_ms, seen.payload_bytes),
        )


def new_line_writer(shard_id: str) -> LineWriter | None:
    """Return what writes a shard's lines; None where there is no library."""
    library = native_library()
    return None if library is None else LineWriter(library, shard_id)
