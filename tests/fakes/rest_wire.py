"""A wire to a REST catalog on which a commit's request or answer goes astray, as load balancers let it."""

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Final, NamedTuple
from urllib.parse import urlsplit

_HOP: Final = frozenset({"connection", "transfer-encoding", "content-length", "host", "keep-alive"})


class Astray(NamedTuple):
    """What happens to one commit: `applied` tells whether the catalog gets it; the client gets `status`, 0: a cut."""

    applied: bool
    status: int


class RestWire(ThreadingHTTPServer):
    """Passes requests on to a catalog. `faults` are those of the next commits, `commits` counts what was sent."""

    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = urlsplit(upstream)
        self.faults: list[Astray] = []
        self.commits = 0

    @property
    def address(self) -> str:
        """Return the address for clients."""
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def rest_wire(upstream: str) -> Iterator[RestWire]:
    """Open a wire to a catalog."""
    with RestWire(upstream) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: RestWire
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""

    def do_request(self) -> None:
        """Pass a request on, unless it goes astray."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = None
        if self.command == "POST" and "/tables/" in self.path:
            self.server.commits += 1
            fault = self.server.faults.pop(0) if self.server.faults else None
        if fault is None:
            self._answer(*self._forward(body))
            return
        if fault.applied:
            assert self._forward(body)[0] == http.HTTPStatus.OK
        if fault.status:
            error = b'{"error":{"message":"astray","type":"Astray","code":%d}}' % fault.status
            self._answer(fault.status, [("Content-Type", "application/json")], error)
        self.close_connection = True

    do_GET = do_POST = do_HEAD = do_DELETE = do_request  # noqa: N815 - the base class's names

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        wire = http.client.HTTPConnection(str(self.server.upstream.netloc), timeout=60)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
            wire.request(self.command, self.path, body or None, headers)
            answer = wire.getresponse()
            kept = [(name, value) for name, value in answer.getheaders() if name.lower() not in _HOP]
            return answer.status, kept, answer.read()
        finally:
            wire.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if status != http.HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
