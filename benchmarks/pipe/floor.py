"""The least that any such process does: read the pipe, compress the lines that must come out once, send them.

python -m benchmarks.pipe.floor LINES MESSAGES BATCHES ADDRESS

Takes a stretch of the file LINES for each of so many messages, as long as its share, and PUTs what so many batches, a
minute, became. No message is looked into, nothing is signed, and the PUT is what a socket takes. The file that
`SHARES` of the environment names is told what reading and sending took, as the product's is.
"""

import json
import os
import socket
import ssl
import sys
import time
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from isal import isal_zlib

from benchmarks.pipe.shares import MARKERS, PIPE, SEGMENTS, SHARES
from consumer.pipe.capacity import size_pipes

_READ_BYTES: Final = 1 << 20
_FEED_BYTES: Final = 128 << 10


class _Sender:
    """One connection, made at once: TLS where the address says so."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self._host = parts.netloc
        connection = socket.create_connection((parts.hostname or "", parts.port or 0))
        if parts.scheme == "https":
            context = ssl.create_default_context(cafile=os.environ["AWS_CA_BUNDLE"])
            connection = context.wrap_socket(connection, server_hostname=parts.hostname)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = connection
        self._prefix = os.environ["MINUTEBOOK_PREFIX"]
        self._sent = 0

    def put(self, body: bytearray) -> None:
        """Send one object, and see that it was taken."""
        self._sent += 1
        request = f"PUT /bench/{self._prefix}{self._sent} HTTP/1.1\r\nHost: {self._host}\r\n"
        self._connection.sendall(f"{request}Content-Length: {len(body)}\r\n\r\n".encode())
        self._connection.sendall(body)
        answer = self._connection.recv(4096)
        if b" 200 " not in answer:
            raise RuntimeError(f"the server answered {answer!r}")


def main() -> None:
    """Serve until the input ends."""
    lines = memoryview(Path(sys.argv[1]).read_bytes())
    step, batches = -(-len(lines) // int(sys.argv[2])), int(sys.argv[3])
    sender = _Sender(sys.argv[4])
    size_pipes(sys.stdin.buffer, sys.stdout.buffer)
    buffer, at, held = memoryview(bytearray(_READ_BYTES)), 0, 0
    compressor, compressed = isal_zlib.compressobj(1, wbits=31), bytearray()
    action, is_new = b"", True
    reading, sending = 0.0, 0.0
    while True:
        begun = time.thread_time()
        got = os.readv(0, [buffer])
        reading += time.thread_time() - begun
        if not got:
            break
        if is_new:
            action = bytes(buffer[:40]).split(b'"')[3]
        is_new = buffer[got - 1] == ord("\n")
        if not is_new:
            continue
        is_last = action == b"shutdownRequested"
        if action == b"processRecords":
            for start in range(at, min(at + step, len(lines)), _FEED_BYTES):
                compressed += compressor.compress(lines[start : min(start + _FEED_BYTES, at + step)])
            at, held = at + step, held + 1
        if held == batches or (is_last and held):
            compressed += compressor.flush()
            begun = time.thread_time()
            sender.put(compressed)
            sending += time.thread_time() - begun
            compressor, compressed, held = isal_zlib.compressobj(1, wbits=31), bytearray(), 0
        sys.stdout.write('\n{"action":"status","responseFor":"' + action.decode() + '"}\n')
        sys.stdout.flush()
    Path(os.environ[SHARES]).write_text(json.dumps({PIPE: [reading], SEGMENTS: [sending], MARKERS: []}))


if __name__ == "__main__":
    main()
