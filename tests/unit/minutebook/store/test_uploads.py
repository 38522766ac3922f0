"""A file that is uploaded in pieces: whole at the end, or not there."""

import random
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from minutebook.errors import StoreError, StoreUnavailable
from minutebook.retry import Backoff
from minutebook.store.s3_storage import PART_BYTES, S3Sink
from tests.fakes.clock import ManualClock

WAIT_SECONDS = 20


class Bucket:
    """What S3 does with uploads. `broken` is the number of the piece that it refuses.

    `busy` names requests that answer 503 SlowDown, each once, `lost` those that are applied before they do.
    """

    def __init__(self, broken: int | None = None, *, busy: Iterable[str] = (), lost: Iterable[str] = ()) -> None:
        self._busy, self._lost = list(busy), list(lost)
        self.when_busy: Callable[[], None] = lambda: None
        self.objects: dict[str, bytes] = {}
        self.pieces: dict[int, bytes] = {}
        self.uploads: set[str] = set()
        self.go_on = threading.Event()
        self.go_on.set()
        self._broken = broken

    def put_object(self, *, Key: str, Body: bytes, **_: object) -> dict[str, str]:  # noqa: N803 - AWS' names
        """Store an object."""
        with self._faults("put"):
            self.objects[Key] = Body
        return {"ETag": '"e"'}

    def head_object(self, *, Key: str, **_: object) -> dict[str, Any]:  # noqa: N803 - AWS' names
        """Return the size of an object."""
        if Key not in self.objects:
            raise _error("404", "HeadObject", 404)
        return {"ContentLength": len(self.objects[Key]), "ETag": '"e"'}

    def create_multipart_upload(self, **_: object) -> dict[str, str]:
        """Begin an upload."""
        with self._faults("create"):
            name = f"u{len(self.uploads)}"
            self.uploads.add(name)
        return {"UploadId": name}

    def upload_part(self, *, UploadId: str, PartNumber: int, Body: bytes, **_: object) -> dict[str, str]:  # noqa: N803 - AWS' names
        """Take a piece."""
        assert self.go_on.wait(WAIT_SECONDS)
        assert UploadId in self.uploads
        if PartNumber == self._broken:
            raise _error("AccessDenied", "UploadPart", 403)
        with self._faults(f"part {PartNumber}"):
            self.pieces[PartNumber] = bytes(Body)
        return {"ETag": f"{PartNumber}"}

    def complete_multipart_upload(
        self,
        *,
        Key: str,  # noqa: N803 - AWS' names
        MultipartUpload: dict[str, list[dict[str, Any]]],  # noqa: N803 - same
        **_: object,
    ) -> dict[str, str]:
        """Join the pieces."""
        if not self.uploads:
            raise _error("NoSuchUpload", "CompleteMultipartUpload", 404)
        numbers = [part["PartNumber"] for part in MultipartUpload["Parts"]]
        assert numbers == sorted(self.pieces)
        with self._faults("complete"):
            self.objects[Key] = b"".join(self.pieces[number] for number in numbers)
            self.uploads.clear()
        return {"ETag": "whole"}

    def abort_multipart_upload(self, **_: object) -> None:
        """Forget the pieces."""
        self.uploads.clear()

    @contextmanager
    def _faults(self, request: str) -> Iterator[None]:
        if request in self._busy:
            self._busy.remove(request)
            self.when_busy()
            raise _error("SlowDown", request, 503)
        yield
        if request in self._lost:
            self._lost.remove(request)
            raise _error("InternalError", request, 500)


def _error(code: str, operation: str, status: int) -> ClientError:
    answer: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, operation)


def waits() -> Backoff:
    """Return waits that take no time."""
    return Backoff(ManualClock(), random.Random(1), budget_seconds=10)


def sink_on(bucket: Bucket) -> S3Sink:
    """Return a new file."""
    return S3Sink(cast("Any", bucket), "b", "key", "x", waits)


@pytest.mark.parametrize("size", [0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 3 * PART_BYTES + 5])
def test_the_object_is_what_was_written(size: int) -> None:
    """In one PUT or in pieces, none of which but the last is small."""
    bucket = Bucket()
    sink = sink_on(bucket)
    data = bytes(range(251)) * (size // 251 + 1)
    for start in range(0, size, 1_000_003):
        sink.write(data[start : min(size, start + 1_000_003)])
    assert not bucket.objects
    sink.close()
    assert bucket.objects == {"key": data[:size]}
    assert sink.size == size
    assert all(len(bucket.pieces[number]) >= PART_BYTES for number in sorted(bucket.pieces)[:-1])


def test_the_next_piece_is_made_while_one_is_on_its_way() -> None:
    """A write that fills a piece does not wait for S3."""
    bucket = Bucket()
    bucket.go_on.clear()
    sink = sink_on(bucket)
    sink.write(bytes(PART_BYTES))
    sink.write(b"more")
    bucket.go_on.set()
    sink.close()
    assert len(bucket.objects["key"]) == PART_BYTES + 4


@pytest.mark.parametrize("broken", [1, 2, 3])
def test_a_piece_that_fails_is_never_passed_over(broken: int) -> None:
    """The error comes with the next piece, or at the end; there is no object, and no upload is left."""
    bucket = Bucket(broken)
    sink = sink_on(bucket)

    def write_all() -> None:
        for _ in range(3):
            sink.write(bytes(PART_BYTES))
        sink.close()

    with pytest.raises(StoreError):
        write_all()
    sink.abort()
    assert (bucket.objects, bucket.uploads) == ({}, set())


@pytest.mark.parametrize("fault", ["busy", "lost"])
@pytest.mark.parametrize("request_", ["create", "part 1", "part 2", "part 3", "complete"])
def test_a_request_of_an_upload_whose_outcome_is_unknown_is_sent_again(fault: str, request_: str) -> None:
    """503 on a piece, or an answer that was lost: the object is whole, and the task knows of nothing."""
    bucket = Bucket(busy=[request_] * 3) if fault == "busy" else Bucket(lost=[request_])
    sink = sink_on(bucket)
    data = bytes(range(256)) * (2 * PART_BYTES // 256) + b"the rest"
    for start in range(0, len(data), PART_BYTES):
        sink.write(data[start : start + PART_BYTES])
    sink.close()
    assert bucket.objects == {"key": data}


@pytest.mark.parametrize("fault", ["busy", "lost"])
def test_a_small_file_whose_outcome_is_unknown_is_sent_again(fault: str) -> None:
    """Its key is nobody else's: the same bytes may be written over it."""
    bucket = Bucket(busy=["put"]) if fault == "busy" else Bucket(lost=["put"])
    sink = sink_on(bucket)
    sink.write(b"rows")
    sink.close()
    assert bucket.objects == {"key": b"rows"}


def test_an_upload_that_is_gone_without_its_object_is_an_error() -> None:
    """A lifecycle rule, or somebody, ended it: nothing was written, and the task can be done again."""
    bucket = Bucket(busy=["complete"])
    sink = sink_on(bucket)
    sink.write(bytes(PART_BYTES))
    sink.write(b"more")
    bucket.when_busy = bucket.uploads.clear
    with pytest.raises(StoreUnavailable, match="NoSuchUpload"):
        sink.close()
    assert bucket.objects == {}


def test_a_store_that_stays_busy_ends_the_task() -> None:
    """Within the budget, and with the request by name."""
    sink = sink_on(Bucket(busy=["part 1"] * 1000))
    sink.write(bytes(PART_BYTES))
    with pytest.raises(StoreUnavailable, match="part 1 of key"):
        sink.close()
