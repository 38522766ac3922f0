"""The S3 side of the object store port: the only module that sends S3 requests for the protocol.

botocore's own retries are off: every attempt is ours, so that a 412 after a retry is never mistaken for a lost
race, and every request is counted.
"""

import functools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    FlexibleChecksumError,
    HTTPClientError,
    IncompleteReadError,
    ResponseStreamingError,
)
from botocore.exceptions import (
    ConnectionError as BotoConnectionError,
)
from botocore.parsers import ResponseParserError

from archive.errors import OutcomeUnknown, StoreError, StoreRefused
from archive.store.objects import ListedObject, ObjectHead, PutOutcome, StoredObject

if TYPE_CHECKING:
    from boto3.session import Session
    from mypy_boto3_s3 import S3Client

# Judged by S3's error code, not by the HTTP status alone ("Error responses", S3 API reference): these 4xx codes
# say nothing about whether the object exists, and pass.
_PASSING_CODES = frozenset(
    {
        "400",  # a HEAD has no body to name its code: an expired token looks like this
        "BadDigest",
        "BandwidthLimitExceeded",
        "ConditionalRequestConflict",
        "ExpiredToken",
        "IncompleteBody",
        "OperationAborted",
        "RequestLimitExceeded",
        "RequestTimeTooSkewed",
        "RequestTimeout",
        "RequestTimeoutException",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequests",
        "TooManyRequestsException",
        "XAmzContentChecksumMismatch",
    }
)
_PASSING_STATUS = frozenset({408, 409, 425, 429})
_ABSENT_CODES = frozenset({"404", "NoSuchKey", "NotFound"})
_NEXT_STEPS = {
    "AccessDenied": "grant the actions listed in docs/operations.md to this role; minutebook doctor tests them",
    "403": "grant the actions listed in docs/operations.md to this role; minutebook doctor tests them",
    "NoSuchBucket": "create the bucket, or correct minutebook.bucket",
    "PermanentRedirect": "set regionName to the bucket's region",
    "AuthorizationHeaderMalformed": "set regionName to the bucket's region",
    "301": "set regionName to the bucket's region",
    "InvalidAccessKeyId": "look at the credentials of this process",
    "SignatureDoesNotMatch": "look at the credentials and the clock of this machine",
}
_NOT_FOUND, _PRECONDITION_FAILED, _SERVER_ERROR = 404, 412, 500


def s3_config(*, path_style: bool) -> Config:
    """Return the botocore settings of every S3 client of Minutebook."""
    return Config(
        retries={"total_max_attempts": 1, "mode": "standard"},
        connect_timeout=5,
        read_timeout=60,
        max_pool_connections=16,
        s3={"addressing_style": "path" if path_style else "auto"},
    )


@functools.cache
def aws_session() -> "Session":
    """Return the process's one boto3 session: a second one would parse botocore's data again, 10 MB of it."""
    import boto3  # noqa: PLC0415 - costs 20 MB; only who talks to AWS pays

    return boto3.session.Session()


def make_s3_client(region: str, endpoint: str | None) -> "S3Client":
    """Return a client for AWS, or for `endpoint` (path-style addresses, as local servers want them)."""
    return aws_session().client(
        "s3", region_name=region, endpoint_url=endpoint, config=s3_config(path_style=endpoint is not None)
    )


