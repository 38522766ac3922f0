"""A small S3 and Kinesis on loopback, without TLS: they answer as an empty bucket and a quiet stream, at once."""

import json
import socket
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

_SHARD: Final = "shardId-000000000000"
_BEGAN_SECONDS: Final = 1_767_225_600
"""The stream is as old as 2026, and trims nothing for a century."""
_KINESIS: Final[Mapping[str, Any]] = {
    "DescribeStreamSummary": {
        "StreamDescriptionSummary": {
            "StreamARN": "arn:aws:kinesis:us-east-1:000000000000:stream/bench",
            "StreamName": "bench",
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
    "GetShardIterator": {"ShardIterator": "bench"},
    "GetRecords": {"Records": [], "MillisBehindLatest": 0, "NextShardIterator": "bench"},
}
_LISTING: Final = b"""<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>bench</Name><KeyCount>0</KeyCount>
<MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated></ListBucketResult>"""
_ABSENT: Final = b"""<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>NoSuchKey</Code><Message>none</Message></Error>"""


class _Object(NamedTuple):
    body: bytes
    metadata: dict[str, str]


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
        self._say(200, b"", {"ETag": '"bench"'})

    def do_GET(self) -> None:
        """Return an object, or a listing of none."""
        parts = urlsplit(self.path)
        found = self._stored.get(parts.path)
        if "list-type" in parse_qs(parts.query):
            self._say(200, _LISTING)
        elif found is None:
            self._say(404, _ABSENT)
        else:
            self._say(200, found.body, {"ETag": '"bench"', **found.metadata})

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
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _say(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        more = {"Last-Modified": self.date_time_string(), "Content-Length": str(len(body)), **(headers or {})}
        for name, text in more.items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def serve(listener: socket.socket, answers: type[Answers]) -> None:
    """Answer until the process is ended."""
    server = ThreadingHTTPServer(listener.getsockname(), answers, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    server.serve_forever()
