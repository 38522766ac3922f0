"""Answers that are none of the service's pass with a line that says so; a region that is none is refused."""

import random
import socket
from collections.abc import Callable
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse

from minutebook.aws.access import Access
from minutebook.aws.clients import (
    DYNAMODB,
    KINESIS,
    Service,
    ask,
    check_region,
    client_config,
    make_dynamodb_client,
    make_kinesis_client,
    make_s3_client,
)
from minutebook.errors import MinutebookError, OutcomeUnknown, SettingsError, StreamUnavailable, TableUnavailable
from minutebook.retry import Backoff
from minutebook.store.s3 import S3Store
from minutebook.store.s3_storage import S3Storage
from tests.fakes.answering import Body
from tests.fakes.clock import ManualClock

pytestmark = pytest.mark.usefixtures("credentials")
ENDPOINT = "http://127.0.0.1:1"
PAGE = b"<html><body>Sign in</body></html>"
DEEP = b'{"a":' + b"[" * 9999 + b"]" * 9999 + b"}"
OF_JSON = [
    DEEP,
    b"[]",
    b"[{}]",
    b"null",
    b'"in"',
    b"7",
    PAGE,
    b"\xff\xfe",
    b'{"Table": [], "StreamDescriptionSummary": 7}',
]


def answered(client: Any, status: int, body: bytes) -> Any:  # noqa: ANN401 - boto3's types
    """Return the client behind a proxy that answers every request alike."""
    headers = {"content-length": str(len(body)), "content-type": "text/html"}
    client.meta.events.register("before-send", lambda **_: AWSResponse(ENDPOINT, status, headers, Body(body)))
    return client


def asked(request: Callable[[], object], service: Service) -> MinutebookError:
    """Return what a request that keeps being answered like that ends in."""
    backoff = Backoff(ManualClock(), random.Random(1), budget_seconds=5)
    with pytest.raises(MinutebookError) as caught:
        ask(request, "asking", backoff, service)
    return caught.value


@pytest.mark.parametrize("status", [200, 503])
@pytest.mark.parametrize("body", [*OF_JSON, b"{}"])
def test_kinesis(status: int, body: bytes) -> None:
    """Asked again until the time is over; then the stream is unavailable, and no defect."""
    client = answered(make_kinesis_client("us-east-1", ENDPOINT, Access(), client_config()), status, body)
    error = asked(lambda: client.describe_stream_summary(StreamName="s"), KINESIS)
    assert isinstance(error, StreamUnavailable)


@pytest.mark.parametrize("status", [200, 503])
@pytest.mark.parametrize("body", OF_JSON)
def test_dynamodb(status: int, body: bytes) -> None:
    """As Kinesis."""
    client = answered(make_dynamodb_client("us-east-1", ENDPOINT, Access()), status, body)
    error = asked(lambda: client.describe_table(TableName="t"), DYNAMODB)
    assert isinstance(error, TableUnavailable)


@pytest.mark.parametrize("status", [200, 503])
@pytest.mark.parametrize("body", [b"[]", b"null", PAGE, b"<html>", b"\xff\xfe", b""])
@pytest.mark.parametrize("method", ["put", "head", "get", "list"])
def test_s3(method: str, status: int, body: bytes) -> None:
    """The outcome is unknown; a PUT above all is not taken for stored: a checkpoint would follow."""
    store = S3Store(answered(make_s3_client("us-east-1", ENDPOINT, Access()), status, body), "bucket")
    requests: dict[str, Callable[[], object]] = {
        "put": lambda: store.put_if_absent("k", b"body", {}, "text/plain"),
        "head": lambda: store.head("k"),
        "get": lambda: store.get("k"),
        "list": lambda: list(store.list_objects("p/")),
    }
    with pytest.raises(OutcomeUnknown):
        requests[method]()


