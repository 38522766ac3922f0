"""How S3's answers become outcomes and errors. The client is botocore's own; its wire is answered by the test."""

import base64
import contextlib
import hashlib
import zlib
from collections.abc import Callable
from typing import Any, cast

import boto3
import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError, NoCredentialsError, ReadTimeoutError

from minutebook.aws.access import PLAIN
from minutebook.aws.clients import client_config, make_s3_client
from minutebook.errors import OutcomeUnknown, StoreRefused
from minutebook.store.objects import PutOutcome
from minutebook.store.s3 import S3Store
from tests.fakes.answering import Body

URL = "https://s3.test"
PASSING = [
    (409, "ConditionalRequestConflict"),
    (409, "OperationAborted"),
    (400, "RequestTimeout"),
    (400, "ExpiredToken"),
    (403, "RequestTimeTooSkewed"),
    (400, "BadDigest"),
    (400, "IncompleteBody"),
    (500, "InternalError"),
    (503, "SlowDown"),
    (503, "ServiceUnavailable"),
    (429, "TooManyRequests"),
    (502, ""),
]
FOR_GOOD = [
    (403, "AccessDenied"),
    (404, "NoSuchBucket"),
    (400, "InvalidArgument"),
    (403, "InvalidAccessKeyId"),
    (403, "SignatureDoesNotMatch"),
    (400, "MetadataTooLarge"),
    (501, "NotImplemented"),
]


Wire = Callable[[AWSPreparedRequest], AWSResponse]


def answer(status: int, code: str = "", headers: dict[str, str] | None = None) -> Wire:
    """Return a wire that answers every request alike, with S3's XML where there is a code."""

    def send(request: AWSPreparedRequest) -> AWSResponse:
        text = f"<Error><Code>{code}</Code><Message>m</Message></Error>" if code and request.method != "HEAD" else ""
        return AWSResponse(request.url, status, cast("Any", headers or {}), Body(text.encode()))

    return send


