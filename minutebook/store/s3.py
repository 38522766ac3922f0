"""The object store port on S3: each method sends one request, without retries."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from minutebook.aws.clients import crc32_text, error_code, http_status, is_retryable
from minutebook.errors import OutcomeUnknown, StoreError, StoreRefused
from minutebook.store.objects import ListedObject, Listing, ObjectHead, PutOutcome, StoredObject

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ListObjectsV2OutputTypeDef, ObjectTypeDef

_ABSENT_CODES = frozenset({"404", "NoSuchKey", "NotFound"})
_NEXT_STEPS = {
    "AccessDenied": "grant this role the actions of `minutebook docs operations permissions`, also s3:ListBucket, "
    "without which S3 refuses to say that a key is not there; minutebook doctor tests them; with "
    "minutebook.expectedBucketOwner, see that the bucket is that account's",
    "403": "grant this role the actions of `minutebook docs operations permissions`; minutebook doctor tests them; "
    "with minutebook.expectedBucketOwner, see that the bucket is that account's",
    "NoSuchBucket": "create the bucket, or correct minutebook.bucket",
    "PermanentRedirect": "set regionName to the bucket's region",
    "AuthorizationHeaderMalformed": "set regionName to the bucket's region",
    "301": "set regionName to the bucket's region",
    "InvalidAccessKeyId": "look at the credentials of this process",
    "SignatureDoesNotMatch": "look at the credentials and the clock of this machine",
}
_ARCHIVED = frozenset({"InvalidObjectState", "ObjectNotInActiveTierError"})
"""The answers to a GET, and to a copy, of an object that is in GLACIER, DEEP_ARCHIVE or an archive tier."""
_FORBIDDEN, _NOT_FOUND, _PRECONDITION_FAILED = 403, 404, 412
FAILURES = (ClientError, BotoCoreError, ValueError)
"""What a request may raise; botocore raises ValueError for a date that was cut off."""


def translate(error: Exception, what: str) -> StoreError:
    """Return the error of our tree for an exception of botocore; `what` names the request."""
    if isinstance(error, ClientError):
        code = error_code(error)
        if code in _ARCHIVED:
            return _archived(error, what)
        message = f"{what}: {http_status(error)} {code}: {error.response.get('Error', {}).get('Message', '')}"
        next_step = _NEXT_STEPS.get(code, "correct the request's settings or permissions")
    else:
        message = f"{what}: {type(error).__name__}: {error}"
        next_step = "look at credentials, region and endpoint"
    return OutcomeUnknown(message) if is_retryable(error) else StoreRefused(message, next_step=next_step)


def _archived(error: ClientError, what: str) -> StoreRefused:
    details = {**error.response.get("Error", {})}
    place = details.get("AccessTier") or details.get("StorageClass") or "an archive class"
    return StoreRefused(
        f"{what}: the object is archived ({place}): restore it",
        next_step="run aws s3api restore-object, wait, and run again; minutebook doctor names the rule that moved it",
    )


class S3Store:
    """One bucket. Thread-safe, as botocore's clients are."""

    def __init__(self, client: "S3Client", bucket: str) -> None:
        self._client = client
        self.bucket = bucket

    def put_if_absent(self, key: str, body: bytes, metadata: Mapping[str, str], content_type: str) -> PutOutcome:
        """Send one PUT with `If-None-Match: *`; see `ObjectStore`."""
        try:
            answer = self._client.put_object(
                Bucket=self.bucket,
                Key=key,
                Body=body,
                Metadata=dict(metadata),
                ContentType=content_type,
                IfNoneMatch="*",
                ChecksumCRC32=crc32_text(body),
            )
        except (ClientError, BotoCoreError) as exc:
            if http_status(exc) == _PRECONDITION_FAILED:
                return PutOutcome.EXISTS
            raise translate(exc, f"PUT {key}") from exc
        check_whole(answer, f"PUT {key}", "ETag")
        return PutOutcome.CREATED

    def head(self, key: str) -> ObjectHead | None:
        """Send one HEAD; see `ObjectStore`."""
        try:
            answer = self._client.head_object(Bucket=self.bucket, Key=key)
        except FAILURES as exc:
            if _is_absent(exc):
                return None
            if http_status(exc) == _FORBIDDEN:
                raise self._refusal_of_head(key) from exc
            raise translate(exc, f"HEAD {key}") from exc
        check_whole(answer, f"HEAD {key}", "ContentLength", "ETag", "LastModified")
        return ObjectHead(
            key,
            answer["ContentLength"],
            answer["ETag"],
            _lower(answer["Metadata"]),
            _epoch_ms(answer["LastModified"]),
        )

    def get(self, key: str) -> StoredObject | None:
        """Send one GET; see `ObjectStore`."""
        try:
            answer = self._client.get_object(Bucket=self.bucket, Key=key)
            body = answer["Body"].read()
        except FAILURES as exc:
            if _is_absent(exc):
                return None
            raise translate(exc, f"GET {key}") from exc
        check_whole(answer, f"GET {key}", "ContentLength", "ETag")
        return StoredObject(body, answer["ETag"], _lower(answer["Metadata"]))

    def _refusal_of_head(self, key: str) -> StoreError:
        """Return the error for a 403 to a HEAD, which has no body with a code, by the answer to a GET of the key."""
        try:
            self._client.get_object(Bucket=self.bucket, Key=key)["Body"].close()
        except FAILURES as exc:
            if not _is_absent(exc):
                return translate(exc, f"HEAD {key}")
        return OutcomeUnknown(f"HEAD {key}: 403, and a GET is not refused")

    def list_objects(self, prefix: str) -> Iterator[ListedObject]:
        """List page by page (1,000 keys a request); see `ObjectStore`."""
        for page in self._pages(prefix):
            yield from map(_listed, page.get("Contents", []))

    def list_level(self, folder: str) -> Listing:
        """List with the delimiter `/`; see `ObjectStore`."""
        folders: list[str] = []
        objects: list[ListedObject] = []
        for page in self._pages(folder, "/"):
            folders += [row["Prefix"] for row in page.get("CommonPrefixes", [])]
            objects += map(_listed, page.get("Contents", []))
        return Listing(tuple(folders), tuple(objects))

    def _pages(self, prefix: str, delimiter: str | None = None) -> Iterator["ListObjectsV2OutputTypeDef"]:
        what = f"LIST s3://{self.bucket}/{prefix}"
        level: dict[str, Any] = {} if delimiter is None else {"Delimiter": delimiter}
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix, **level)
        try:
            for page in pages:
                check_whole(page, what, "IsTruncated")
                yield page
        except FAILURES as exc:
            raise translate(exc, what) from exc


def check_whole(answer: Mapping[str, Any], what: str, *fields: str) -> None:
    """Raise OutcomeUnknown if an answer lacks a field that S3 always sends.

    Python's HTTP client takes a connection that ends within the headers for the end of the headers. Metadata is then
    missing, and botocore reads the empty body of a LIST as an empty list: as if nothing were archived. A proxy's page
    looks the same, also as the answer to a PUT.
    """
    missing = [field for field in fields if field not in answer]
    if missing:
        raise OutcomeUnknown(f"{what}: the answer has no {missing[0]}: it was cut off, or is not S3's")


def _is_absent(error: Exception) -> bool:
    return http_status(error) == _NOT_FOUND and error_code(error) in _ABSENT_CODES


def _lower(metadata: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in metadata.items()}


def _listed(row: "ObjectTypeDef") -> ListedObject:
    return ListedObject(row["Key"], row["Size"], row["ETag"], _epoch_ms(row["LastModified"]))


def _epoch_ms(moment: Any) -> int:  # noqa: ANN401 - botocore's datetime
    return int(moment.timestamp() * 1000)