def listing(row: str, name: str = "Contents") -> bytes:
    """Return the answer to a LIST with a whole row and another one."""
    whole = (
        "<Key>p/a</Key><Prefix>p/a/</Prefix><UploadId>u</UploadId><Size>1</Size><ETag>e</ETag>"
        "<LastModified>2026-11-21T10:16:00Z</LastModified><Initiated>2026-11-21T10:16:00Z</Initiated>"
    )
    rows = "".join(f"<{name}>{one}</{name}>" for one in (whole, row))
    return (
        '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name>'
        f"<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>"
    ).encode()


@pytest.mark.parametrize("missing", ["Key", "Size", "ETag", "LastModified"])
@pytest.mark.parametrize("method", ["list_objects", "list_level"])
def test_a_row_that_lacks_a_field_is_asked_for_again(method: str, missing: str) -> None:
    """Nothing of the page is believed, and the line names bucket, prefix and field: it is no KeyError."""
    fields = {"Key": "p/b", "Size": "1", "ETag": "e", "LastModified": "2026-11-21T10:16:00Z"}
    row = "".join(f"<{name}>{value}</{name}>" for name, value in fields.items() if name != missing)
    storage = S3Storage(answered(make_s3_client("us-east-1", ENDPOINT, Access()), 200, listing(row)), "bucket")
    with pytest.raises(OutcomeUnknown) as caught:
        list(getattr(storage, method)("p/"))
    assert str(caught.value).startswith("LIST s3://bucket/p/: ")
    assert "MisshapenAnswerError: the answer (HTTP 200)" in str(caught.value)
    assert f"a row of its Contents has no {missing}" in str(caught.value)


def test_folders_and_uploads_have_fields_of_their_own() -> None:
    """What a folder is called, and which upload a piece belongs to."""
    folders = listing("<Key>p/b</Key>", "CommonPrefixes")
    storage = S3Storage(answered(make_s3_client("us-east-1", ENDPOINT, Access()), 200, folders), "bucket")
    with pytest.raises(OutcomeUnknown, match="a row of its CommonPrefixes has no Prefix"):
        storage.list_level("p/")
    uploads = listing("<Key>p/b</Key>", "Upload").replace(b"ListBucketResult", b"ListMultipartUploadsResult")
    storage = S3Storage(answered(make_s3_client("us-east-1", ENDPOINT, Access()), 200, uploads), "bucket")
    with pytest.raises(OutcomeUnknown, match=r"bucket/p/.* a row of its Uploads has no UploadId"):
        storage.open_uploads("p/")


def test_the_line_says_what_it_is() -> None:
    """Whoever reads it looks at the way, not at Minutebook."""
    client = answered(make_kinesis_client("us-east-1", ENDPOINT, Access(), client_config()), 200, b"[]")
    error = asked(lambda: client.describe_stream_summary(StreamName="s"), KINESIS)
    assert "(HTTP 200) is not of the service's shape" in str(error) or "IncompleteRead" in str(error)


def _no_name(address: str, port: int) -> object:
    raise socket.gaierror(socket.EAI_NONAME, f"{address}:{port}")


@pytest.mark.parametrize("region", ["us-east-1", "cn-north-1", "us-gov-west-1"])
def test_known_regions_ask_nobody(region: str) -> None:
    """Regions of every partition that botocore knows."""
    check_region(region, _no_name)


def test_a_region_that_botocore_does_not_know_yet() -> None:
    """Its address has a name, and that is enough."""
    asked: list[tuple[str, int]] = []
    check_region("xy-newest-1", lambda address, port: asked.append((address, port)))

    assert asked == [("kinesis.xy-newest-1.amazonaws.com", 443)]


def test_a_typing_error() -> None:
    """One line, with what was perhaps meant."""
    with pytest.raises(SettingsError) as caught:
        check_region("us-esat-1", _no_name)

    assert str(caught.value).startswith(
        "there is no AWS region us-esat-1: kinesis.us-esat-1.amazonaws.com is not known"
    )
    assert "us-east-1" in str(caught.value)
    assert "regionName" in caught.value.next_step