class _Recorded:
    """A wire that keeps what it was asked."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.requests: list[AWSPreparedRequest] = []

    def __call__(self, request: AWSPreparedRequest, **_: Any) -> AWSResponse:  # noqa: ANN401 - botocore's hook
        self.requests.append(request)
        return self.wire(request)


_SESSION = boto3.session.Session(aws_access_key_id="a", aws_secret_access_key="b")


def store(wire: Wire) -> tuple[S3Store, _Recorded]:
    """Return the real store over a real client whose requests `wire` answers."""
    recorded = _Recorded(wire)
    client = _SESSION.client("s3", region_name="us-east-1", endpoint_url=URL, config=client_config(path_style=True))
    client.meta.events.register("before-send.s3", cast("Any", recorded))
    return S3Store(client, "bucket"), recorded


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def put(wire: Wire) -> PutOutcome:
    """Send one conditional PUT."""
    return store(wire)[0].put_if_absent("k", b"body", {"writer": "w"}, "application/gzip")


def test_every_put_is_conditional() -> None:
    """`If-None-Match: *` goes over the wire, with the metadata and the type."""
    archive, wire = store(answer(200, headers={"ETag": '"e"'}))
    assert archive.put_if_absent("a/k", b"body", {"writer": "w"}, "application/gzip") is PutOutcome.CREATED
    (sent,) = wire.requests
    assert (sent.method, sent.url) == ("PUT", f"{URL}/bucket/a/k")
    headers = {name.lower(): _text(value) for name, value in sent.headers.items()}
    assert headers["if-none-match"] == "*"
    assert headers["x-amz-meta-writer"] == "w"
    assert headers["content-type"] == "application/gzip"


@pytest.mark.parametrize("scheme", ["https", "http"])
@pytest.mark.usefixtures("credentials")
def test_a_body_is_sent_once_whole_with_a_checksum_that_s3_compares(scheme: str) -> None:
    """By CRC32 in a header; by SHA-256 in the signature as well where no TLS protects it on the way."""
    client = make_s3_client("us-east-1", f"{scheme}://s3.test", PLAIN)
    wire = _Recorded(answer(200, headers={"ETag": '"e"'}))
    client.meta.events.register("before-send.s3", cast("Any", wire))
    body = bytes(range(256)) * 1000
    S3Store(client, "bucket").put_if_absent("k", body, {"writer": "w"}, "application/gzip")
    (sent,) = wire.requests
    headers = {name.lower(): _text(value) for name, value in sent.headers.items()}
    assert headers["x-amz-checksum-crc32"] == base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()
    digest = hashlib.sha256(body).hexdigest()
    assert headers["x-amz-content-sha256"] == ("UNSIGNED-PAYLOAD" if scheme == "https" else digest)
    assert headers["content-length"] == str(len(body))
    assert "transfer-encoding" not in headers
    assert sent.body.read() == body
    assert headers["expect"] == "100-continue"


def test_412_is_a_value() -> None:
    """An object is there: the caller asks whose."""
    assert put(answer(412, "PreconditionFailed")) is PutOutcome.EXISTS


@pytest.mark.parametrize(("status", "code"), PASSING)
def test_a_passing_failure_leaves_the_outcome_open(status: int, code: str) -> None:
    """Judged by the code first: some 4xx pass, and 409 is not a lost race."""
    with pytest.raises(OutcomeUnknown):
        put(answer(status, code))


@pytest.mark.parametrize(("status", "code"), FOR_GOOD)
def test_a_refusal_for_good_is_configuration(status: int, code: str) -> None:
    """Exit code 2, with the code and a next step."""
    with pytest.raises(StoreRefused, match=code) as caught:
        put(answer(status, code))
    assert caught.value.exit_code == 2
    assert caught.value.next_step


@pytest.mark.parametrize(
    ("details", "place"),
    [
        ("<StorageClass>GLACIER</StorageClass>", "GLACIER"),
        (
            "<StorageClass>INTELLIGENT_TIERING</StorageClass><AccessTier>DEEP_ARCHIVE_ACCESS</AccessTier>",
            "DEEP_ARCHIVE_A",
        ),
        ("", "an archive class"),
    ],
)
def test_an_object_that_is_archived_is_to_be_restored(details: str, place: str) -> None:
    """No setting of the request is wrong: S3 names the class, or the tier (InvalidObjectState, API reference)."""
    text = f"<Error><Code>InvalidObjectState</Code><Message>m</Message>{details}</Error>"

    def wire(request: AWSPreparedRequest) -> AWSResponse:
        return AWSResponse(request.url, 403, cast("Any", {}), Body(text.encode()))

    with pytest.raises(StoreRefused, match=rf"GET k: the object is archived \({place}.*\): restore it") as caught:
        store(wire)[0].get("k")
    assert "restore-object" in caught.value.next_step


@pytest.mark.parametrize(("status", "code"), [*PASSING, *FOR_GOOD, (412, "PreconditionFailed")])
def test_botocore_itself_never_repeats(status: int, code: str) -> None:
    """Each attempt is ours: a hidden retry would turn its own success into a lost race."""
    archive, wire = store(answer(status, code))
    with contextlib.suppress(OutcomeUnknown, StoreRefused):
        archive.put_if_absent("k", b"", {}, "t")
    assert len(wire.requests) == 1


@pytest.mark.parametrize(
    "error",
    [
        ReadTimeoutError(endpoint_url=URL),
        ConnectTimeoutError(endpoint_url=URL),
        EndpointConnectionError(endpoint_url=URL),
    ],
)
def test_a_broken_connection_leaves_the_outcome_open(error: Exception) -> None:
    """Time-outs and lost connections may have been applied."""

    def fail(_: AWSPreparedRequest) -> AWSResponse:
        raise error

    with pytest.raises(OutcomeUnknown):
        put(fail)


def test_an_answer_that_is_no_xml_leaves_the_outcome_open() -> None:
    """A proxy's page of its own says nothing about the object."""

    def page(request: AWSPreparedRequest) -> AWSResponse:
        return AWSResponse(request.url, 502, cast("Any", {}), Body(b"<html>bad gateway"))

    with pytest.raises(OutcomeUnknown):
        put(page)


