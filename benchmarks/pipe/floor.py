"""The least that any such process does: it reads the pipe, and compresses the lines that must come out, once.

python -m benchmarks.pipe.floor LINES       takes a stretch of the file LINES for each message, as long as its share
"""

import os
import sys
from pathlib import Path
from typing import Final

from isal import isal_zlib

_READ_BYTES: Final = 1 << 20
_FEED_BYTES: Final = 128 << 10


def main() -> None:
    """Serve until the input ends."""
    lines = memoryview(Path(sys.argv[1]).read_bytes())
    step = -(-len(lines) // int(sys.argv[2]))
    buffer, at = memoryview(bytearray(_READ_BYTES)), 0
    compressor = isal_zlib.compressobj(1, wbits=31)
    action, is_new = b"", True
    while got := os.readv(0, [buffer]):
        if is_new:
            action = bytes(buffer[:40]).split(b'"')[3]
        is_new = buffer[got - 1] == ord("\n")
        if not is_new:
            continue
        if action == b"processRecords":
            for start in range(at, min(at + step, len(lines)), _FEED_BYTES):
                compressor.compress(lines[start : min(start + _FEED_BYTES, at + step)])
            at += step
        sys.stdout.write('\n{"action":"status","responseFor":"' + action.decode() + '"}\n')
        sys.stdout.flush()


if __name__ == "__main__":
    main()
