"""An S3 server in memory, on loopback, that knows conditions, and fails at one write on either side of it.

Real clients ask it, those of tasks included: what S3 says, by status, code or a cut connection, is judged by the
product's own code.
"""

import enum
import hashlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar, Final, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from tests.fakes.answering import answer
from tests.searching import IS_DEEP

_ERROR = '<?xml version="1.0"?><Error><Code>{0}</Code><Message>{0}</Message>{1}</Error>'
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class WriteFault(enum.Enum):
    """What happens to a write: (status, code, is it applied?). Status 0: the connection is cut."""

    SLOW_DOWN = (503, "SlowDown", False)
    CONFLICT = (409, "ConditionalRequestConflict", False)
    TOKEN_EXPIRED = (400, "ExpiredToken", False)
    CUT_AFTER = (0, "", True)
    TIMED_OUT_AFTER = (400, "RequestTimeout", True)
    DENIED = (403, "AccessDenied", False)


IS_FINAL: Final = frozenset({WriteFault.DENIED})
"""What no client may try again."""
CHOSEN: Final = (WriteFault.SLOW_DOWN, WriteFault.CUT_AFTER, WriteFault.DENIED)
"""One that passes, one whose outcome is unknown, one that is final: what the tests take time for by default."""


def faults_of(number: int) -> tuple[WriteFault, ...]:
    """Return what a write meets: one fault, in turn; all of them when searching deep."""
    found = tuple(WriteFault)
    return found if IS_DEEP else (found[number % len(found)],)


class Stored(NamedTuple):
    """An object."""

    body: bytes
    metadata: dict[str, str]
    content_type: str

    @property
    def etag(self) -> str:
        """Return its tag, as S3 gives it to what was put whole."""
        return f'"{hashlib.md5(self.body, usedforsecurity=False).hexdigest()}"'


Choice = Callable[[int], WriteFault | None]


@dataclass
class FailingS3:
    """The bucket `bucket`. `choose` is asked at each write below `counted` what it meets, by its number, from 1.

    `archived`: keys of objects in GLACIER, which only HEAD and LIST show.
    """

    endpoint: str = ""
    objects: dict[str, Stored] = field(default_factory=dict)
    counted: str = ""
    choose: Choice = lambda _number: None
    written: list[str] = field(default_factory=list)
    failed: list[tuple[str, WriteFault]] = field(default_factory=list)
    archived: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fail(self, choose: Choice) -> None:
        """Choose what writes meet from now on; they are counted anew."""
        self.choose, self.written, self.failed = choose, [], []

    def fail_at(self, number: int, fault: WriteFault) -> None:
        """Let one write fail, once."""
        self.fail(lambda found: fault if found == number else None)

    def heal(self) -> None:
        """Let nothing fail."""
        self.fail(lambda _number: None)

    def meets(self, key: str) -> WriteFault | None:
        """Return what a write meets; called with the lock held."""
        if not key.startswith(self.counted):
            return None
        self.written.append(key)
        fault = self.choose(len(self.written))
        if fault is not None:
            self.failed.append((key, fault))
        return fault


