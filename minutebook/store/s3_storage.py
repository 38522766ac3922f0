"""The S3 side of `Storage`: the archive's own store, and the few requests that publishing adds."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from minutebook.aws.clients import error_code, http_status, is_passing_code
from minutebook.errors import OutcomeUnknown, StoreRefused, StoreUnavailable
from minutebook.retry import Backoff, until_known
from minutebook.store.copies import OTHER_OBJECT, S3Copies
from minutebook.store.s3 import check_whole, translate
from minutebook.store.storage import ObjectBody, ObjectChanged, Tail

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef

T = TypeVar("T")

_PRECONDITION_FAILED, _NOT_FOUND = 412, 404
_FAILURES: Final = (ClientError, BotoCoreError, ValueError)
"""What a request may raise; ValueError is botocore's own, for a date that was cut off."""
_LOST_UPLOAD: Final = frozenset({"NoSuchUpload", "InvalidPart", "InvalidPartOrder"})
_LOST_STEP: Final = "nothing: the file is made again; if that goes on, look who aborts uploads (a lifecycle rule?)"
_CHUNK_BYTES: Final = 1 << 20
_DELETE_BATCH: Final = 1000
PART_BYTES: Final = 5 << 20
"""Least size of a piece of a multipart upload that S3 takes; of 10,000, so 50 GB, where a task writes 0.1."""


class S3Storage(S3Copies):
    """One bucket. Thread-safe, as botocore's clients are."""

    def uri(self, key: str) -> str:
        """Return `s3://bucket/key`."""
        return f"s3://{self.bucket}/{key}"

    def put_if_match(self, key: str, body: bytes, etag: str | None, content_type: str) -> bool:
        """Send one PUT with `If-Match`, or `If-None-Match: *` where there must be nothing; see `Storage`.

            etag given:  200 replaced   412 another object is there   404 it was deleted     -> the last two: False
            etag None:   200 created    412 an object is there                                -> False

        409 (another conditional write is on its way) and everything else that leaves the outcome open raises
        `OutcomeUnknown`: the caller reads the object and compares, because its own write may have been applied.
        """
        try:
            if etag is None:
                self._s3.put_object(Bucket=self.bucket, Key=key, Body=body, ContentType=content_type, IfNoneMatch="*")
            else:
                self._s3.put_object(Bucket=self.bucket, Key=key, Body=body, ContentType=content_type, IfMatch=etag)
        except ClientError as exc:
            if http_status(exc) in {_PRECONDITION_FAILED, _NOT_FOUND}:
                if error_code(exc) == "NoSuchBucket":
                    raise translate(exc, f"PUT {key}") from exc
                return False
            raise translate(exc, f"PUT {key}") from exc
        except BotoCoreError as exc:
            raise translate(exc, f"PUT {key}") from exc
        return True

    def delete(self, keys: Iterable[str]) -> None:
        """Delete in batches of 1,000; see `Storage`."""
        wanted = list(keys)
        for start in range(0, len(wanted), _DELETE_BATCH):
            batch = wanted[start : start + _DELETE_BATCH]
            try:
                answer = self._s3.delete_objects(
                    Bucket=self.bucket, Delete={"Objects": [{"Key": key} for key in batch], "Quiet": True}
                )
            except _FAILURES as exc:
                raise translate(exc, f"DELETE {batch[0]}") from exc
            _check_headers(answer, f"DELETE {batch[0]}")
            for failed in answer.get("Errors", []):
                message = f"DELETE {failed.get('Key')}: {failed.get('Code')} {failed.get('Message')}"
                if is_passing_code(failed.get("Code", "")):
                    raise OutcomeUnknown(message)
                raise StoreRefused(
                    message, next_step="grant s3:DeleteObject below this prefix to whoever runs this command"
                )

    def open_read(self, key: str, etag: str | None) -> ObjectBody:
        """Send one GET with `If-Match`; the body is read while the caller works on it; see `Storage`."""
        try:
            if etag is None:
                answer = self._s3.get_object(Bucket=self.bucket, Key=key)
            else:
                answer = self._s3.get_object(Bucket=self.bucket, Key=key, IfMatch=etag)
        except ClientError as exc:
            code = error_code(exc)
            if code in OTHER_OBJECT:
                raise ObjectChanged(f"{key} is not the object that was listed ({code})") from exc
            raise translate(exc, f"GET {key}") from exc
        except (BotoCoreError, ValueError) as exc:
            raise translate(exc, f"GET {key}") from exc
        check_whole(answer, f"GET {key}", "ContentLength")
        metadata = {name.lower(): value for name, value in answer["Metadata"].items()}
        return ObjectBody(metadata, self._chunks(key, answer["Body"]))

    def _chunks(self, key: str, stream: object) -> Iterator[bytes]:
        try:
            yield from stream.iter_chunks(_CHUNK_BYTES)  # type: ignore[attr-defined]  # botocore's StreamingBody
        except BotoCoreError as exc:
            raise translate(exc, f"GET {key}") from exc

    def read_tail(self, key: str, count: int) -> Tail:
        """Send one GET with a range from the end; see `Storage`."""
        try:
            answer = self._s3.get_object(Bucket=self.bucket, Key=key, Range=f"bytes=-{count}")
            data = answer["Body"].read()
        except _FAILURES as exc:
            raise translate(exc, f"GET {key}") from exc
        check_whole(answer, f"GET {key}", "ContentLength")
        # A 206 names the whole size behind the slash; a store that answered 200 gave the whole object.
        whole = answer.get("ContentRange", "").rpartition("/")[2]
        return Tail(data[-count:], int(whole) if whole.isdecimal() else len(data), answer.get("ETag", ""))

    def open_write(self, key: str, content_type: str, new_backoff: Callable[[], Backoff]) -> "S3Sink":
        """Start a multipart upload with the first piece; see `Storage`."""
        return S3Sink(self._s3, self.bucket, key, content_type, new_backoff)


