"""The server behind the proxy: whole answers of it, and the words in which its service tells an error."""

from collections.abc import Mapping
from http.client import HTTPConnection
from typing import Final, NamedTuple

UPSTREAM_SECONDS: Final = 30
HOP_BY_HOP: Final = frozenset({"connection", "keep-alive", "transfer-encoding", "expect", "proxy-connection"})


class Answer(NamedTuple):
    """A whole answer. `length` is what the header says: the answer to HEAD has a length and no body."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    length: int


class Dialect(NamedTuple):
    """How a service words an error: the content type, and code and body by status."""

    content_type: str
    bodies: Mapping[int, str]


_XML = '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{0}</Code><Message>injected</Message></Error>'
_JSON = '{{"__type":"com.amazonaws.dynamodb.v20120810#{0}","message":"injected"}}'
S3: Final = Dialect(
    "application/xml",
    {
        409: _XML.format("ConditionalRequestConflict"),
        500: _XML.format("InternalError"),
        503: _XML.format("SlowDown"),
    },
)
DYNAMODB: Final = Dialect(
    "application/x-amz-json-1.0",
    {500: _JSON.format("InternalServerError"), 503: _JSON.format("ServiceUnavailable")},
)


def ask(server: str, method: str, target: str, headers: list[tuple[str, str]], body: bytes) -> Answer:
    """Send one request on a connection of its own."""
    connection = HTTPConnection(server, timeout=UPSTREAM_SECONDS)
    try:
        connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        for name, value in headers:
            if name.lower() != "content-length":
                connection.putheader(name, value)
        if body or method in {"PUT", "POST"}:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body or None)
        answer = connection.getresponse()
        content = answer.read()
        kept = [(name, value) for name, value in answer.getheaders() if name.lower() not in HOP_BY_HOP]
        kept = [(name, value) for name, value in kept if name.lower() != "content-length"]
        length = int(answer.getheader("Content-Length") or 0) if method == "HEAD" else len(content)
        return Answer(answer.status, kept, content, length)
    finally:
        connection.close()