class _Handler(BaseHTTPRequestHandler):
    bucket: ClassVar[FailingS3]
    protocol_version = "HTTP/1.1"
    _answer = answer
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        if "list-type" in query:
            return self._list(query["prefix"][0], query.get("delimiter", [""])[0])
        stored = self.bucket.objects.get(self._key())
        if stored is None:
            return self._refuse(404, "NoSuchKey")
        if self._key() in self.bucket.archived and self.command == "GET":
            return self._refuse(403, "InvalidObjectState", "<StorageClass>GLACIER</StorageClass>")
        if self.headers.get("If-Match") not in {None, stored.etag}:
            return self._refuse(412, "PreconditionFailed")
        headers = {**stored.metadata, "ETag": stored.etag, "Last-Modified": formatdate(usegmt=True)}
        wanted = self.headers.get("Range")
        if wanted is None:
            return self._answer(200, stored.body, headers)
        part = stored.body[-int(wanted.removeprefix("bytes=-")) :]
        size = len(stored.body)
        return self._answer(206, part, {**headers, "Content-Range": f"bytes {size - len(part)}-{size - 1}/{size}"})

    do_HEAD = do_GET  # noqa: N815 - the name is the library's

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "aws-chunked" in self.headers.get("Content-Encoding", ""):
            body = _unchunked(body)
        key = self._key()
        metadata = {name: text for name, text in self.headers.items() if name.lower().startswith("x-amz-meta-")}

        def apply() -> tuple[int, str]:
            there = self.bucket.objects.get(key)
            if self.headers.get("If-None-Match") == "*" and there is not None:
                return 412, "PreconditionFailed"
            match = self.headers.get("If-Match")
            if match is not None and there is None:
                return 404, "NoSuchKey"
            if match is not None and there is not None and match != there.etag:
                return 412, "PreconditionFailed"
            self.bucket.objects[key] = Stored(body, metadata, self.headers.get("Content-Type", ""))
            return 200, ""

        self._write(key, apply)

    def do_POST(self) -> None:
        """DeleteObjects is the only one: what the tests write is smaller than a piece of an upload."""
        assert urlsplit(self.path).query == "delete", self.path
        tree = ET.fromstring(self.rfile.read(int(self.headers["Content-Length"])))  # noqa: S314 - our client's
        keys = [node.text or "" for node in tree.iter() if node.tag.rpartition("}")[2] == "Key"]

        def apply() -> tuple[int, str]:
            for key in keys:
                self.bucket.objects.pop(key, None)
            return 200, ""

        rows = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        self._write(keys[0], apply, f"<DeleteResult>{rows}</DeleteResult>")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""

    def _write(self, key: str, apply: Callable[[], tuple[int, str]], answer: str = "") -> None:
        bucket = self.bucket
        with bucket.lock:
            fault = bucket.meets(key)
            status, code, is_applied = (200, "", True) if fault is None else fault.value
            applied = apply() if is_applied else (200, "")
        if fault is None:
            status, code = applied
        if status == 0:
            return self._cut()
        return self._refuse(status, code) if code else self._answer(status, answer, {"ETag": '"e"'})

    def _list(self, prefix: str, delimiter: str) -> None:
        rows, folders = [], set()
        with self.bucket.lock:
            found = sorted(item for item in self.bucket.objects.items() if item[0].startswith(prefix))
        for key, stored in found:
            name, separator, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            if separator:
                folders.add(f"{prefix}{name}{separator}")
                continue
            rows.append(
                f"<Contents><Key>{escape(key)}</Key><Size>{len(stored.body)}</Size><ETag>{escape(stored.etag)}</ETag>"
                "<LastModified>2026-11-21T10:16:00Z</LastModified></Contents>"
            )
        common = "".join(
            f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in sorted(folders)
        )
        text = f"<ListBucketResult><IsTruncated>false</IsTruncated>{''.join(rows)}{common}</ListBucketResult>"
        self._answer(200, text)

    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).lstrip("/").partition("/")[2]

    def _refuse(self, status: int, code: str, details: str = "") -> None:
        self._answer(status, _ERROR.format(code, details))

    def _cut(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)


def _unchunked(body: bytes) -> bytes:
    """Return the content of a body that was sent in chunks with a checksum behind it."""
    parts, at = [], 0
    while size := int(body[at : (end := body.index(b"\r\n", at))].partition(b";")[0], 16):
        parts.append(body[end + 2 : end + 2 + size])
        at = end + 4 + size
    return b"".join(parts)


@contextmanager
def serve(bucket: FailingS3) -> Iterator[FailingS3]:
    """Serve the bucket while the block runs; its `endpoint` is set."""
    handler = type("Handler", (_Handler,), {"bucket": bucket})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        bucket.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield bucket
        finally:
            server.shutdown()
            thread.join()