class S3Sink:
    """A multipart upload, or one PUT when the file stays smaller than a piece.

    One piece is on its way while the next is made; what went wrong with it is raised by the next call. Nothing is
    visible before `close`. An upload whose process dies is left open: a lifecycle rule
    `AbortIncompleteMultipartUpload` on the bucket removes it.

    A request whose outcome is unknown is sent again, from the start of its piece, which is still held:

        PUT           the key is ours alone: the second one writes the same bytes over the first
        CREATE        one upload more may be left open
        UPLOAD PART   a part of the same number replaces the first
        COMPLETE      404 NoSuchUpload after an unknown outcome, and the object is there: the first one was applied

    An upload that somebody else ended, or whose parts the store does not know, is lost: `StoreUnavailable`, because
    whoever makes the file can make it again.
    """

    def __init__(
        self, client: "S3Client", bucket: str, key: str, content_type: str, new_backoff: Callable[[], Backoff]
    ) -> None:
        self._client = client
        self._new_backoff = new_backoff
        self._bucket = bucket
        self._key = key
        self._content_type = content_type
        self._pending = bytearray()
        self._upload_id: str | None = None
        self._parts: list[CompletedPartTypeDef] = []
        self._sender = ThreadPoolExecutor(max_workers=1, thread_name_prefix="upload")
        self._sent: Future[None] | None = None
        self.closed = False
        self.size = 0

    def write(self, data: bytes) -> int:
        """Append; sends a piece when one is full."""
        self._pending += data
        self.size += len(data)
        if len(self._pending) >= PART_BYTES:
            self._send()
        return len(data)

    def flush(self) -> None:
        """Do nothing: S3 wants pieces of at least 5 MiB."""

    def close(self) -> None:
        """Finish the upload: the object appears whole."""
        if self.closed:
            return
        if self._sent is None:
            self._ask("PUT", self._put)
        else:
            if self._pending:
                self._send()
            self._sent.result()
            self._complete()
        self.closed = True
        self._sender.shutdown()

    def abort(self) -> None:
        """Give the upload up. Errors are left to the bucket's lifecycle rule: the caller has a better one."""
        self.closed = True
        self._sender.shutdown()  # a piece that is on its way would come after the end
        if self._upload_id is not None:
            with contextlib.suppress(ClientError, BotoCoreError):
                self._client.abort_multipart_upload(Bucket=self._bucket, Key=self._key, UploadId=self._upload_id)

    def _send(self) -> None:
        """Wait for the piece before, then send what is pending."""
        # bytes: botocore reads them in blocks, of which each has its time. A bytearray goes out in one call that has
        # as long as connecting has, so 5 s: over a slow line no piece ever arrives.
        piece, self._pending = bytes(self._pending), bytearray()
        if self._sent is not None:
            self._sent.result()
        self._sent = self._sender.submit(self._upload, piece, len(self._parts) + 1)

    def _upload(self, piece: bytes, number: int) -> None:
        if self._upload_id is None:
            self._upload_id = self._ask("CREATE", self._create)
        tag = self._ask(f"PUT part {number} of", lambda: self._upload_part(piece, number))
        self._parts.append({"ETag": tag, "PartNumber": number})

    def _put(self) -> None:
        self._client.put_object(
            Bucket=self._bucket, Key=self._key, Body=bytes(self._pending), ContentType=self._content_type
        )

    def _create(self) -> str:
        answer = self._client.create_multipart_upload(
            Bucket=self._bucket, Key=self._key, ContentType=self._content_type
        )
        check_whole(answer, f"CREATE {self._key}", "UploadId")
        return answer["UploadId"]

    def _upload_part(self, piece: bytes, number: int) -> str:
        answer = self._client.upload_part(
            Bucket=self._bucket,
            Key=self._key,
            UploadId=self._upload_id or "",
            PartNumber=number,
            Body=piece,
        )
        check_whole(answer, f"PUT part {number} of {self._key}", "ETag")
        return answer["ETag"]

    def _complete(self) -> None:
        attempts = 0

        def request() -> None:
            nonlocal attempts
            attempts += 1
            try:
                answer = self._client.complete_multipart_upload(
                    Bucket=self._bucket,
                    Key=self._key,
                    UploadId=self._upload_id or "",
                    MultipartUpload={"Parts": self._parts},
                )
                # S3 answers 200 before it has joined the parts, and tells the end in the body.
                check_whole(answer, f"COMPLETE {self._key}", "ETag")
            except ClientError as exc:
                if attempts == 1 or error_code(exc) != "NoSuchUpload" or not self._is_there():
                    raise

        self._ask("COMPLETE", request)

    def _is_there(self) -> bool:
        try:
            answer = self._client.head_object(Bucket=self._bucket, Key=self._key)
        except ClientError as exc:
            if http_status(exc) == _NOT_FOUND:
                return False
            raise
        check_whole(answer, f"HEAD {self._key}", "ContentLength")
        return answer["ContentLength"] == self.size

    def _ask(self, method: str, request: Callable[[], T]) -> T:
        what = f"{method} {self._key}"

        def translated() -> T:
            try:
                return request()
            except _FAILURES as exc:
                if error_code(exc) in _LOST_UPLOAD:
                    raise StoreUnavailable(f"{what}: the upload is lost: {exc}", next_step=_LOST_STEP) from exc
                raise translate(exc, what) from exc

        return until_known(translated, self._new_backoff(), what)


def _check_headers(answer: Mapping[str, Any], what: str) -> None:
    """Raise OutcomeUnknown when an answer has no length: it was cut off within its headers."""
    if not {"content-length", "transfer-encoding"} & answer["ResponseMetadata"]["HTTPHeaders"].keys():
        raise OutcomeUnknown(f"{what}: the answer has no length: it was cut off")
