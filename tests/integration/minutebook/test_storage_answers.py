"""Stores that refuse: each row of docs/how-to/storage-answers.md, answered by a server to the real client and store.

The servers say what S3, MinIO, Ceph, R2 and proxies are known to say; the rows come from reports of people who met
them.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from minutebook.aws.access import PLAIN
from minutebook.aws.clients import aws_session, make_s3_client
from minutebook.errors import OutcomeUnknown, StoreError, StoreRefused, StoreUnavailable
from minutebook.retry import backoff_within
from minutebook.store import refusals
from minutebook.store.refusals import ROWS, Row
from minutebook.store.retrying import RetryingStorage
from minutebook.store.s3_storage import S3Storage
from tests.fakes.lax_s3 import LaxBucket, Refusal, Request, serve
from tests.witness.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.usefixtures("credentials")
PAGE: Final = Path(__file__).resolve().parents[3] / "docs/how-to/storage-answers.md"
Send = Callable[[S3Storage], object]
MD5_OF_BODY: Final = "hBotaJrYa9FhFEdFPCLG/A=="
"""Of `body`, base64."""


def put(storage: S3Storage) -> object:
    """Commit a segment, as far as the store is concerned."""
    return storage.put_if_absent("a/k", b"body", {"writer": "w"}, "application/gzip")


def get(storage: S3Storage) -> object:
    """Read a segment."""
    return storage.get("a/k")


def _storage(endpoint: str, region: str = "us-east-1") -> S3Storage:
    return S3Storage(make_s3_client(region, endpoint, PLAIN), "archive")


def _failure(refuse: Callable[[Request], Refusal | None], send: Send = put) -> tuple[StoreError, LaxBucket]:
    bucket = LaxBucket(refuse=refuse)
    with serve(bucket) as endpoint, pytest.raises(StoreError) as caught:
        send(_storage(endpoint))
    return caught.value, bucket


def refuses_checksums(request: Request) -> Refusal | None:
    """Refuse a PUT with any of S3's newer checksum headers, as a store that is older than they are."""
    named = [name for name in request.headers if name.startswith(("x-amz-checksum-", "x-amz-sdk-checksum"))]
    if request.method == "PUT" and named:
        return Refusal(501, "NotImplemented", "A header is not implemented")
    return None