def test_missing_credentials_are_configuration() -> None:
    """No retry mends them."""

    def fail(_: AWSPreparedRequest) -> AWSResponse:
        raise NoCredentialsError

    with pytest.raises(StoreRefused):
        put(fail)


def test_head_reads_metadata_in_lower_case() -> None:
    """Names come back as any proxy spells them."""
    headers = {
        "Content-Length": "4",
        "ETag": '"e"',
        "Last-Modified": "Sat, 21 Nov 2026 10:16:00 GMT",
        "x-amz-meta-Writer": "w",
    }
    found = store(answer(200, headers=headers))[0].head("k")
    assert found is not None
    assert (found.size, found.etag, found.metadata, found.last_modified_ms) == (
        4,
        '"e"',
        {"writer": "w"},
        1_795_256_160_000,
    )


def test_head_404_is_none() -> None:
    """There is no such object."""
    assert store(answer(404))[0].head("k") is None


@pytest.mark.parametrize("status", [400, 409, 500, 503])
def test_a_head_that_fails_in_passing_is_asked_again(status: int) -> None:
    """A HEAD has no body to name its code: a bare 400 may be an expired token."""
    with pytest.raises(OutcomeUnknown):
        store(answer(status))[0].head("k")


def test_head_403_is_configuration() -> None:
    """Without the right to read, a lost race cannot be told from a won one."""
    with pytest.raises(StoreRefused):
        store(answer(403))[0].head("k")


def _bare_403(get: Wire) -> Wire:
    """Return a wire that refuses a HEAD as S3 does, without a body, and answers a GET by another one."""
    return lambda request: (answer(403) if request.method == "HEAD" else get)(request)


@pytest.mark.parametrize("code", ["AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch"])
def test_the_code_of_a_head_403_is_that_of_a_get(code: str) -> None:
    """The error names it, as it would for any other request."""
    with pytest.raises(StoreRefused, match=rf"HEAD k: .* \(403 {code}"):
        store(_bare_403(answer(403, code)))[0].head("k")


def test_a_head_403_may_be_a_missing_right_to_list() -> None:
    """S3 then says nothing about a key that is not there: whoever reads the error is told."""
    with pytest.raises(StoreRefused) as caught:
        store(_bare_403(answer(403, "AccessDenied")))[0].head("k")
    assert "s3:ListBucket" in caught.value.next_step


@pytest.mark.parametrize(
    "get",
    [answer(403, "RequestTimeTooSkewed"), answer(503, "SlowDown"), answer(200), answer(404, "NoSuchKey")],
    ids=["skewed", "throttled", "answered", "absent"],
)
def test_a_head_403_that_passes_is_asked_again(get: Wire) -> None:
    """A request that waited until its time was up is no refusal, nor is one whose GET is not refused."""
    with pytest.raises(OutcomeUnknown):
        store(_bare_403(get))[0].head("k")


def test_get_404_of_a_key_is_none_and_of_a_bucket_is_not() -> None:
    """A missing bucket is configuration, never an empty archive."""
    assert store(answer(404, "NoSuchKey"))[0].get("k") is None
    with pytest.raises(StoreRefused, match="NoSuchBucket"):
        store(answer(404, "NoSuchBucket"))[0].get("k")


def test_a_list_of_a_missing_bucket_is_no_empty_list() -> None:
    """Else a shard would seem to have no stored ranges."""
    with pytest.raises(StoreRefused, match="NoSuchBucket"):
        list(store(answer(404, "NoSuchBucket"))[0].list_objects("p/"))
