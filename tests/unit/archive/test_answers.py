"""Answers that are none of the service's: they pass, with a line that says so, and never as an empty answer."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse

from archive.access import Access
from archive.aws import (
    DYNAMODB,
    KINESIS,
    Service,
    ask,
    client_config,
    make_dynamodb_client,
    make_kinesis_client,
    make_s3_client,
)
from archive.errors import MinutebookError, OutcomeUnknown, StreamUnavailable, TableUnavailable
from archive.retry import Backoff
from archive.store.s3 import S3Store
from tests.fakes.clock import ManualClock

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


class _Body:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self) -> list[bytes]:
        return [self._content]

    def read(self, _amount: int | None = None) -> bytes:
        content, self._content = self._content, b""
        return content

    def close(self) -> None:
        """Hold nothing."""


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")


def answered(client: Any, status: int, body: bytes) -> Any:  # noqa: ANN401 - boto3's types
    """Return the client behind a proxy that answers every request alike."""
    headers = {"content-length": str(len(body)), "content-type": "text/html"}
    client.meta.events.register("before-send", lambda **_: AWSResponse(ENDPOINT, status, headers, _Body(body)))
    return client


def asked(request: Callable[[], object], service: Service) -> MinutebookError:
    """Return what a request that keeps being answered like that ends in."""
    backoff = Backoff(ManualClock(), random.Random(1), budget_seconds=5)
    with pytest.raises(MinutebookError) as caught:
        ask(request, "asking", backoff, service)
    return caught.value


@pytest.mark.parametrize("status", [200, 503])
@pytest.mark.parametrize("body", OF_JSON)
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


def test_the_line_says_what_it_is() -> None:
    """Whoever reads it looks at the way, not at Minutebook."""
    client = answered(make_kinesis_client("us-east-1", ENDPOINT, Access(), client_config()), 200, b"[]")
    error = asked(lambda: client.describe_stream_summary(StreamName="s"), KINESIS)
    assert "(HTTP 200) is not of the service's shape" in str(error) or "IncompleteRead" in str(error)
