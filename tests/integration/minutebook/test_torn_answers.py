"""Answers that end too early, on a real connection: never an answer of their own, always "ask again".

Found by the chaos runs: Python's HTTP client takes the end of a connection for the end of the headers.
"""

import random
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import boto3
import pytest

from demo.embedded import ACCESS_KEY, REGION, SECRET_KEY
from minutebook.aws.access import PLAIN
from minutebook.aws.clients import DYNAMODB, ask, client_config, make_dynamodb_client, make_kinesis_client
from minutebook.errors import OutcomeUnknown, StoreError, StoreUnavailable, TableUnavailable
from minutebook.retry import Backoff
from minutebook.store.s3_storage import PART_BYTES, S3Storage
from tests.fakes.clock import ManualClock

_HEAD = (
    'HTTP/1.1 200 OK\r\nLast-Modified: Sat, 21 Nov 2026 10:16:00 GMT\r\nETag: "e"\r\n'
    "x-amz-meta-minutebook-format: 1\r\nx-amz-meta-last: 49680431:12"
)
_TORN_BODY = _HEAD + "\r\nx-amz-checksum-crc32: /KduCQ==\r\nContent-Length: 9\r\n\r\n1234"
_WRONG_BODY = _HEAD + "\r\nx-amz-checksum-crc32: /KduCQ==\r\nContent-Length: 4\r\n\r\n1234"
_JSON = "HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\n"
_SESSION = boto3.session.Session(ACCESS_KEY, SECRET_KEY, region_name=REGION)
Request = Callable[[S3Storage], object]

_OF_THE_NIGHT: dict[str, Request] = {
    "LIST": lambda storage: storage.list_level("p/"),
    "GET": lambda storage: list(storage.open_read("k", None).chunks),
    "GET tail": lambda storage: storage.read_tail("k", 10),
    "DELETE": lambda storage: storage.delete(["k"]),
}


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


@pytest.mark.parametrize("answer", ["HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nLast-Modified: Sa", _HEAD])
@pytest.mark.parametrize("request_", list(_OF_THE_NIGHT))
def test_a_torn_answer_to_the_night_is_not_believed(answer: str, request_: str) -> None:
    """Folders without a day, segments without a line, files without a footer, parts that S3 never named."""
    assert _raises_unknown(answer, _OF_THE_NIGHT[request_])


@pytest.mark.parametrize("whole", [0, 1, 2])
@pytest.mark.parametrize("answer", ["HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Type: application/x"])
def test_a_torn_answer_to_an_upload_is_not_believed(answer: str, whole: int) -> None:
    """Neither to its begin, nor to a part, nor to its end, which S3 answers with 200 before it is reached."""
    answers = [
        _whole("<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"),
        _whole(),
    ]

    def upload(storage: S3Storage) -> None:
        sink = storage.open_write("k", "a/b", lambda: Backoff(ManualClock(), random.Random(1), budget_seconds=0))
        try:
            sink.write(bytes(PART_BYTES))
            sink.close()
        finally:
            sink.abort()

    abort = "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
    assert _raises(StoreUnavailable, [*answers[:whole], answer, *([abort] if whole else [])], upload)


@pytest.mark.parametrize("answer", ["", "HTTP/1.1 2", "HTTP/1.1 41"])
def test_a_torn_status_decides_nothing(answer: str) -> None:
    """A PUT is committed, or lost, by a whole status line."""
    assert _raises_unknown(answer, lambda store: store.put_if_absent("k", b"1", {}, "a/b"))


@pytest.mark.parametrize(
    "answer", ["HTTP/1.1 200 OK\r\n", f"{_JSON}Content-Len", f"{_JSON}\r\n", f'{_JSON}\r\n{{"Ta']
)
@pytest.mark.parametrize("service", ["dynamodb", "kinesis"])
@pytest.mark.usefixtures("credentials")
def test_a_torn_document_is_not_an_empty_one(answer: str, service: str) -> None:
    """A table without a row, a shard without a record: botocore makes an empty answer of what it cannot read."""
    with _server(answer.encode()) as url:
        requests = {
            "dynamodb": lambda: make_dynamodb_client(REGION, url, PLAIN).describe_table(TableName="leases"),
            "kinesis": lambda: make_kinesis_client(REGION, url, PLAIN).list_shards(StreamName="flights"),
        }
        backoff = Backoff(ManualClock(), random.Random(1), budget_seconds=0)
        with pytest.raises(TableUnavailable):
            ask(requests[service], service, backoff, DYNAMODB)


def _raises_unknown(answer: str, request: Request) -> bool:
    return _raises(OutcomeUnknown, [answer], request)


def _raises(kind: type[StoreError], answers: Sequence[str], request: Request) -> bool:
    with _server(*(answer.encode() for answer in answers)) as url:
        client = _SESSION.client("s3", endpoint_url=url, config=client_config(path_style=True))
        with pytest.raises(kind):
            request(S3Storage(client, "archive"))
        client.close()
    return True


def _whole(body: str = "") -> str:
    return f'HTTP/1.1 200 OK\r\nETag: "e"\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}'


@contextmanager
def _server(*answers: bytes) -> Iterator[str]:
    """Give a connection each of these answers and close it."""

    def serve() -> None:
        for answer in answers:
            connection, _ = listener.accept()
            with connection:
                _take_request(connection)
                connection.sendall(answer)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65_536):
                    continue

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


def _take_request(connection: socket.socket) -> None:
    """Read a request whole, where it says how long it is; else its headers."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65_536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), b":0")
    if b"100-continue" in head.lower():
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    missing = int(length.partition(b":")[2]) - len(body)
    while missing > 0:
        missing -= len(connection.recv(65_536))
