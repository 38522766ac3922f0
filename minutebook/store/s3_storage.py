"""`Storage` on S3: the archive's store, and the requests that publishing adds."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from minutebook.aws.answers import date_of, epoch_ms
from minutebook.aws.clients import error_code, http_status, is_retryable_code
from minutebook.errors import OutcomeUnknown, StoreRefused, StoreUnavailable
from minutebook.retry import Backoff, until_known
from minutebook.store.objects import ListedObject
from minutebook.store.s3 import FAILURES, S3Store, check_page, check_whole, listed, translate
from minutebook.store.storage import ObjectBody, ObjectChanged, Tail, Upload

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef

T = TypeVar("T")

_PRECONDITION_FAILED, _NOT_FOUND = 412, 404
_LOST_UPLOAD: Final = frozenset({"NoSuchUpload", "InvalidPart", "InvalidPartOrder"})
_LOST_STEP: Final = "nothing: the file is made again; if that goes on, look who aborts uploads (a lifecycle rule?)"
_OTHER_OBJECT: Final = frozenset({"PreconditionFailed", "412", "NoSuchKey", "404"})
"""The answers if an object is gone, or its ETag is another one than the request names."""
_CHUNK_BYTES: Final = 1 << 20
_DELETE_BATCH: Final = 1000
PART_BYTES: Final = 5 << 20
"""The least size of a part that S3 accepts. With 10,000 parts an object has up to 50 GB; a task writes 0.1."""


class S3Storage(S3Store):
    """One bucket. Thread-safe, as botocore's clients are."""

    def uri(self, key: str) -> str:
        """Return `s3://bucket/key`."""
        return f"s3://{self.bucket}/{key}"

    def now_ms(self, prefix: str) -> int:
        """Send one LIST of one key, and return its Date; see `Storage`."""
        what = f"LIST s3://{self.bucket}/{prefix}"
        try:
            answer = self._client.list_objects_v2(Bucket=self.bucket, Prefix=prefix, MaxKeys=1)
        except FAILURES as exc:
            raise translate(exc, what) from exc
        check_whole(answer, what, "IsTruncated")
        date_ms = epoch_ms(date_of(answer))
        if date_ms is None:
            raise OutcomeUnknown(f"{what}: the answer has no Date")
        return date_ms

    def list_after(self, prefix: str, start_after: str) -> Iterator[ListedObject]:
        """List with StartAfter, page by page; see `Storage`."""
        for page in self._pages(prefix, StartAfter=start_after):
            yield from map(listed, page.get("Contents", []))

    def put_if_match(self, key: str, body: bytes, etag: str | None, content_type: str) -> bool:
        """Send one PUT with `If-Match`, or `If-None-Match: *` where there must be nothing; see `Storage`.

            etag given:  200 replaced   412 another object is there   404 it was deleted     -> the last two: False
            etag None:   200 created    412 an object is there                                -> False

        409 (another conditional write is in progress) and all errors that leave the outcome open raise
        `OutcomeUnknown`: the caller reads the object and compares, because its write may have been applied.
        """
        condition: dict[str, Any] = {"IfNoneMatch": "*"} if etag is None else {"IfMatch": etag}
        try:
            answer = self._client.put_object(
                Bucket=self.bucket, Key=key, Body=body, ContentType=content_type, **condition
            )
        except (ClientError, BotoCoreError) as exc:
            if http_status(exc) in {_PRECONDITION_FAILED, _NOT_FOUND} and error_code(exc) != "NoSuchBucket":
                return False
            raise translate(
                exc, f"PUT {key}", "If-None-Match or the checksum" if etag is None else "If-Match or the checksum"
            ) from exc
        check_whole(answer, f"PUT {key}", "ETag")
        return True

    def delete(self, keys: Iterable[str]) -> None:
        """Delete in batches of 1,000, whose answers name each key that is gone; see `Storage`."""
        remaining = list(keys)
        for start in range(0, len(remaining), _DELETE_BATCH):
            batch = remaining[start : start + _DELETE_BATCH]
            try:
                answer = self._client.delete_objects(
                    Bucket=self.bucket, Delete={"Objects": [{"Key": key} for key in batch]}
                )
            except FAILURES as exc:
                raise translate(exc, f"DELETE {batch[0]}") from exc
            for failed in answer.get("Errors", []):
                message = f"DELETE {failed.get('Key')}: {failed.get('Code')} {failed.get('Message')}"
                if is_retryable_code(failed.get("Code", "")):
                    raise OutcomeUnknown(message)
                raise StoreRefused(
                    message, next_step="grant s3:DeleteObject below this prefix to whoever runs this command"
                )
            gone = {row.get("Key", "") for row in answer.get("Deleted", [])}
            check_whole(dict.fromkeys(gone), f"DELETE {batch[0]} and {len(batch) - 1} more", *batch)

    def open_read(self, key: str, etag: str | None) -> ObjectBody:
        """Send one GET with `If-Match`; the body streams in while the caller reads it. See `Storage`."""
        condition: dict[str, Any] = {} if etag is None else {"IfMatch": etag}
        try:
            answer = self._client.get_object(Bucket=self.bucket, Key=key, **condition)
        except FAILURES as exc:
            code = error_code(exc)
            if code in _OTHER_OBJECT:
                raise ObjectChanged(f"{key} is not the object that was listed ({code})") from exc
            raise translate(exc, f"GET {key}") from exc
        try:
            check_whole(answer, f"GET {key}", "ContentLength", "ETag")
        except OutcomeUnknown:
            answer["Body"].close()  # nobody will read it, and an open one keeps its connection
            raise
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
            answer = self._client.get_object(Bucket=self.bucket, Key=key, Range=f"bytes=-{count}")
            with closing(answer["Body"]) as body:  # a proxy's page may leave its connection open
                data = body.read()
        except FAILURES as exc:
            raise translate(exc, f"GET {key}") from exc
        check_whole(answer, f"GET {key}", "ContentLength", "ETag")
        # A 206 has the total size after the slash; a store that answers 200 sends the whole object.
        whole = answer.get("ContentRange", "").rpartition("/")[2]
        return Tail(data[-count:], int(whole) if whole.isdecimal() else len(data), answer["ETag"])

    def open_uploads(self, prefix: str) -> list[Upload]:
        """List the open multipart uploads below a prefix; see `Storage`."""
        what = f"LIST uploads of s3://{self.bucket}/{prefix}"
        uploads: list[Upload] = []
        try:
            for page in self._client.get_paginator("list_multipart_uploads").paginate(
                Bucket=self.bucket, Prefix=prefix
            ):
                check_page(page, what, "NextKeyMarker")
                uploads += [
                    Upload(row["Key"], row["UploadId"], int(row["Initiated"].timestamp() * 1000))
                    for row in page.get("Uploads", [])
                ]
        except FAILURES as exc:
            raise translate(exc, what) from exc
        return uploads

    def abort_upload(self, upload: Upload) -> None:
        """Abort one upload; 404 means that it is finished or aborted already. See `Storage`."""
        try:
            self._client.abort_multipart_upload(Bucket=self.bucket, Key=upload.key, UploadId=upload.upload_id)
        except (ClientError, BotoCoreError) as exc:
            if error_code(exc) != "NoSuchUpload":
                raise translate(exc, f"ABORT {upload.key}") from exc

    def open_write(self, key: str, content_type: str, new_backoff: Callable[[], Backoff]) -> "S3Sink":
        """Return a sink, which creates the upload with its first part; see `Storage`."""
        return S3Sink(self._client, self.bucket, key, content_type, new_backoff)


