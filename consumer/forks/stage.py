"""A small S3 and Kinesis for the rehearsal: a server on loopback that answers as an empty bucket and a quiet stream.

It lives in a process of its own for as long as the rehearsal; nothing else ever talks to it.
"""

import io
import json
import socket
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

_SHARD: Final = "shardId-000000000000"
_BEGAN_SECONDS: Final = 1_767_225_600
"""The stream is as old as 2026, and trims nothing for a century."""
_KINESIS: Final[Mapping[str, Any]] = {
    "DescribeStreamSummary": {
        "StreamDescriptionSummary": {
            "StreamARN": "arn:aws:kinesis:us-east-1:000000000000:stream/rehearsal",
            "StreamName": "rehearsal",
            "StreamStatus": "ACTIVE",
            "RetentionPeriodHours": 876_000,
            "StreamCreationTimestamp": _BEGAN_SECONDS,
            "EnhancedMonitoring": [],
            "OpenShardCount": 1,
        }
    },
    "ListShards": {
        "Shards": [
            {
                "ShardId": _SHARD,
                "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": str(2**128 - 1)},
                "SequenceNumberRange": {"StartingSequenceNumber": "1"},
            }
        ]
    },
    "GetShardIterator": {"ShardIterator": "rehearsal"},
    "GetRecords": {"Records": [], "MillisBehindLatest": 0, "NextShardIterator": "rehearsal"},
}
_LISTING: Final = b"""<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>rehearsal</Name><KeyCount>0</KeyCount>
<MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated></ListBucketResult>"""
_ABSENT: Final = b"""<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>NoSuchKey</Code><Message>none</Message></Error>"""


class _Object(NamedTuple):
    body: bytes
    metadata: dict[str, str]


def _chunks(source: io.BufferedIOBase) -> Iterator[bytes]:
    """Yield the chunks of a body (RFC 9112, 7.1), and read over the lines behind them."""
    while size := int(source.readline().split(b";")[0] or b"0", 16):
        yield source.read(size)
        source.readline()
    while source.readline().strip():
        pass


class Answers(BaseHTTPRequestHandler):
    """Answers one connection; `kinesis` are the answers of a stream, by operation."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: in two, each answer would wait for TCP's delayed acknowledgement
    kinesis: ClassVar[Mapping[str, Any]] = _KINESIS
    _stored: Final[dict[str, _Object]] = {}

    def do_PUT(self) -> None:
        """Store an object."""
        metadata = {name: text for name, text in self.headers.items() if name.lower().startswith("x-amz-meta-")}
        self._stored[urlsplit(self.path).path] = _Object(self._body(), metadata)
        self._say(200, b"", {"ETag": '"rehearsal"'})

    def do_GET(self) -> None:
        """Return an object, or a listing of none."""
        parts = urlsplit(self.path)
        found = self._stored.get(parts.path)
        if "list-type" in parse_qs(parts.query):
            self._say(200, _LISTING)
        elif found is None:
            self._say(404, _ABSENT)
        else:
            self._say(200, found.body, {"ETag": '"rehearsal"', **found.metadata})

    def do_HEAD(self) -> None:
        """Return an object's head."""
        self.do_GET()

    def do_POST(self) -> None:
        """Answer as Kinesis does."""
        self._body()
        operation = self.headers.get("X-Amz-Target", "").rpartition(".")[2]
        self._say(200, json.dumps(self.kinesis.get(operation, {})).encode())

    def handle_expect_100(self) -> bool:
        """Ask for the body at once."""
        asked = super().handle_expect_100()
        self.wfile.flush()
        return asked

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _body(self) -> bytes:
        """Read a request's body; over TLS botocore sends it in chunks, with the checksum behind it."""
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b"".join(_chunks(self.rfile))
        is_double = "aws-chunked" in self.headers.get("Content-Encoding", "")
        return b"".join(_chunks(io.BytesIO(body))) if is_double else body

    def _say(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        more = {"Last-Modified": self.date_time_string(), "Content-Length": str(len(body)), **(headers or {})}
        for name, text in more.items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def play(listener: socket.socket, answers: type[Answers] = Answers) -> None:
    """Answer until the process is ended."""
    server = ThreadingHTTPServer(listener.getsockname(), answers, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    server.serve_forever()