DENIED: Final = "User: arn:aws:iam::1:user/w is not authorized to perform: {} on resource: x {}"
ANSWERS: Final[list[tuple[Row, Refusal, Send, str]]] = [
    (
        refusals.NO_CONDITIONS,
        Refusal(501, "NotImplemented", "A header implies what is not implemented", "<Header>If-None-Match</Header>"),
        put,
        "If-None-Match",
    ),
    (
        refusals.NO_CONDITIONS,
        Refusal(400, "InvalidArgument", "Unsupported header if-none-match"),
        put,
        "if-none-match",
    ),
    (
        refusals.NO_CONDITIONS,
        Refusal(501, "NotImplemented", "", "<Header>If-Match</Header>"),
        lambda storage: storage.put_if_match("a/k", b"b", '"e"', "text/plain"),
        "If-Match",
    ),
    (
        refusals.NO_CHECKSUMS,
        Refusal(501, "NotImplemented", "Header 'x-amz-checksum-crc32' with value 'x' not implemented"),
        put,
        "x-amz-checksum-crc32",
    ),
    (
        refusals.NO_CHECKSUMS,
        Refusal(400, "InvalidArgument", "x-amz-sdk-checksum-algorithm is not supported"),
        lambda storage: storage.delete(["a/k"]),
        "x-amz-sdk-checksum-algorithm",
    ),
    (refusals.NO_CHECKSUMS, Refusal(501, "NotImplemented", "aws-chunked is not supported"), put, "aws-chunked"),
    (
        refusals.NO_CHECKSUM_MODE,
        Refusal(400, "InvalidArgument", "unknown header x-amz-checksum-mode"),
        get,
        "x-amz-checksum-mode",
    ),
    (refusals.NO_HEADER, Refusal(501, "NotImplemented", "", "<Header>x-amz-tagging</Header>"), put, "x-amz-tagging"),
    (refusals.UNNAMED_HEADER, Refusal(501, "NotImplemented", "not here"), put, "If-None-Match or the checksum"),
    (refusals.UNNAMED_HEADER, Refusal(400, "InvalidRequest", "bad"), put, "If-None-Match or the checksum"),
    (
        refusals.UNIMPLEMENTED,
        Refusal(501, body="<html>Not Implemented"),
        lambda storage: list(storage.list_objects("a/")),
        "",
    ),
    (
        refusals.ELSEWHERE,
        Refusal(301, "PermanentRedirect", "other end point", headers={"x-amz-bucket-region": "eu-central-1"}),
        put,
        "eu-central-1",
    ),
    (
        refusals.ELSEWHERE,
        Refusal(400, "AuthorizationHeaderMalformed", "expecting", "<Region>eu-west-3</Region>"),
        put,
        "eu-west-3",
    ),
    (refusals.REDIRECTED, Refusal(302, body="sign in", headers={"Location": "https://login.test/a"}), put, ""),
    (refusals.REDIRECTED, Refusal(301, body="use TLS", headers={"Location": "https://s3.test/archive/a/k"}), get, ""),
    (refusals.REDIRECTED, Refusal(307, headers={"Location": "https://evil.test/archive/a/k"}), put, ""),
    (refusals.SPREADING, Refusal(307, "TemporaryRedirect", "later"), put, ""),
    (
        refusals.ARCHIVED,
        Refusal(403, "InvalidObjectState", "not valid", "<StorageClass>GLACIER</StorageClass>"),
        get,
        "GLACIER",
    ),
    (refusals.DENIED, Refusal(403, "AccessDenied", "Access Denied"), put, ""),
    (refusals.DENIED, Refusal(403, body="<html>Forbidden"), put, ""),
    (
        refusals.DENIED_BY_POLICY,
        Refusal(
            403, "AccessDenied", DENIED.format("s3:PutObject", "with an explicit deny in a resource-based policy")
        ),
        put,
        "",
    ),
    (refusals.DENIED_KEY, Refusal(403, "AccessDenied", DENIED.format("kms:GenerateDataKey", "k")), put, ""),
    (refusals.DISABLED_KEY, Refusal(400, "KMS.DisabledException", "arn:aws:kms:x is disabled."), put, ""),
    (refusals.DISABLED_KEY, Refusal(400, "KMS.KMSInvalidStateException", "x is pending deletion."), get, ""),
    (refusals.NO_BUCKET, Refusal(404, "NoSuchBucket", "no"), put, ""),
    (refusals.NO_CLASS, Refusal(400, "InvalidStorageClass", "no"), put, ""),
    (refusals.TOO_LARGE, Refusal(400, "EntityTooLarge", "no"), put, ""),
    (refusals.TOO_LARGE, Refusal(413, body="<html>Request Entity Too Large"), put, ""),
    (refusals.FULL, Refusal(403, "QuotaExceeded", "no"), put, ""),
    (refusals.FULL, Refusal(507, "XMinioStorageFull", "no"), put, ""),
    (refusals.SUSPENDED, Refusal(403, "AllAccessDisabled", "no"), put, ""),
    (refusals.UNKNOWN_CREDENTIALS, Refusal(403, "InvalidAccessKeyId", "no"), put, ""),
    (refusals.UNKNOWN_CREDENTIALS, Refusal(400, "ExpiredToken", "no"), put, ""),
    (refusals.BAD_SIGNATURE, Refusal(403, "SignatureDoesNotMatch", "no"), put, ""),
    (refusals.WRONG_CLOCK, Refusal(403, "RequestTimeTooSkewed", "no"), put, ""),
    (refusals.DAMAGED, Refusal(400, "BadDigest", "no"), put, ""),
    (refusals.DAMAGED, Refusal(400, "XAmzContentSHA256Mismatch", "no"), put, ""),
    (refusals.BUSY, Refusal(503, "SlowDown", "Please reduce your request rate."), put, ""),
    (refusals.BUSY, Refusal(503, body="<html>Service Unavailable"), put, ""),
    (refusals.BUSY, Refusal(200, body="<Error><Code>InternalError</Code><Message>no</Message></Error>"), put, ""),
    (refusals.NOT_S3, Refusal(200), put, ""),
    (refusals.BUSY, Refusal(200, body="<html>Sign in"), lambda storage: list(storage.list_objects("a/")), ""),
    (refusals.NOT_S3, Refusal(405, body="<html>Method Not Allowed"), put, ""),
    (refusals.OTHER, Refusal(418, "Teapot", "no"), put, ""),
]
SENT_AGAIN: Final = frozenset({refusals.SPREADING, refusals.WRONG_CLOCK, refusals.DAMAGED, refusals.BUSY})


