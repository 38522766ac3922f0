"""An S3 server with chosen faults, on loopback: what the pre-flight has to find out about a bucket."""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from minutebook.clock import SystemClock
from tests.fakes.answering import answer

_ERROR = '<?xml version="1.0"?><Error><Code>{code}</Code><Message>{code}</Message></Error>'


class Request(NamedTuple):
    """A request as it came: the names of its headers are lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""


class Refusal(NamedTuple):
    """An answer that is given instead of the bucket's. Without a code it has the body alone."""

    status: int
    code: str = ""
    message: str = ""
    details: str = ""
    headers: Mapping[str, str] = {}
    body: str = ""

    def document(self) -> str:
        """Return S3's error document, or the body."""
        if not self.code:
            return self.body
        return f"<Error><Code>{self.code}</Code><Message>{self.message}</Message>{self.details}</Error>"


def short_lived(life_seconds: int = 300) -> str:
    """Return the body of an end point of credentials, as ECS gives it, with this much life left."""
    until = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC) + timedelta(seconds=life_seconds)
    fields = {"AccessKeyId": "a", "SecretAccessKey": "b", "Token": "t", "Expiration": f"{until:%Y-%m-%dT%H:%M:%SZ}"}
    return json.dumps(fields)


def _refuse_nothing(_request: Request) -> Refusal | None:
    return None


@dataclass
class LaxBucket:
    """The bucket `archive`, and what is wrong with it.

    `ignores_condition`: If-None-Match is not looked at. `checks_late`: it is looked at before the write, and not at
    the moment of it. `keeps_deleted`: a deleted key cannot be written again. `denies`: methods that are refused.
    `date` replaces the Date header. Keys below `replicas` were replicated here. `refuse` may answer any request in
    place of the bucket; `requests` are all that came.
    """

    ignores_condition: bool = False
    checks_late: bool = False
    keeps_deleted: bool = False
    denies: frozenset[str] = frozenset()
    date: str | None = None
    replicas: str | None = None
    refuse: Callable[[Request], Refusal | None] = _refuse_nothing
    requests: list[Request] = field(default_factory=list)
    objects: dict[str, tuple[bytes, dict[str, str]]] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)
    meeting: threading.Barrier = field(default_factory=lambda: threading.Barrier(2))


class _Handler(BaseHTTPRequestHandler):
    bucket: ClassVar[LaxBucket]
    protocol_version = "HTTP/1.1"
    _answer = answer

    def do_HEAD(self) -> None:
        if self._is_refused():
            return None
        if self._name() not in {"", "archive"}:
            return self._answer(404)
        key = self._key()
        if not key:
            return self._answer(200)
        return self._send_object(key)

    def do_GET(self) -> None:
        if self._is_refused():
            return None
        bucket, key = self.bucket, self._key()
        if "GET" in bucket.denies:
            return self._refuse(403, "AccessDenied")
        if key:
            return self._send_object(key)
        query = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        if "list-type" not in query:
            return self._refuse(501, "NotImplemented")
        prefix = query.get("prefix", [""])[0]
        folders, names = set(), [name for name in sorted(bucket.objects) if name.startswith(prefix)]
        if "delimiter" in query:
            folders = {
                f"{prefix}{name[len(prefix) :].partition('/')[0]}/" for name in names if "/" in name[len(prefix) :]
            }
            names = [name for name in names if "/" not in name[len(prefix) :]]
        rows = "".join(
            f"<Contents><Key>{name}</Key><Size>1</Size><ETag>e</ETag><LastModified>2026-11-21T10:16:00Z</LastModified>"
            "</Contents>"
            for name in names
        )
        rows += "".join(f"<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>" for name in sorted(folders))
        return self._answer(200, f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>")

    def do_PUT(self) -> None:
        bucket, key = self.bucket, self._key()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self._is_refused(body):
            return None
        if "PUT" in bucket.denies:
            return self._refuse(403, "AccessDenied")
        conditional = self.headers.get("If-None-Match") == "*" and not bucket.ignores_condition
        with bucket.lock:
            taken = key in bucket.objects or key in bucket.deleted
        if bucket.checks_late and not taken:
            self._meet_another_writer()
        with bucket.lock:
            if conditional and (taken if bucket.checks_late else key in bucket.objects or key in bucket.deleted):
                return self._refuse(412, "PreconditionFailed")
            metadata = {name: text for name, text in self.headers.items() if name.lower().startswith("x-amz-meta-")}
            bucket.objects[key] = (body, metadata)
        return self._answer(200, b"", {"ETag": '"e"'})

    def do_DELETE(self) -> None:
        if self._is_refused():
            return None
        bucket, key = self.bucket, self._key()
        if "DELETE" in bucket.denies:
            return self._refuse(403, "AccessDenied")
        with bucket.lock:
            bucket.objects.pop(key, None)
            if bucket.keeps_deleted:
                bucket.deleted.add(key)
        return self._answer(204)

    def do_POST(self) -> None:
        """Delete the keys of a batch."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self._is_refused(body):
            return
        if urlsplit(self.path).query != "delete" or "DELETE" in self.bucket.denies:
            self._refuse(403, "AccessDenied")
            return
        with self.bucket.lock:
            keys = re.findall(r"<Key>([^<]*)</Key>", body.decode())
            for key in keys:
                self.bucket.objects.pop(key, None)
        rows = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        self._answer(200, f"<DeleteResult>{rows}</DeleteResult>")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""

    def date_time_string(self, timestamp: float | None = None) -> str:
        """Return the Date header."""
        return self.bucket.date or super().date_time_string(timestamp)

    def _is_refused(self, body: bytes = b"") -> bool:
        """Keep the request; return whether it was answered in place of the bucket."""
        headers = {name.lower(): text for name, text in self.headers.items()}
        request = Request(self.command, self.path, headers, body)
        self.bucket.requests.append(request)
        refusal = self.bucket.refuse(request)
        if refusal is not None:
            self._answer(refusal.status, refusal.document(), dict(refusal.headers))
        return refusal is not None

    def _meet_another_writer(self) -> None:
        try:
            self.bucket.meeting.wait(timeout=2)
        except threading.BrokenBarrierError:
            self.bucket.meeting.reset()

    def _name(self) -> str:
        return unquote(urlsplit(self.path).path).lstrip("/").partition("/")[0]

    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).lstrip("/").partition("/")[2]

    def _send_object(self, key: str) -> None:
        found = self.bucket.objects.get(key)
        if found is None:
            return self._refuse(404, "NoSuchKey")
        body, metadata = found
        if self.bucket.replicas is not None and key.startswith(self.bucket.replicas):
            metadata = {**metadata, "x-amz-replication-status": "REPLICA"}
        return self._answer(200, body, {**metadata, "ETag": '"e"', "Last-Modified": "Sat, 21 Nov 2026 10:16:00 GMT"})

    def _refuse(self, status: int, code: str) -> None:
        self._answer(status, _ERROR.format(code=code))


@contextmanager
def serve(bucket: LaxBucket) -> Iterator[str]:
    """Serve `bucket` while the block runs; the value is its endpoint."""
    handler = type("Handler", (_Handler,), {"bucket": bucket})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
