"""A lean S3 in a process of its own: takes every conditional PUT, and keeps only what is small.

python -m benchmarks.pipe.s3_server FILE [CERTIFICATE_AND_KEY]       writes its port into FILE once it listens
"""

import hashlib
import ssl
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

_KEPT_BYTES: Final = 65536
_EMPTY_LIST: Final = (
    b'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><Name>b</Name><Prefix></Prefix><KeyCount>0</KeyCount>'
    b"<MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated></ListBucketResult>"
)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    objects: Final[dict[str, tuple[dict[str, str], bytes]]] = {}

    def do_PUT(self) -> None:
        """Store an object unless there is one."""
        body = self._drain_chunked() if "Transfer-Encoding" in self.headers else self._drain()
        if self.path in self.objects:
            self._answer(HTTPStatus.PRECONDITION_FAILED, {}, b"<Error><Code>PreconditionFailed</Code></Error>")
            return
        kept = {name: text for name, text in self.headers.items() if name.lower().startswith("x-amz-meta-")}
        self.objects[self.path] = (kept, body if len(body) <= _KEPT_BYTES else b"")
        self._answer(HTTPStatus.OK, {"ETag": f'"{hashlib.md5(self.path.encode()).hexdigest()}"'}, b"")  # noqa: S324

    def do_GET(self) -> None:
        """Return an object, or an empty list."""
        if "list-type=2" in self.path:
            self._answer(HTTPStatus.OK, {"Content-Type": "application/xml"}, _EMPTY_LIST)
            return
        found = self.objects.get(self.path)
        if found is None:
            self._answer(HTTPStatus.NOT_FOUND, {}, b"<Error><Code>NoSuchKey</Code></Error>")
        else:
            self._answer(HTTPStatus.OK, {**found[0], "ETag": '"x"'}, found[1])

    do_HEAD = do_GET  # noqa: N815 - http.server's name

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _drain(self) -> bytes:
        left = int(self.headers.get("Content-Length", 0))
        head = b""
        while left and (part := self.rfile.read(min(left, 1 << 20))):
            left -= len(part)
            head = head or part
        return head

    def _drain_chunked(self) -> bytes:
        head = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            part = self.rfile.read(size)
            self.rfile.readline()
            head = head or part
        self.rfile.readline()
        return head + bytes(_KEPT_BYTES)  # framed by aws-chunked: nothing that could be given back

    def _answer(self, status: HTTPStatus, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, text in {"Last-Modified": "Sun, 22 Nov 2026 00:00:00 GMT", **headers}.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def main() -> None:
    """Serve until the input ends: whoever started it is gone then."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        if len(sys.argv) > 2:  # noqa: PLR2004 - program, file, certificate
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(sys.argv[2])
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        Path(sys.argv[1]).write_text(str(server.server_port))
        sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
