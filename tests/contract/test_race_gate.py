"""The gate itself: it passes the embedded S3 and catches a store that checks first and writes later."""

import asyncio
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import pytest

from demo.embedded import ACCESS_KEY, REGION, SECRET_KEY, EmbeddedAws
from tests.contract.race_gate import CONNECTIONS, KEYS, Endpoint, assert_exact, run_races
from tests.witness.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class CarelessStore(NamedTuple):
    """A store that is not safe: where it is, and a count of the checks it has made."""

    url: str
    checks: threading.Semaphore

    def wait_for_checks(self) -> None:
        """Wait until the requests of one race have all been checked."""
        for _ in range(CONNECTIONS):
            assert self.checks.acquire(timeout=PATIENCE_SECONDS)


def test_embedded_s3_lets_exactly_one_conditional_put_win(
    embedded_aws: EmbeddedAws, s3_client: "S3Client", bucket: str
) -> None:
    """32 PUTs whose last bytes arrive together: one winner per key, and the object is the winner's."""
    races = run_races(Endpoint(embedded_aws.s3_endpoint, REGION, ACCESS_KEY, SECRET_KEY), bucket, "race/")
    assert len(races) == KEYS
    assert_exact(races, s3_client, bucket)


def test_gate_catches_a_store_that_checks_before_the_body_and_writes_after_it(
    careless_store: CarelessStore, s3_client: "S3Client", bucket: str
) -> None:
    """A check at the headers and a write at the last byte is the classic fault: the gate must fail loudly."""
    endpoint = Endpoint(careless_store.url, REGION, ACCESS_KEY, SECRET_KEY)
    races = run_races(endpoint, bucket, "race/", keys=2, before_release=careless_store.wait_for_checks)
    assert [race for race in races if len(race.winners) > 1]
    with pytest.raises(AssertionError, match="two conditional PUTs win"):
        assert_exact(races, s3_client, bucket)


@pytest.fixture
def careless_store() -> Iterator[CarelessStore]:
    """Serve PUTs that look for the object when the headers are in, and store it when the body is."""
    stored: set[bytes] = set()
    checks = threading.Semaphore(0)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await _headers(reader):
            path = head.split(b" ")[1]
            exists = path in stored
            checks.release()
            await reader.readexactly(_content_length(head))
            stored.add(path)
            status = b"412 Precondition Failed" if exists else b"200 OK"
            writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
        writer.close()

    address: list[str] = []
    up, done = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        address.append(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        up.set()
        await done.wait()
        server.close()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    assert up.wait(PATIENCE_SECONDS)
    yield CarelessStore(address[0], checks)
    loop.call_soon_threadsafe(done.set)
    thread.join()
    loop.close()


async def _headers(reader: asyncio.StreamReader) -> bytes:
    """Return one request's head, empty at the end of the connection."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0