@pytest.mark.parametrize(
    ("row", "refusal", "send", "detail"),
    ANSWERS,
    ids=[
        f"{refusal.status}-{refusal.code}-{detail or number}"
        for number, (_, refusal, _, detail) in enumerate(ANSWERS)
    ],
)
def test_an_answer_is_explained_by_its_row(row: Row, refusal: Refusal, send: Send, detail: str) -> None:
    """The error says what the answer means and what to do, beside what the store said."""
    error, _ = _failure(lambda _request: refusal, send)
    assert row.means.format(detail=detail) in str(error)
    assert error.next_step == row.do
    assert refusal.message.rstrip(".") in str(error)
    if row in SENT_AGAIN:
        assert isinstance(error, OutcomeUnknown)


def test_every_row_is_answered() -> None:
    """A row that no server ever gave could say anything."""
    elsewhere = {refusals.NO_CREDENTIALS, refusals.UNTRUSTED, refusals.SILENT}
    assert {row for row, *_ in ANSWERS} | elsewhere == set(ROWS)


def test_the_page_says_what_the_code_says() -> None:
    """Row for row, in the same words."""
    cells = [
        [cell.strip() for cell in line.strip("| ").split(" | ")]
        for line in PAGE.read_text().splitlines()
        if line.startswith("| ") and not line.startswith("| answer")
    ]
    told = [[re.sub(r"`", "", cell) for cell in row] for row in cells]
    coded = [(row.answer, row.means.format(detail="..."), row.do) for row in ROWS]
    assert told == [[cell.replace("`", "") for cell in row] for row in coded]


def test_nobody_at_the_address(unused_endpoint: str) -> None:
    """The network is named, not the store's health."""
    with pytest.raises(OutcomeUnknown) as caught:
        put(_storage(unused_endpoint))
    assert refusals.SILENT.means in str(caught.value)
    assert caught.value.next_step == refusals.SILENT.do


def test_no_tls() -> None:
    """`https` before a server that speaks HTTP."""
    with serve(LaxBucket()) as endpoint, pytest.raises(OutcomeUnknown) as caught:
        put(_storage(endpoint.replace("http:", "https:")))
    assert refusals.UNTRUSTED.means in str(caught.value)
    assert caught.value.next_step == refusals.UNTRUSTED.do


@pytest.mark.parametrize(
    "send", [put, get, lambda storage: storage.head("a/k"), lambda storage: list(storage.list_objects("a/"))]
)
@pytest.mark.parametrize("status", [301, 302, 308])
def test_a_redirect_without_a_region_is_followed_by_nobody(send: Send, status: int) -> None:
    """One request: botocore would ask for the region, be redirected, and ask again, until the stack is full."""
    refusal = Refusal(status, headers={"Location": "https://proxy.test/"})
    error, bucket = _failure(lambda _request: refusal, send)
    assert isinstance(error, StoreRefused)
    assert len(bucket.requests) == 1


@pytest.fixture
def sent_on() -> Iterator[tuple[LaxBucket, str]]:
    """Return a bucket whose first answers send to the same server, with a token; and its end point."""
    bucket = LaxBucket()
    with serve(bucket) as endpoint:

        def refuse(request: Request) -> Refusal | None:
            there = f"{endpoint}{request.path}{'&' if '?' in request.path else '?'}rk=e2c6"
            return None if "rk=" in request.path else Refusal(307, "TemporaryRedirect", headers={"Location": there})

        bucket.refuse = refuse
        yield bucket, endpoint


