"""gzip and zstd behind one interface, for the bodies of segments.

Decompression streams in bounded memory, whatever the compression ratio. Both formats carry a checksum; a body that is
cut short or has bytes after the last gzip member or zstd frame is an error. Athena and other tools choose the
decompressor by the extension of the object's name (docs/decisions/0027-zstd.md).
"""

import enum
import zlib
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from isal import isal_zlib

from minutebook.errors import FormatError

COMPRESSION_LEVEL: Final = 1
"""Of both, chosen by `python -m benchmarks compression`."""
_GZIP_WBITS: Final = 31
_ZSTD_WINDOW_LOG: Final = 17
"""128 KiB: a compressor then needs as little memory as gzip's, and lines repeat text that is near."""
_ZSTD_WINDOW_LOG_MAX: Final = 23
"""8 MiB, the window that RFC 8878 recommends every decoder to support. It bounds a reader's memory."""
_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_CHECKSUM_BIT: Final = 0b100
_PIECE_BYTES: Final = 64 * 1024


class Compression(enum.StrEnum):
    """The compression of all segments below a prefix; it never changes."""

    GZIP = "gzip"
    ZSTD = "zstd"

    @property
    def extension(self) -> str:
        """The extension of the object's name."""
        return ".zst" if self is Compression.ZSTD else ".gz"

    @property
    def magic(self) -> bytes:
        """The bytes with which each member or frame begins."""
        return _ZSTD_MAGIC if self is Compression.ZSTD else _GZIP_MAGIC

    @property
    def media_type(self) -> str:
        """The object's Content-Type. Content-Encoding stays unset: HTTP clients would decompress by themselves."""
        return f"application/{self.value}"


_BY_EXTENSION: Final = tuple((compression.extension, compression) for compression in Compression)


def compression_of(key: str) -> Compression:
    """Return the compression by the extension of `key`; raises FormatError for any other extension."""
    for extension, compression in _BY_EXTENSION:
        if key.endswith(extension):
            return compression
    raise FormatError(f"the name does not say how it is compressed: {key!r}")


class Compressor(Protocol):
    """Makes one gzip member or zstd frame. The bytes depend on the pieces and on where they are cut."""

    def compress(self, piece: memoryview) -> bytes:
        """Add a piece; return what is ready."""

    def finish(self, piece: memoryview) -> bytes:
        """Add the last piece, and return the rest; nothing can be added afterwards."""


def new_compressor(compression: Compression) -> Compressor:
    """Return a compressor. It holds some hundred kilobytes from its first piece on: drop it after `finish`."""
    return _Zstd() if compression is Compression.ZSTD else _Gzip()


class _Gzip:
    def __init__(self) -> None:
        self._compressor = isal_zlib.compressobj(COMPRESSION_LEVEL, wbits=_GZIP_WBITS)  # without a time in the header

    def compress(self, piece: memoryview) -> bytes:
        compressed: bytes = self._compressor.compress(piece)
        return compressed

    def finish(self, piece: memoryview) -> bytes:
        compressed = self.compress(piece)
        rest: bytes = self._compressor.flush()
        return compressed + rest


class _Zstd:
    """A frame of a single piece carries its content's size, and takes no more memory than that."""

    def __init__(self) -> None:
        from backports import zstd  # noqa: PLC0415 - archives in gzip do not need it

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


def decompress(
    compression: Compression, chunks: Iterable[bytes], block_bytes: int, *, may_lack_checksum: bool = False
) -> Iterator[bytes]:
    """Yield the content of a body that arrives in chunks, in blocks of at most `block_bytes`.

    Accepts several gzip members or zstd frames, as other writers make them. Raises FormatError for a body that is
    damaged, cut short or followed by other bytes, and for a zstd frame with a window above 8 MiB or, except with
    `may_lack_checksum`, without a checksum.
    """
    pieces = _pieces(chunks)
    if compression is Compression.GZIP:
        return _gzip_blocks(pieces, block_bytes)
    return _zstd_blocks(pieces, block_bytes, may_lack_checksum=may_lack_checksum)


def _pieces(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Split the chunks into small pieces: for each block the decoder copies all input that it has not consumed."""
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


def _zstd_blocks(pieces: Iterable[bytes], block_bytes: int, *, may_lack_checksum: bool) -> Iterator[bytes]:
    from backports import zstd  # noqa: PLC0415 - as above

    options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG_MAX}
    decoder: zstd.ZstdDecompressor | None = None
    rest, is_whole = b"", False
    try:
        for piece in pieces:
            rest += piece
            while rest:
                if decoder is None:
                    if not _begins_frame(rest, may_lack_checksum=may_lack_checksum):
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


def _begins_frame(data: bytes, *, may_lack_checksum: bool) -> bool:
    """Return whether a frame begins here; False while `data` is too short.

    Raises FormatError if none does, or one without a checksum that it may not lack.
    """
    if not _ZSTD_MAGIC.startswith(data[: len(_ZSTD_MAGIC)]):
        raise FormatError("damaged zstd stream: no frame begins here")
    if len(data) <= len(_ZSTD_MAGIC):
        return False
    if not (may_lack_checksum or data[len(_ZSTD_MAGIC)] & _ZSTD_CHECKSUM_BIT):
        raise FormatError("a zstd frame has no checksum: nothing would show that it is damaged")
    return True
