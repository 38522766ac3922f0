"""A file that is uploaded in pieces: whole at the end, or not there."""

import threading
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from archive.errors import StoreError
from archive.store.s3_storage import PART_BYTES, S3Sink

WAIT_SECONDS = 20


class Bucket:
    """What S3 does with uploads. `broken` is the number of the piece that it refuses."""

    def __init__(self, broken: int | None = None) -> None:
        self.objects: dict[str, bytes] = {}
        self.pieces: dict[int, bytes] = {}
        self.uploads: set[str] = set()
        self.go_on = threading.Event()
        self.go_on.set()
        self._broken = broken

    def put_object(self, *, Key: str, Body: bytes, **_: object) -> None:  # noqa: N803 - AWS' names
        """Store an object."""
        self.objects[Key] = Body

    def create_multipart_upload(self, **_: object) -> dict[str, str]:
        """Begin an upload."""
        self.uploads.add("u")
        return {"UploadId": "u"}

    def upload_part(self, *, UploadId: str, PartNumber: int, Body: bytes, **_: object) -> dict[str, str]:  # noqa: N803 - AWS' names
        """Take a piece."""
        assert self.go_on.wait(WAIT_SECONDS)
        assert UploadId in self.uploads
        if PartNumber == self._broken:
            raise ClientError({"Error": {"Code": "AccessDenied"}, "ResponseMetadata": {}}, "UploadPart")  # type: ignore[typeddict-item]  # as S3 does
        self.pieces[PartNumber] = Body
        return {"ETag": f"{PartNumber}"}

    def complete_multipart_upload(
        self,
        *,
        Key: str,  # noqa: N803 - AWS' names
        MultipartUpload: dict[str, list[dict[str, Any]]],  # noqa: N803 - same
        **_: object,
    ) -> None:
        """Join the pieces."""
        numbers = [part["PartNumber"] for part in MultipartUpload["Parts"]]
        assert numbers == sorted(self.pieces)
        self.objects[Key] = b"".join(self.pieces[number] for number in numbers)
        self.uploads.clear()

    def abort_multipart_upload(self, **_: object) -> None:
        """Forget the pieces."""
        self.uploads.clear()


def sink_on(bucket: Bucket) -> S3Sink:
    """Return a new file."""
    return S3Sink(cast("Any", bucket), "b", "key", "x")


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
