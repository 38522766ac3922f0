"""Inflate a payload (gzip, zstd, zlib) in a stream, up to a bound that its producer cannot raise.

What a header says of sizes is not believed: a few bytes may promise a terabyte. Members and frames may follow each
other; bytes behind the last one that are none are an error, as is a stream that is cut short.
"""

import zlib
from collections.abc import Iterator
from typing import Final

from compaction.columns.decode.outcome import MAX_BYTES, Outcome, too_long, undecoded
from minutebook.compression import Compression, decompress
from minutebook.errors import FormatError

_BLOCK_BYTES: Final = 1 << 20
_PIECE_BYTES: Final = 4 << 10
"""What follows a member is copied once for each: a record may hold half a million empty ones."""


def gunzip(payload: bytes) -> Outcome:
    """Inflate all members of a gzip stream; return a payload that does not begin as one unchanged."""
    return _inflated(Compression.GZIP, payload)


def unzstd(payload: bytes) -> Outcome:
    """Inflate all frames of a zstd stream; return a payload that does not begin as one unchanged."""
    return _inflated(Compression.ZSTD, payload)


def inflate_zlib(payload: bytes, step: str) -> Outcome:
    """Inflate a zlib stream, which must be all of the payload."""
    decoder = zlib.decompressobj()
    try:
        text = decoder.decompress(payload, MAX_BYTES + 1)
    except zlib.error as exc:
        return undecoded(step, f"damaged zlib stream: {exc}")
    if len(text) > MAX_BYTES:
        return too_long(step)
    if not decoder.eof:
        return undecoded(step, "the zlib stream is cut short")
    if decoder.unused_data:
        return undecoded(step, f"{len(decoder.unused_data)} bytes are left behind the zlib stream")
    return [text]


def _inflated(compression: Compression, payload: bytes) -> Outcome:
    if not payload.startswith(compression.magic):
        return [payload]
    blocks, size = list[bytes](), 0
    try:
        for block in decompress(compression, _pieces(payload), _BLOCK_BYTES, may_lack_checksum=True):
            size += len(block)
            if size > MAX_BYTES:
                return too_long(compression.value)
            blocks.append(block)
    except FormatError as exc:
        return undecoded(compression.value, str(exc))
    return [b"".join(blocks)]


def _pieces(payload: bytes) -> Iterator[bytes]:
    for begin in range(0, len(payload), _PIECE_BYTES):
        yield payload[begin : begin + _PIECE_BYTES]
