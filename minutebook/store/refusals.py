"""What the error answers of object stores mean, and what to do: the rows of docs/how-to/storage-answers.md. Pure.

A row is chosen by S3's error code, or by what else the answer names: a header, a region, a policy. Whether a request
is sent again is decided elsewhere (`minutebook.aws.clients.is_retryable`).
"""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from minutebook.aws.credentials import CREDENTIALS_STEP
from minutebook.retry import LOOK_AT_STORE


class Row(NamedTuple):
    """What an answer `means`, and what to `do`; `{detail}` in `means` is what the answer names.

    `codes` are S3's error codes, and HTTP statuses for answers without a code.
    """

    answer: str
    means: str
    do: str
    codes: frozenset[str] = frozenset()


NO_CONDITIONS: Final = Row(
    "`501 NotImplemented` or `400` that names `If-None-Match` or `If-Match`",
    "this store has no conditional writes: it refuses {detail}",
    "archive to Amazon S3, or to a store whose conditional PUTs are exact: without them records would double",
)
NO_CHECKSUMS: Final = Row(
    "the same, naming `x-amz-checksum-*`, `x-amz-sdk-checksum-algorithm`, `x-amz-trailer` or `aws-chunked`",
    "this store does not take the checksum header {detail}",
    "set AWS_REQUEST_CHECKSUM_CALCULATION=when_required, or request_checksum_calculation in the AWS configuration "
    "file: then Content-MD5 takes its place",
)
NO_CHECKSUM_MODE: Final = Row(
    "the same, naming `x-amz-checksum-mode`",
    "this store does not take the header {detail} of a GET or HEAD",
    "set AWS_RESPONSE_CHECKSUM_VALIDATION=when_required, or response_checksum_validation in the AWS configuration "
    "file",
)
NO_HEADER: Final = Row(
    "the same, naming another header",
    "this store does not take the header {detail}",
    "remove the setting that sends it: minutebook.objectTags (x-amz-tagging), minutebook.storageClass "
    "(x-amz-storage-class), minutebook.kmsKeyId (x-amz-server-side-encryption*), minutebook.expectedBucketOwner "
    "(x-amz-expected-bucket-owner)",
)
UNNAMED_HEADER: Final = Row(
    "`501 NotImplemented`, `400 InvalidArgument` or `InvalidRequest` to a PUT, naming no header",
    "this store refuses something of the request and does not name it, perhaps {detail}",
    "run minutebook doctor, which sends checksum and condition apart; then look at storage class, tags and KMS key",
)
UNIMPLEMENTED: Final = Row(
    "`501` to any other request; a LIST that goes on without `NextContinuationToken`",
    "this store does not implement the request",
    "archive to Amazon S3, or to a store that implements it; minutebook doctor tries each request of a worker",
)
ELSEWHERE: Final = Row(
    "`301 PermanentRedirect`, `400 AuthorizationHeaderMalformed`, `IllegalLocationConstraintException`",
    "the bucket lies in {detail}",
    "set regionName to the bucket's region; where the stream lies in another one, leave minutebook.s3Endpoint out",
    frozenset({"301", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "PermanentRedirect"}),
)
REDIRECTED: Final = Row(
    "`301`, `302`, `303`, `307` or `308` to an address that is not the bucket's",
    "another server than the store answers, or the address is not whole",
    "correct minutebook.s3Endpoint (http or https, host, port), or let requests to it pass the proxy",
)
SPREADING: Final = Row(
    "`307 TemporaryRedirect` again and again",
    "the bucket is new, and its address is still being spread",
    "wait: the request is sent again; or set regionName to the bucket's region",
    frozenset({"307", "Redirect", "TemporaryRedirect"}),
)
ARCHIVED: Final = Row(
    "`403 InvalidObjectState`, `ObjectNotInActiveTierError`",
    "the object is archived ({detail}): restore it",
    "run aws s3api restore-object, wait, and run again; minutebook doctor names the rule that moved it",
    frozenset({"InvalidObjectState", "ObjectNotInActiveTierError"}),
)
DENIED: Final = Row(
    "`403 AccessDenied`, or `403` without a code",
    "no policy allows this to the role",
    "grant this role the actions of `minutebook docs operations permissions`, also s3:ListBucket, without which S3 "
    "refuses to say that a key is not there; minutebook doctor tests them; with minutebook.expectedBucketOwner, see "
    "that the bucket is that account's",
    frozenset({"403", "AccessDenied"}),
)
DENIED_BY_POLICY: Final = Row(
    "`403 AccessDenied` with an explicit deny",
    "a policy forbids it",
    "look at the policy of the bucket and of the organization: one that demands encryption takes "
    "minutebook.kmsKeyId, one that demands tags minutebook.objectTags",
)
DENIED_KEY: Final = Row(
    "`403 AccessDenied` that names an action of KMS",
    "the role may not use the KMS key",
    "grant kms:GenerateDataKey and kms:Decrypt on the key to this role, and see that the key's own policy allows it",
)
DISABLED_KEY: Final = Row(
    "`400 KMS.DisabledException`, `KMS.KMSInvalidStateException`, `KMS.NotFoundException`",
    "the KMS key is disabled, waits for its deletion, or is not there",
    "enable the key or cancel its deletion, else nobody can read the objects; or correct minutebook.kmsKeyId",
    frozenset(
        {
            "KMS.DisabledException",
            "KMS.InvalidKeyUsageException",
            "KMS.InvalidStateException",
            "KMS.KMSInvalidStateException",
            "KMS.NotFoundException",
        }
    ),
)
NO_BUCKET: Final = Row(
    "`404 NoSuchBucket`, `400 InvalidBucketName`",
    "there is no such bucket",
    "create the bucket, or correct minutebook.bucket",
    frozenset({"NoSuchBucket", "InvalidBucketName"}),
)
NO_CLASS: Final = Row(
    "`400 InvalidStorageClass`",
    "this store has no such storage class",
    "remove minutebook.storageClass, or name a class of this store",
    frozenset({"InvalidStorageClass"}),
)
TOO_LARGE: Final = Row(
    "`400 EntityTooLarge`, `413`",
    "the object is larger than this store, or a proxy, takes in one PUT",
    "lower minutebook.maxSegmentBytes, or raise the proxy's limit",
    frozenset({"413", "EntityTooLarge"}),
)
FULL: Final = Row(
    "`403 QuotaExceeded`, `507`, MinIO's `XMinioStorageFull`, `XMinioAdminBucketQuotaExceeded`",
    "the store is full, or over a quota",
    "make room, or raise the quota; nothing is lost while the stream holds the records",
    frozenset(
        {
            "507",
            "InsufficientStorage",
            "QuotaExceeded",
            "XMinioAdminBucketQuotaExceeded",
            "XMinioDiskFull",
            "XMinioStorageFull",
        }
    ),
)
SUSPENDED: Final = Row(
    "`403 AllAccessDisabled`, `AccountProblem`, `NotSignedUp`",
    "the account is suspended, or all access to the bucket",
    "ask whoever owns the account",
    frozenset({"AccountProblem", "AllAccessDisabled", "NotSignedUp"}),
)
UNKNOWN_CREDENTIALS: Final = Row(
    "`403 InvalidAccessKeyId`, `400 ExpiredToken`, `InvalidToken`",
    "the store does not know these credentials, or they have expired and no newer ones came",
    CREDENTIALS_STEP,
    frozenset(
        {"ExpiredToken", "ExpiredTokenException", "InvalidAccessKeyId", "InvalidToken", "TokenRefreshRequired"}
    ),
)
NO_CREDENTIALS: Final = Row(
    "none: the source of credentials failed (ECS, EKS, EC2, STS, SSO, a token file, a program)",
    "no credentials came from their source; the store was not asked",
    CREDENTIALS_STEP,
)
BAD_SIGNATURE: Final = Row(
    "`403 SignatureDoesNotMatch`",
    "the signature does not fit the request",
    "look at the secret key, at the clock of this machine, and for a proxy that changes headers or paths",
    frozenset({"SignatureDoesNotMatch"}),
)
WRONG_CLOCK: Final = Row(
    "`403 RequestTimeTooSkewed`, `RequestExpired`",
    "the clocks of this machine and of the store are a quarter of an hour apart, or the request waited that long",
    "set the clock of this machine (chrony, systemd-timesyncd)",
    frozenset({"RequestExpired", "RequestTimeTooSkewed"}),
)
DAMAGED: Final = Row(
    "`400 BadDigest`, `XAmzContentSHA256Mismatch`, `XAmzContentChecksumMismatch`",
    "the body that arrived is not the one that was sent",
    "look for a proxy that changes bodies, and at the memory of this machine",
    frozenset({"BadDigest", "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch"}),
)
BUSY: Final = Row(
    "`503 SlowDown`, `429`, any other `5xx`",
    "the store throttles, or does not work at present",
    f"{LOOK_AT_STORE}; a page of HTML is a proxy's",
    frozenset({"429", "InternalError", "ServiceUnavailable", "SlowDown", "TooManyRequests"}),
)
UNTRUSTED: Final = Row(
    "none: TLS fails",
    "the certificate is not trusted, or somebody in between does not speak TLS",
    "name your CA bundle in AWS_CA_BUNDLE, or correct the scheme of minutebook.s3Endpoint",
)
SILENT: Final = Row(
    "none: no connection, or no answer in time",
    "nobody answers at this address",
    "look at the network, name resolution, proxies (HTTPS_PROXY, NO_PROXY) and minutebook.s3Endpoint",
)
NOT_S3: Final = Row(
    "`200` without S3's headers, `405`",
    "the answer was cut off, or is not S3's",
    "look for a proxy in between, and at minutebook.s3Endpoint: it must be the API's address, not a console's",
    frozenset({"405", "MethodNotAllowed"}),
)
OTHER: Final = Row(
    "any other `4xx`", "the store refuses the request", "correct the request's settings or permissions"
)