def test_a_307_is_sent_again_to_the_address_it_names(sent_on: tuple[LaxBucket, str]) -> None:
    """The same bytes, metadata, condition and checksum, signed for the new address; a second PUT finds the first."""
    bucket, endpoint = sent_on
    storage = _storage(endpoint)
    assert [str(put(storage)), str(put(storage))] == ["PutOutcome.CREATED", "PutOutcome.EXISTS"]
    assert bucket.objects["a/k"][0] == b"body"
    first, again = bucket.requests[:2]
    same = {"if-none-match", "x-amz-checksum-crc32", "x-amz-meta-writer", "content-type", "x-amz-content-sha256"}
    assert {name: first.headers[name] for name in same} == {name: again.headers[name] for name in same}
    assert again.path == "/archive/a/k?rk=e2c6"
    assert first.headers["authorization"] != again.headers["authorization"]


def test_reads_follow_a_307_too(sent_on: tuple[LaxBucket, str]) -> None:
    """HEAD, GET and LIST, with their query."""
    bucket, endpoint = sent_on
    storage = _storage(endpoint)
    put(storage)
    head, stored = storage.head("a/k"), storage.get("a/k")
    assert head is not None
    assert stored is not None
    assert (head.metadata["writer"], stored.body) == ("w", b"body")
    assert [row.key for row in storage.list_objects("a/")] == ["a/k"]
    assert "prefix=a%2F" in bucket.requests[-1].path


@pytest.mark.parametrize(
    "authority",
    [
        "evil.test\\.{host}",
        "evil.test%2f.{host}",
        "evil.test%5c.{host}",
        "me@{host}",
        "{host}@evil.test",
        "{host}\\@evil.test",
        "evil.{host}",
        "",
    ],
)
def test_a_307_to_a_host_that_only_looks_like_the_store_is_refused(authority: str) -> None:
    """Whoever connects must read the same host as whoever checks; else a stranger's 200 would count as stored."""
    bucket = LaxBucket()
    with serve(bucket) as endpoint:
        location = f"http://{authority.format(host=endpoint.removeprefix('http://'))}/archive/a/k"
        bucket.refuse = lambda _request: Refusal(307, headers={"Location": location})
        with pytest.raises(StoreRefused) as caught:
            put(_storage(endpoint))
    assert caught.value.next_step == refusals.REDIRECTED.do
    assert len(bucket.requests) == 1


def test_a_307_to_another_port_is_refused() -> None:
    """At an address of the settings only that one is the store."""
    bucket, other = LaxBucket(), LaxBucket()
    with serve(bucket) as endpoint, serve(other) as there:
        bucket.refuse = lambda request: Refusal(307, headers={"Location": f"{there}{request.path}"})
        with pytest.raises(StoreRefused):
            put(_storage(endpoint))
    assert other.requests == []


def test_a_bucket_named_like_a_label_of_the_host_is_no_part_of_it() -> None:
    """The address has the bucket in its path, so the host is the store's as a whole, and the path's rest the key."""
    bucket = LaxBucket()
    with serve(bucket) as endpoint:
        location = f"{endpoint.replace('127.0.0.1', '0.0.1')}/127/127/a/k"
        bucket.refuse = lambda _request: Refusal(307, headers={"Location": location})
        with pytest.raises(StoreRefused):
            put(S3Storage(make_s3_client("us-east-1", endpoint, PLAIN), "127"))
    assert len(bucket.requests) == 1


