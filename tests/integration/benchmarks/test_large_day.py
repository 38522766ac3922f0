"""The day of `python -m benchmarks large_day`, and the S3 that holds it."""

import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from benchmarks.archives import DAY
from benchmarks.day_on_disk import Shape, lines_of, metadata_of
from benchmarks.disk_s3 import Bucket, Handler
from minutebook.clock import SystemClock, new_random
from minutebook.compression import Compression, new_compressor
from minutebook.format.segment import read_records
from minutebook.retry import Backoff
from minutebook.store.objects import PutOutcome
from minutebook.store.places import open_storage
from minutebook.store.s3_storage import PART_BYTES
from minutebook.store.storage import Address, Storage

_SHAPE = Shape(shards=2, records=7)


@pytest.fixture
def storage(tmp_path: Path, credentials: None) -> Iterator[Storage]:  # noqa: ARG001 - the process's one session
    """The product's own client of a server whose bucket is empty."""
    handler = type("_Handler", (Handler,), {"bucket": Bucket(tmp_path, None)})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield open_storage(Address("bench", "", "us-east-1", f"http://127.0.0.1:{server.server_port}"))
        server.shutdown()


def _packed(lines: bytes) -> bytes:
    return new_compressor(Compression.GZIP).finish(memoryview(lines))


def _waits() -> Backoff:
    return Backoff(SystemClock(), new_random(), budget_seconds=1)


@pytest.mark.parametrize("minute", [DAY.first_minute, DAY.first_minute + 1439])
def test_a_segment_holds_what_its_metadata_says(minute: int) -> None:
    """Span, links, times and sizes; and the minute before it ends where it begins."""
    said = metadata_of(1, minute, _SHAPE)
    records = [record for _, record in read_records(_packed(lines_of(1, minute, _SHAPE)), said.shard_id)]
    assert (records[0].position, records[-1].position, len(records)) == (said.first, said.last, said.records)
    assert sum(len(record.data) for record in records) == said.payload_bytes
    arrivals = [record.arrival_ms for record in records]
    assert (min(arrivals), max(arrivals)) == (said.arrival_min_ms, said.arrival_max_ms)
    if minute != DAY.first_minute:
        assert said.after == metadata_of(1, minute - 1, _SHAPE).last


def test_the_server_is_what_the_job_takes_for_s3(storage: Storage) -> None:
    """Conditions hold, folders are listed, a file in parts comes back, and its end can be asked for."""
    assert storage.put_if_absent("a/1", b"one", {"shard": "s"}, "text/plain") is PutOutcome.CREATED
    assert storage.put_if_absent("a/1", b"two", {}, "text/plain") is PutOutcome.EXISTS
    head = storage.head("a/1")
    assert head is not None
    assert (head.size, head.metadata) == (3, {"shard": "s"})
    assert not storage.put_if_match("a/1", b"two", '"other"', "text/plain")
    assert storage.put_if_match("a/1", b"two", head.etag, "text/plain")
    body = bytes(range(256)) * (2 * PART_BYTES // 256 + 1)
    sink = storage.open_write("b/c/2", "text/plain", _waits)
    for at in range(0, len(body), PART_BYTES):
        sink.write(body[at : at + PART_BYTES])
    sink.close()
    assert b"".join(storage.open_read("b/c/2", None).chunks) == body
    assert storage.read_tail("b/c/2", 10)[:2] == (body[-10:], len(body))
    assert storage.list_level("") == (("a/", "b/"), ())
    assert [row.key for row in storage.list_objects("")] == ["a/1", "b/c/2"]
    storage.delete(["a/1"])
    assert storage.get("a/1") is None
