"""The object store port on S3: each method sends one request, without retries."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,  # noqa: A004 - botocore's name
    FlexibleChecksumError,
    HTTPClientError,
    IncompleteReadError,
    SSLError,
)
from botocore.parsers import ResponseParserError

from minutebook.aws.answers import MisshapenAnswerError
from minutebook.aws.clients import error_code, http_status, is_retryable
from minutebook.aws.credentials import STS_OPERATIONS, comes_from_credentials
from minutebook.aws.redirects import ForeignRedirectError
from minutebook.errors import ObjectArchived, OutcomeUnknown, StoreError, StoreRefused
from minutebook.store.objects import ListedObject, Listing, ObjectHead, PutOutcome, StoredObject
from minutebook.store.refusals import (
    ARCHIVED,
    DAMAGED,
    NO_CREDENTIALS,
    NOT_S3,
    OTHER,
    REDIRECTED,
    SILENT,
    UNIMPLEMENTED,
    UNTRUSTED,
    ErrorAnswer,
    Row,
    explain,
)

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ListObjectsV2OutputTypeDef, ObjectTypeDef

_ABSENT_CODES = frozenset({"404", "NoSuchKey", "NotFound"})
_SUSPECTS: Final = "If-None-Match or the checksum"
_FORBIDDEN, _NOT_FOUND, _PRECONDITION_FAILED = 403, 404, 412
FAILURES = (ClientError, BotoCoreError, ValueError)
"""What a request may raise; botocore raises ValueError for a date that was cut off."""

_ROWS_OF_ERRORS: Final[tuple[tuple[tuple[type[Exception], ...], Row], ...]] = (
    ((ForeignRedirectError,), REDIRECTED),
    ((SSLError,), UNTRUSTED),
    ((FlexibleChecksumError,), DAMAGED),
    ((MisshapenAnswerError, ResponseParserError, IncompleteReadError, ValueError), NOT_S3),
    ((ConnectionError, HTTPClientError), SILENT),
)
"""The rows of errors without an answer of the store; the first kind that fits counts."""


def translate(error: Exception, what: str, suspects: str = "") -> StoreError:
    """Return the error of our tree for an exception of botocore; `what` names the request.

    `suspects` are its headers that stores are known to refuse: they are named where the answer names none.
    """
    if isinstance(error, ClientError):
        text, row, means = _explained(error, suspects)
    else:
        text, row = f"{type(error).__name__}: {error}", _row_without_answer(error)
        means = row.means
    final = ObjectArchived if row is ARCHIVED else StoreRefused
    kind = OutcomeUnknown if is_retryable(error) else final
    return kind(f"{what}: {means} ({text.rstrip('.: ')})", next_step=row.do)


def _explained(error: ClientError, suspects: str) -> tuple[str, Row, str]:
    details: dict[str, Any] = {**error.response.get("Error", {})}
    if error.operation_name in STS_OPERATIONS:
        return str(error), NO_CREDENTIALS, NO_CREDENTIALS.means
    headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    answer = ErrorAnswer(http_status(error), error_code(error), details, headers)
    return f"{answer.status} {answer.code}: {details.get('Message', '')}", *explain(answer, suspects)


def _row_without_answer(error: Exception) -> Row:
    if comes_from_credentials(error):
        return NO_CREDENTIALS
    return next((row for kinds, row in _ROWS_OF_ERRORS if isinstance(error, kinds)), OTHER)


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
            )
        except (ClientError, BotoCoreError) as exc:
            if http_status(exc) == _PRECONDITION_FAILED:
                return PutOutcome.EXISTS
            raise translate(exc, f"PUT {key}", _SUSPECTS) from exc
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
            yield from map(listed, page.get("Contents", []))

    def list_level(self, folder: str) -> Listing:
        """List with the delimiter `/`; see `ObjectStore`."""
        folders: list[str] = []
        objects: list[ListedObject] = []
        for page in self._pages(folder, Delimiter="/"):
            folders += [row["Prefix"] for row in page.get("CommonPrefixes", [])]
            objects += map(listed, page.get("Contents", []))
        return Listing(tuple(folders), tuple(objects))

    def _pages(self, prefix: str, **scope: str) -> Iterator["ListObjectsV2OutputTypeDef"]:
        """Yield the pages of a LIST; `scope` is Delimiter or StartAfter."""
        what = f"LIST s3://{self.bucket}/{prefix}"
        asked: dict[str, Any] = {"Bucket": self.bucket, "Prefix": prefix, **scope}
        pages = self._client.get_paginator("list_objects_v2").paginate(**asked)
        try:
            for page in pages:
                check_page(page, what, "NextContinuationToken")
                yield page
        except FAILURES as exc:
            raise translate(exc, what) from exc


def check_whole(answer: Mapping[str, Any], what: str, *fields: str) -> None:
    """Raise OutcomeUnknown if an answer lacks a field that S3 always sends, or it is empty.

    Python's HTTP client takes a connection that ends within the headers for the end of the headers. Metadata is then
    missing, and botocore reads the empty body of a LIST as an empty list: as if nothing were archived. A proxy's page
    looks the same, also as the answer to a PUT.
    """
    missing = [field for field in fields if answer.get(field, "") == ""]
    if missing:
        raise OutcomeUnknown(f"{what}: the answer has no {missing[0]}: {NOT_S3.means}", next_step=NOT_S3.do)


def check_page(page: Mapping[str, Any], what: str, next_page: str) -> None:
    """Raise as `check_whole`, or StoreRefused if a page of a LIST is not the last and `next_page` does not lead on.

    A store that takes ListObjectsV2 for the first version names no token. botocore would end the LIST there, and what
    follows would look as if it were not there.
    """
    check_whole(page, what, "IsTruncated")
    if page["IsTruncated"] and not page.get(next_page):
        raise StoreRefused(
            f"{what}: {UNIMPLEMENTED.means} (IsTruncated without {next_page})", next_step=UNIMPLEMENTED.do
        )


def _is_absent(error: Exception) -> bool:
    return http_status(error) == _NOT_FOUND and error_code(error) in _ABSENT_CODES


def _lower(metadata: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in metadata.items()}


def listed(row: "ObjectTypeDef") -> ListedObject:
    """Return a row of a LIST."""
    return ListedObject(row["Key"], row["Size"], row["ETag"], _epoch_ms(row["LastModified"]))


def _epoch_ms(moment: Any) -> int:  # noqa: ANN401 - botocore's datetime
    return int(moment.timestamp() * 1000)