@pytest.mark.parametrize(
    ("host", "is_followed"),
    [
        ("s3.eu-west-1.amazonaws.com", True),
        ("s3-eu-west-1.amazonaws.com", True),
        ("s3-gztb4pa9sq.amazonaws.com", True),
        ("s3-external-1.amazonaws.com", True),
        ("s3.dualstack.eu-west-1.amazonaws.com", True),
        ("s3-fips.us-gov-west-1.amazonaws.com", True),
        ("s3-x-123.us-east-1.elb.amazonaws.com", False),
        ("s3.us-east-1.elb.amazonaws.com", False),
        ("s3-website-us-east-1.amazonaws.com", False),
        ("s3-website.eu-central-1.amazonaws.com", False),
        ("s3-accesspoint.eu-west-1.amazonaws.com", False),
        ("s3.eu-west-1.amazonaws.com:8000", False),
        ("other.s3.eu-west-1.amazonaws.com", False),
    ],
)
@pytest.mark.parametrize("is_in_host", [False, True])
def test_of_aws_only_the_end_points_of_s3_are_followed(
    monkeypatch: pytest.MonkeyPatch, host: str, *, is_followed: bool, is_in_host: bool
) -> None:
    """Anybody may have a load balancer or a web site below amazonaws.com. The requests go by way of a proxy."""
    where = f"archive.{host}/a/k" if is_in_host else f"{host}/archive/a/k"
    answers = [Refusal(307, headers={"Location": f"http://{where}"}), Refusal(200, headers={"ETag": '"e"'})]
    bucket = LaxBucket(refuse=lambda _request: answers.pop(0))
    with serve(bucket) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        storage = _storage("http://s3.us-east-1.amazonaws.com")
        if is_followed:
            put(storage)
        else:
            with pytest.raises(StoreRefused):
                put(storage)
    assert [request.path for request in bucket.requests][1:] == [f"http://{where}"] * is_followed


def test_a_307_in_a_circle_ends() -> None:
    """After three addresses the outcome is unknown, and the store's retries decide."""
    bucket = LaxBucket()
    with serve(bucket) as endpoint:
        bucket.refuse = lambda request: Refusal(
            307, "TemporaryRedirect", headers={"Location": f"{endpoint}{request.path}"}
        )
        with pytest.raises(OutcomeUnknown) as caught:
            put(_storage(endpoint))
    assert len(bucket.requests) == 4
    assert caught.value.next_step == refusals.SPREADING.do


def write(storage: S3Storage) -> object:
    """Write a small file, as publishing does, with one attempt."""
    with RetryingStorage(storage, backoff_within(0)).writing("a/k", "text/plain") as sink:
        return sink.write(b"body")


REQUESTS: Final[dict[str, Send]] = {
    "PUT": put,
    "PUT if match": lambda storage: storage.put_if_match("a/k", b"body", '"e"', "text/plain"),
    "PUT if absent": lambda storage: storage.put_if_match("a/k", b"body", None, "text/plain"),
    "PUT of a file": write,
    "DELETE": lambda storage: storage.delete(["a/k"]),
    "HEAD": lambda storage: storage.head("a/k"),
    "GET": get,
    "GET if match": lambda storage: list(storage.open_read("a/k", '"e"').chunks),
    "GET tail": lambda storage: storage.read_tail("a/k", 5),
    "LIST": lambda storage: list(storage.list_objects("a/")),
    "LIST level": lambda storage: storage.list_level("a/"),
    "LIST uploads": lambda storage: storage.open_uploads("a/"),
    "time": lambda storage: storage.now_ms("a/"),
}


@pytest.mark.parametrize("body", ["", "<html><body>Sign in</body></html>"])
@pytest.mark.parametrize("request_", list(REQUESTS))
def test_a_proxys_page_is_no_answer_of_the_store(request_: str, body: str) -> None:
    """Neither that an object is written, replaced or deleted, nor what is in it, nor what is there."""
    error, _ = _failure(
        lambda _request: Refusal(200, body=body, headers={"Content-Type": "text/html"}), REQUESTS[request_]
    )
    assert isinstance(error, OutcomeUnknown | StoreUnavailable)
    assert refusals.NOT_S3.means in str(error)
    assert refusals.NOT_S3.do in error.next_step


CONTENTS: Final = (
    "<Contents><Key>a/1</Key><Size>1</Size><ETag>e</ETag><LastModified>2026-11-21T10:16:00Z</LastModified></Contents>"
)


