"""Encode a picture of few colours as PNG, for pages that load nothing."""

import base64
import struct
import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_BY_PALETTE: Final = bytes([8, 3, 0, 0, 0])
"""Eight bits a pixel, each the index of a colour."""


class Colour(NamedTuple):
    """Red, green, blue, and how opaque: 0 to 255."""

    red: int
    green: int
    blue: int
    alpha: int = 255


def png(pixels: NDArray[np.uint8], colours: Sequence[Colour]) -> bytes:
    """Return a PNG of a table of indexes into `colours`; equal pixels give equal bytes."""
    rows, columns = pixels.shape
    raw = np.zeros((rows, columns + 1), dtype=np.uint8)  # each row begins with its filter: none
    raw[:, 1:] = pixels
    chunks = [
        (b"IHDR", struct.pack(">II", columns, rows) + _BY_PALETTE),
        (b"PLTE", bytes(value for colour in colours for value in colour[:3])),
        (b"tRNS", bytes(colour.alpha for colour in colours)),
        (b"IDAT", zlib.compress(raw.tobytes(), 9)),
        (b"IEND", b""),
    ]
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )


def png_uri(pixels: NDArray[np.uint8], colours: Sequence[Colour]) -> str:
    """Return a PNG as an address that needs no request."""
    return f"data:image/png;base64,{base64.b64encode(png(pixels, colours)).decode()}"
