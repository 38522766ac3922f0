"""Answers that end too early, on a real connection: never an answer of their own, always "ask again".

Found by the chaos runs: Python's HTTP client takes the end of a connection for the end of the headers.
"""

import random
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import boto3
import pytest

from archive.access import PLAIN
from archive.aws import DYNAMODB, ask, client_config, make_dynamodb_client, make_kinesis_client
from archive.errors import OutcomeUnknown, TableUnavailable
from archive.retry import Backoff
from archive.store.s3 import S3Store
from demo.embedded import ACCESS_KEY, REGION, SECRET_KEY
from tests.fakes.clock import ManualClock

_HEAD = (
    'HTTP/1.1 200 OK\r\nLast-Modified: Sat, 21 Nov 2026 10:16:00 GMT\r\nETag: "e"\r\n'
    "x-amz-meta-minutebook-format: 1\r\nx-amz-meta-last: 49680431:12"
)
_TORN_BODY = _HEAD + "\r\nx-amz-checksum-crc32: /KduCQ==\r\nContent-Length: 9\r\n\r\n1234"
_WRONG_BODY = _HEAD + "\r\nx-amz-checksum-crc32: /KduCQ==\r\nContent-Length: 4\r\n\r\n1234"
_JSON = "HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\n"
Request = Callable[[S3Store], object]


@pytest.mark.parametrize("answer", ["HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Ty", "HTTP/1.1 20"])
def test_a_torn_list_is_not_an_empty_one(answer: str) -> None:
    """Else a processor would archive again what is archived already."""
    assert _raises_unknown(answer, lambda store: list(store.list_objects("p/")))


@pytest.mark.parametrize("answer", [_HEAD, "HTTP/1.1 200 OK\r\nLast-Modified: Sa", "HTTP/1.1 200 OK\r\n"])
def test_a_torn_head_is_not_believed(answer: str) -> None:
    """Its metadata may be cut in the middle of a position."""
    assert _raises_unknown(answer, lambda store: store.head("k"))


@pytest.mark.parametrize("answer", [_HEAD, _TORN_BODY, _WRONG_BODY])
def test_a_torn_object_is_not_believed(answer: str) -> None:
    """Neither an empty body, nor a short one, nor one that its checksum does not fit."""
    assert _raises_unknown(answer, lambda store: store.get("k"))


@pytest.mark.parametrize("answer", ["", "HTTP/1.1 2", "HTTP/1.1 41"])
def test_a_torn_status_decides_nothing(answer: str) -> None:
    """A PUT is committed, or lost, by a whole status line."""
    assert _raises_unknown(answer, lambda store: store.put_if_absent("k", b"1", {}, "a/b"))


@pytest.mark.parametrize(
    "answer", ["HTTP/1.1 200 OK\r\n", f"{_JSON}Content-Len", f"{_JSON}\r\n", f'{_JSON}\r\n{{"Ta']
)
@pytest.mark.parametrize("service", ["dynamodb", "kinesis"])
def test_a_torn_document_is_not_an_empty_one(answer: str, service: str) -> None:
    """A table without a row, a shard without a record: botocore makes an empty answer of what it cannot read."""
    with _server(answer.encode()) as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
        requests = {
            "dynamodb": lambda: make_dynamodb_client(REGION, url, PLAIN).describe_table(TableName="leases"),
            "kinesis": lambda: make_kinesis_client(REGION, url, PLAIN).list_shards(StreamName="flights"),
        }
        backoff = Backoff(ManualClock(), random.Random(1), budget_seconds=0)
        with pytest.raises(TableUnavailable):
            ask(requests[service], service, backoff, DYNAMODB)


def _raises_unknown(answer: str, request: Request) -> bool:
    with _server(answer.encode()) as url:
        session = boto3.session.Session(ACCESS_KEY, SECRET_KEY, region_name=REGION)
        client = session.client("s3", endpoint_url=url, config=client_config(path_style=True))
        with pytest.raises(OutcomeUnknown):
            request(S3Store(client, "archive"))
        client.close()
    return True


@contextmanager
def _server(answer: bytes) -> Iterator[str]:
    """Give one connection this answer and close it."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(answer)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65_536):
                continue

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()
