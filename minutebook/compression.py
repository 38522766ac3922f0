"""The two compressions of a segment's body, gzip and zstd, each behind the same few calls.

A body is read as a stream in bounded memory, however well it was compressed, and is either whole or an error: both
carry a checksum of the content, and what follows the last gzip member or zstd frame is damage. Other tools, Athena
among them, tell the two apart by the last part of the object's name (docs/decisions/0028-zstd.md).
"""

import enum
import zlib
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from isal import isal_zlib

from minutebook.errors import FormatError

COMPRESSION_LEVEL: Final = 1
"""Of either: measured by `python -m benchmarks compression`."""
_GZIP_WBITS: Final = 31
_ZSTD_WINDOW_LOG: Final = 17
"""128 KiB: a compressor then takes as little memory as gzip's, and our lines repeat what is near."""
_ZSTD_WINDOW_LOG_MAX: Final = 23
"""8 MiB: what every reader should take and no writer exceed unasked, says RFC 8878. It bounds a reader's memory."""
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_CHECKSUM_BIT: Final = 0b100
_PIECE_BYTES: Final = 64 * 1024


class Compression(enum.StrEnum):
    """How the segments below a prefix are compressed: one way for all of them, settled once."""

    GZIP = "gzip"
    ZSTD = "zstd"

    @property
    def extension(self) -> str:
        """The end of an object's name, by which others choose how to read it."""
        return ".zst" if self is Compression.ZSTD else ".gz"

    @property
    def media_type(self) -> str:
        """The object's Content-Type. There is no Content-Encoding: clients would decompress behind our back."""
        return f"application/{self.value}"


def compression_of(key: str) -> Compression:
    """Return how the object at `key` is compressed, by its name; raises FormatError when that says nothing."""
    for compression in Compression:
        if key.endswith(compression.extension):
            return compression
    raise FormatError(f"the name does not say how it is compressed: {key!r}")


class Compressor(Protocol):
    """Makes one gzip member or zstd frame. The bytes depend on the pieces and on where they are cut."""

    def compress(self, piece: memoryview) -> bytes:
        """Add a piece; return what is ready."""

    def finish(self, piece: memoryview) -> bytes:
        """Add the last piece, and return the rest; nothing can be added afterwards."""


def new_compressor(compression: Compression) -> Compressor:
    """Return a compressor. It takes some hundred kilobytes from its first piece on: let it go once it is finished."""
    return _Zstd() if compression is Compression.ZSTD else _Gzip()


class _Gzip:
    def __init__(self) -> None:
        # The header carries no time.
        self._compressor = isal_zlib.compressobj(COMPRESSION_LEVEL, wbits=_GZIP_WBITS)

    def compress(self, piece: memoryview) -> bytes:
        compressed: bytes = self._compressor.compress(piece)
        return compressed

    def finish(self, piece: memoryview) -> bytes:
        begun = self.compress(piece)
        rest: bytes = self._compressor.flush()
        return begun + rest


class _Zstd:
    """A frame whose first piece is its last carries its content's size, and takes no more memory than that."""

    def __init__(self) -> None:
        from backports import zstd  # noqa: PLC0415 - an archive of gzip does not need it

        options: dict[int, int] = {
            zstd.CompressionParameter.compression_level: COMPRESSION_LEVEL,
            zstd.CompressionParameter.window_log: _ZSTD_WINDOW_LOG,
            zstd.CompressionParameter.checksum_flag: 1,
        }
        self._compressor = zstd.ZstdCompressor(options=options)

    def compress(self, piece: memoryview) -> bytes:
        return self._compressor.compress(piece)

    def finish(self, piece: memoryview) -> bytes:
        return self._compressor.compress(piece, self._compressor.FLUSH_FRAME)


def decompress(compression: Compression, chunks: Iterable[bytes], block_bytes: int) -> Iterator[bytes]:
    """Yield the content of a body that arrives in chunks, in blocks of at most `block_bytes`.

    Other writers' bodies of several gzip members or zstd frames are read too, but no frame without a checksum, and
    none that asks for more than 8 MiB of memory.

    Raises:
        FormatError: damaged, cut short, or followed by something else.
    """
    pieces = _pieces(chunks)
    return _zstd_blocks(pieces, block_bytes) if compression is Compression.ZSTD else _gzip_blocks(pieces, block_bytes)


def _pieces(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Cut the chunks small: for each block the decoder copies all that it has not consumed yet."""
    for chunk in chunks:
        for start in range(0, len(chunk), _PIECE_BYTES):
            yield chunk[start : start + _PIECE_BYTES]


def _gzip_blocks(pieces: Iterable[bytes], block_bytes: int) -> Iterator[bytes]:
    decoder = isal_zlib.decompressobj(wbits=_GZIP_WBITS)
    for piece in pieces:
        rest = piece
        while rest:
            if decoder.eof:
                decoder = isal_zlib.decompressobj(wbits=_GZIP_WBITS)
            try:
                block = decoder.decompress(rest, block_bytes)
            except (isal_zlib.error, zlib.error) as exc:  # type: ignore[misc]  # isal's stubs call it an instance
                raise FormatError(f"damaged gzip stream: {exc}") from exc
            rest = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
            yield block
    if not decoder.eof:
        raise FormatError("the gzip stream is cut short")


def _zstd_blocks(pieces: Iterable[bytes], block_bytes: int) -> Iterator[bytes]:
    from backports import zstd  # noqa: PLC0415 - as above

    options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG_MAX}
    decoder: zstd.ZstdDecompressor | None = None
    rest, is_whole = b"", False
    try:
        for piece in pieces:
            rest += piece
            while rest:
                if decoder is None:
                    if not _begins_frame(rest):
                        is_whole = False
                        break
                    decoder = zstd.ZstdDecompressor(options=options)
                block, rest = decoder.decompress(rest, block_bytes), b""
                yield block
                while not (decoder.eof or decoder.needs_input):
                    yield decoder.decompress(b"", block_bytes)
                is_whole = decoder.eof
                if is_whole:
                    rest, decoder = decoder.unused_data, None
    except zstd.ZstdError as exc:
        raise FormatError(f"damaged zstd stream: {exc}") from exc
    if not is_whole:
        raise FormatError("the zstd stream is cut short")


def _begins_frame(data: bytes) -> bool:
    """Tell whether a frame with a checksum begins here; False while too little is there to tell.

    Raises:
        FormatError: something else begins here.
    """
    if not _ZSTD_MAGIC.startswith(data[: len(_ZSTD_MAGIC)]):
        raise FormatError("damaged zstd stream: no frame begins here")
    if len(data) <= len(_ZSTD_MAGIC):
        return False
    if not data[len(_ZSTD_MAGIC)] & _ZSTD_CHECKSUM_BIT:
        raise FormatError("a zstd frame has no checksum: nothing would show that it is damaged")
    return True