def translate(error: Exception, what: str) -> StoreError:
    """Return the error of our tree for an exception of botocore. `what` names the request."""
    if isinstance(error, ClientError):
        code = str(error.response.get("Error", {}).get("Code", ""))
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        message = f"{what}: {status} {code}: {error.response.get('Error', {}).get('Message', '')}"
        passing = (
            code in _PASSING_CODES
            or status in _PASSING_STATUS
            or (status >= _SERVER_ERROR and code != "NotImplemented")
        )
        if passing or code.startswith("KMS.Throttling"):
            return OutcomeUnknown(message)
        return StoreRefused(message, next_step=_NEXT_STEPS.get(code, "correct the request's settings or permissions"))
    passing_kinds = (
        BotoConnectionError,
        HTTPClientError,
        IncompleteReadError,
        ResponseStreamingError,
        ResponseParserError,
        FlexibleChecksumError,  # damaged on the way; an object that is damaged for good exhausts the budget
        CredentialRetrievalError,
        ValueError,  # botocore's own, for a date that was cut off
    )
    if isinstance(error, passing_kinds):
        return OutcomeUnknown(f"{what}: {type(error).__name__}: {error}")
    return StoreRefused(
        f"{what}: {type(error).__name__}: {error}", next_step="look at credentials, region and endpoint"
    )


class S3Store:
    """One bucket. Thread-safe, as botocore's clients are."""

    def __init__(self, client: "S3Client", bucket: str) -> None:
        self._client = client
        self.bucket = bucket

    def put_if_absent(self, key: str, body: bytes, metadata: Mapping[str, str], content_type: str) -> PutOutcome:
        """Send one PUT with `If-None-Match: *`; see `ObjectStore`."""
        try:
            self._client.put_object(
                Bucket=self.bucket,
                Key=key,
                Body=body,
                Metadata=dict(metadata),
                ContentType=content_type,
                IfNoneMatch="*",
            )
        except ClientError as exc:
            if _status(exc) == _PRECONDITION_FAILED:
                return PutOutcome.EXISTS
            raise translate(exc, f"PUT {key}") from exc
        except BotoCoreError as exc:
            raise translate(exc, f"PUT {key}") from exc
        return PutOutcome.CREATED

    def head(self, key: str) -> ObjectHead | None:
        """Send one HEAD; see `ObjectStore`."""
        try:
            answer = self._client.head_object(Bucket=self.bucket, Key=key)
        except ClientError as exc:
            if _is_absent(exc):
                return None
            raise translate(exc, f"HEAD {key}") from exc
        except (BotoCoreError, ValueError) as exc:
            raise translate(exc, f"HEAD {key}") from exc
        _check_whole(answer, "ContentLength", f"HEAD {key}")
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
        except ClientError as exc:
            if _is_absent(exc):
                return None
            raise translate(exc, f"GET {key}") from exc
        except (BotoCoreError, ValueError) as exc:
            raise translate(exc, f"GET {key}") from exc
        _check_whole(answer, "ContentLength", f"GET {key}")
        return StoredObject(body, answer["ETag"], _lower(answer["Metadata"]))

    def list_objects(self, prefix: str) -> Iterator[ListedObject]:
        """List page by page (1,000 keys a request); see `ObjectStore`."""
        try:
            for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix):
                _check_whole(page, "IsTruncated", f"LIST {prefix}")
                for row in page.get("Contents", []):
                    yield ListedObject(row["Key"], row["Size"], row["ETag"], _epoch_ms(row["LastModified"]))
        except (ClientError, BotoCoreError) as exc:
            raise translate(exc, f"LIST {prefix}") from exc


def _status(error: ClientError) -> int:
    return int(error.response["ResponseMetadata"]["HTTPStatusCode"])


def _check_whole(answer: Mapping[str, Any], field: str, what: str) -> None:
    """Raise OutcomeUnknown when an answer lacks a field that S3 never leaves out.

    Python's HTTP client takes a connection that ends within the headers for the end of the headers. Metadata is then
    missing, and botocore reads the empty body of a LIST as an empty list: as if nothing were archived.
    """
    if field not in answer:
        raise OutcomeUnknown(f"{what}: the answer has no {field}: it was cut off")


def _is_absent(error: ClientError) -> bool:
    return _status(error) == _NOT_FOUND and error.response["Error"]["Code"] in _ABSENT_CODES


def _lower(metadata: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in metadata.items()}


def _epoch_ms(moment: Any) -> int:  # noqa: ANN401 - botocore's datetime
    return int(moment.timestamp() * 1000)