ROWS: Final = tuple(value for value in tuple(globals().values()) if isinstance(value, Row))
_OF_CODE: Final = {code: row for row in ROWS for code in row.codes}
_REFUSING: Final = frozenset({"501", "BadRequest", "InvalidArgument", "InvalidRequest", "NotImplemented"})
"""The codes with which stores refuse a header that they do not know."""
_CONDITIONS: Final = frozenset({"if-match", "if-none-match"})
_CHECKSUMS: Final = re.compile(
    r"x-amz-checksum-(?!mode)[a-z0-9-]+|x-amz-sdk-checksum-algorithm|x-amz-trailer|aws-chunked|streaming-[a-z0-9-]+"
)
_HEADER: Final = re.compile(
    r"\b(if-none-match|if-match|x-amz-[a-z][a-z0-9-]*[a-z0-9]|aws-chunked|streaming-[a-z0-9-]+)\b", re.IGNORECASE
)


class ErrorAnswer(NamedTuple):
    """An error answer: status, code, the other fields of its document, its headers (lower case)."""

    status: int
    code: str
    details: Mapping[str, Any]
    headers: Mapping[str, str]


def explain(answer: ErrorAnswer, suspects: str = "") -> tuple[Row, str]:
    """Return the row of an answer, and what it means.

    `suspects` are the headers of the request that stores are known to refuse, as text; empty for requests without.
    """
    message = str(answer.details.get("Message", ""))
    detail, row = "", _OF_CODE.get(answer.code, BUSY if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR else OTHER)
    if answer.code in _REFUSING:
        row, detail = _refused(answer, message, suspects)
    elif row is ELSEWHERE:
        detail = answer.headers.get("x-amz-bucket-region") or str(answer.details.get("Region") or "another region")
    elif row is ARCHIVED:
        tier = answer.details.get("AccessTier") or answer.details.get("StorageClass")
        detail = str(tier or "an archive class")
    elif row is DENIED and "kms:" in message:
        row = DENIED_KEY
    elif row is DENIED and "explicit deny" in message:
        row = DENIED_BY_POLICY
    return row, row.means.format(detail=detail)


def _refused(answer: ErrorAnswer, message: str, suspects: str) -> tuple[Row, str]:
    named = answer.details.get("Header") or answer.details.get("ArgumentName") or ""
    match = _HEADER.search(f"{named} {message} {answer.details.get('additionalMessage', '')}")
    if match is None and suspects:
        return UNNAMED_HEADER, suspects
    if match is None:
        return (UNIMPLEMENTED if answer.status == HTTPStatus.NOT_IMPLEMENTED else OTHER), ""
    header = match[0]
    if header.lower() in _CONDITIONS:
        return NO_CONDITIONS, header
    if header.lower() == "x-amz-checksum-mode":
        return NO_CHECKSUM_MODE, header
    return (NO_CHECKSUMS if _CHECKSUMS.fullmatch(header.lower()) else NO_HEADER), header