@pytest.mark.parametrize("request_", ["LIST", "LIST level", "LIST uploads"])
@pytest.mark.parametrize("old", ["", "<NextMarker>a/1</NextMarker>", "<NextContinuationToken/>"])
def test_a_list_that_ends_in_the_middle_is_refused(request_: str, old: str) -> None:
    """A store that takes ListObjectsV2 for the first version: what follows the page would count as missing."""
    page = f"<ListBucketResult><IsTruncated>true</IsTruncated>{CONTENTS}{old}</ListBucketResult>"
    error, bucket = _failure(lambda _request: Refusal(200, body=page), REQUESTS[request_])
    assert isinstance(error, StoreRefused)
    assert refusals.UNIMPLEMENTED.means in str(error)
    assert error.next_step == refusals.UNIMPLEMENTED.do
    assert len(bucket.requests) == 1


def test_an_empty_etag_is_none() -> None:
    """As of a header that was cut off behind its name."""
    error, _ = _failure(lambda _request: Refusal(200, headers={"ETag": ""}))
    assert isinstance(error, OutcomeUnknown)


def test_a_request_that_met_a_proxys_page_is_sent_again() -> None:
    """A small file is there, and what was deleted is gone, once the page does not come any more."""
    bucket = LaxBucket()
    pages: list[Refusal] = []
    bucket.refuse = lambda _request: pages.pop() if pages else None
    with serve(bucket) as endpoint:
        storage = RetryingStorage(_storage(endpoint), backoff_within(PATIENCE_SECONDS))
        pages += [Refusal(200, body="<html/>")]
        with storage.writing("a/k", "text/plain") as sink:
            sink.write(b"body")
        assert bucket.objects["a/k"][0] == b"body"
        pages += [Refusal(200, body="<html/>")]
        storage.delete(["a/k", "a/other"])
    assert not bucket.objects


@pytest.mark.parametrize(
    "send",
    [
        put,
        lambda storage: storage.delete(["a/k"]),
        lambda storage: storage.put_if_match("a/k", b"body", None, "text/plain"),
    ],
)
def test_checksums_are_left_out_as_the_environment_asks(monkeypatch: pytest.MonkeyPatch, send: Send) -> None:
    """Content-MD5 takes their place in every write, so that the store still compares what arrives."""
    monkeypatch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
    bucket = LaxBucket(refuse=refuses_checksums)
    with serve(bucket) as endpoint:
        send(_storage(endpoint))
    (sent,) = bucket.requests
    assert not [name for name in sent.headers if "checksum" in name or "trailer" in name]
    assert "content-md5" in sent.headers
    if sent.method == "PUT":
        assert sent.headers["content-md5"] == MD5_OF_BODY


def test_a_file_in_parts_goes_without_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part carries Content-MD5."""
    monkeypatch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
    bucket = LaxBucket(refuse=refuses_checksums)
    with serve(bucket) as endpoint:
        client = make_s3_client("us-east-1", endpoint, PLAIN)
        client.upload_part(Bucket="archive", Key="big", UploadId="u", PartNumber=1, Body=b"body")
    assert bucket.requests[0].headers["content-md5"] == MD5_OF_BODY


def test_a_store_that_does_not_name_the_checksum() -> None:
    """Both headers are named that it may mean, and what tells them apart."""
    error, _ = _failure(refuses_checksums)
    assert error.exit_code == 2
    assert "If-None-Match or the checksum" in str(error)
    assert "minutebook doctor" in error.next_step


def test_the_aws_configuration_file_is_heard_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As every SDK reads it."""
    file = tmp_path / "config"
    file.write_text("[default]\nrequest_checksum_calculation = when_required\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(file))
    bucket = LaxBucket(refuse=refuses_checksums)
    aws_session.cache_clear()
    try:
        with serve(bucket) as endpoint:
            put(_storage(endpoint))
    finally:
        aws_session.cache_clear()
    assert bucket.requests[0].headers["content-md5"] == MD5_OF_BODY