class S3Sink:
    """A multipart upload, or one PUT for a file smaller than a part.

    A thread sends one part while the caller fills the next; its error is raised by the next call. Nothing is visible
    before `close`. If the process dies, the upload stays open until the bucket's lifecycle rule
    `AbortIncompleteMultipartUpload` removes it.

    A request whose outcome is unknown is sent again:

        PUT           only the caller writes this key: the second request writes the same bytes
        CREATE        an additional upload may stay open
        UPLOAD PART   the part replaces the first one of its number
        COMPLETE      404 NoSuchUpload after an unknown outcome, and the object exists: the first one was applied

    If another process ended the upload, or S3 does not know its parts, it raises `StoreUnavailable`: the caller makes
    the file again.
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
        """Append; sends a part once it is full."""
        self._pending += data
        self.size += len(data)
        if len(self._pending) >= PART_BYTES:
            self._send()
        return len(data)

    def flush(self) -> None:
        """Do nothing: S3 requires parts of at least 5 MiB."""

    def close(self) -> None:
        """Complete the upload: the object becomes visible."""
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
        """Abort the upload. Errors are ignored: the caller raises its own, and the lifecycle rule cleans up."""
        self.closed = True
        self._sender.shutdown()  # wait for the part in progress, which would otherwise arrive after the abort
        if self._upload_id is not None:
            with contextlib.suppress(ClientError, BotoCoreError):
                self._client.abort_multipart_upload(Bucket=self._bucket, Key=self._key, UploadId=self._upload_id)

    def _send(self) -> None:
        """Wait for the part before, then send the pending bytes."""
        # bytes: botocore sends them in blocks, each with its own time-out. A bytearray is sent in one call with the
        # connect time-out of 5 s: over a slow line no part ever arrives.
        part, self._pending = bytes(self._pending), bytearray()
        if self._sent is not None:
            self._sent.result()
        self._sent = self._sender.submit(self._upload, part, len(self._parts) + 1)

    def _upload(self, part: bytes, number: int) -> None:
        if self._upload_id is None:
            self._upload_id = self._ask("CREATE", self._create)
        tag = self._ask(f"PUT part {number} of", lambda: self._upload_part(part, number))
        self._parts.append({"ETag": tag, "PartNumber": number})

    def _put(self) -> None:
        answer = self._client.put_object(
            Bucket=self._bucket, Key=self._key, Body=bytes(self._pending), ContentType=self._content_type
        )
        check_whole(answer, f"PUT {self._key}", "ETag")

    def _create(self) -> str:
        answer = self._client.create_multipart_upload(
            Bucket=self._bucket, Key=self._key, ContentType=self._content_type
        )
        check_whole(answer, f"CREATE {self._key}", "UploadId")
        return answer["UploadId"]

    def _upload_part(self, part: bytes, number: int) -> str:
        answer = self._client.upload_part(
            Bucket=self._bucket, Key=self._key, UploadId=self._upload_id or "", PartNumber=number, Body=part
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
                # S3 answers 200 before it has joined the parts, and reports the result in the body.
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
        check_whole(answer, f"HEAD {self._key}", "ContentLength", "ETag")
        return answer["ContentLength"] == self.size

    def _ask(self, method: str, request: Callable[[], T]) -> T:
        what = f"{method} {self._key}"

        def translated() -> T:
            try:
                return request()
            except FAILURES as exc:
                if error_code(exc) in _LOST_UPLOAD:
                    raise StoreUnavailable(f"{what}: the upload is lost: {exc}", next_step=_LOST_STEP) from exc
                raise translate(exc, what, "the checksum") from exc

        return until_known(translated, self._new_backoff(), what)
