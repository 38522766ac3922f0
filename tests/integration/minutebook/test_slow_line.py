"""A store at the end of a slow line: what is sent takes longer than connecting may, and arrives."""

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pytest
from botocore.config import Config

from minutebook.aws.clients import aws_session, client_config
from minutebook.clock import SystemClock
from minutebook.retry import Backoff
from minutebook.store.s3_storage import PART_BYTES, S3Sink

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

pytestmark = pytest.mark.usefixtures("credentials")
_CONNECT_SECONDS: Final = 0.2
_BLOCK: Final = 128 << 10
_BLOCK_SECONDS: Final = 0.06
"""So 2 MB a second. What the kernel takes off our hands (3 MB here) is sent before its time is up."""
_ANSWER: Final = b'HTTP/1.1 200 OK\r\nETag: "x"\r\nContent-Length: %d\r\n\r\n%b'
_CREATED: Final = b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
_COMPLETED: Final = b'<CompleteMultipartUploadResult><ETag>"x"</ETag></CompleteMultipartUploadResult>'


class SlowStore:
    """Takes uploads, slowly; `bodies` are the sizes of those that arrived whole."""

    def __init__(self) -> None:
        self.bodies: list[int] = []
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BLOCK)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen()
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take nothing more."""
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self._listener.accept()[0],), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError), connection.makefile("rb", buffering=0) as lines:
            while (first := lines.readline()).strip():
                headers = dict(line.strip().lower().split(b": ", 1) for line in iter(lines.readline, b"\r\n"))
                left = size = int(headers.get(b"content-length", 0))
                while left and (block := connection.recv(min(left, _BLOCK))):
                    left -= len(block)
                    SystemClock().sleep(_BLOCK_SECONDS * len(block) / _BLOCK)
                if left:
                    return
                self.bodies.append(size)
                body = _CREATED if b"?uploads" in first else _COMPLETED if first.startswith(b"POST") else b""
                connection.sendall(_ANSWER % (len(body), body))


@pytest.fixture
def store() -> Iterator[SlowStore]:
    """Return a slow store."""
    store = SlowStore()
    yield store
    store.close()


@pytest.fixture
def client(store: SlowStore) -> "S3Client":
    """Return a client as ours are, but for the time to connect, so that the test is short."""
    config = client_config(path_style=True).merge(Config(connect_timeout=_CONNECT_SECONDS))
    client: S3Client = aws_session().client("s3", region_name="us-east-1", endpoint_url=store.endpoint, config=config)
    return client


def test_a_piece_arrives_that_takes_longer_than_connecting_may(store: SlowStore, client: "S3Client") -> None:
    """Each block of it has its time; sent in one call, none would ever arrive."""
    clock = SystemClock()
    sink = S3Sink(
        client, "b", "k", "text/plain", lambda: Backoff(clock, random.Random(1), budget_seconds=_CONNECT_SECONDS)
    )
    begun = clock.monotonic()
    sink.write(bytes(PART_BYTES))
    sink.close()
    assert clock.monotonic() - begun > 2 * _CONNECT_SECONDS
    assert PART_BYTES in store.bodies


def test_a_segment_arrives_that_takes_longer_than_connecting_may(store: SlowStore, client: "S3Client") -> None:
    """One PUT, of any size."""
    client.put_object(Bucket="b", Key="k", Body=bytes(PART_BYTES))
    assert PART_BYTES in store.bodies
