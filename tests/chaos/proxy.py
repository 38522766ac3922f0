"""A proxy of HTTP/1.1 that forwards whole requests, and makes chosen ones fail on either side of the server.

One thread per connection. A request is read to its end before anything happens to it, so a delayed one reaches the
server even when its sender has been killed meanwhile: an old owner's PUT that overtakes nobody and arrives late.
"""

import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Final, Self
from urllib.parse import urlsplit

from tests.chaos.faults import CALM, IS_CARRIED_OUT, Dice, Draw, Fault, Rates
from tests.chaos.upstream import HOP_BY_HOP, UPSTREAM_SECONDS, Answer, Dialect, ask

LOOPBACK: Final = "127.0.0.1"
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


_STATUS: Final = {
    Fault.CONFLICT: 409,
    Fault.INTERNAL_BEFORE: 500,
    Fault.INTERNAL_AFTER: 500,
    Fault.UNAVAILABLE_BEFORE: 503,
    Fault.UNAVAILABLE_AFTER: 503,
}


class FaultProxy:
    """Stands before one server, at `endpoint`: `with FaultProxy(server, S3, rng) as proxy: ...`.

    Faults are chosen by `set_rates`; `injected` counts what really happened, by kind. What the server itself failed
    to answer is no fault of ours: it is passed on as a lost connection and counted in `lost_upstream`.
    """

    def __init__(
        self, server: str, dialect: Dialect, rng: random.Random, *, longest_delay_seconds: float = 5.0
    ) -> None:
        self._server = urlsplit(server).netloc
        self.dialect = dialect
        self._dice = Dice(rng, longest_delay_seconds)
        self._state = threading.Condition()
        self._rates: Rates = CALM
        self._is_open = True
        self._forwarding = 0
        self._under_way = 0
        self._connections: set[socket.socket] = set()
        self._closing = threading.Event()
        self.injected: Counter[Fault] = Counter()
        self.requests = 0
        self.lost_upstream = 0
        handler = type("_Handler", (_Handler,), {"proxy": self})
        self._front = _Front((LOOPBACK, 0), handler)
        self._thread = threading.Thread(target=self._front.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Cut every connection; requests that were delayed are dropped."""
        self._closing.set()
        self._front.shutdown()
        with self._state:
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self._front.server_close()
        self._thread.join()

    @property
    def endpoint(self) -> str:
        """The URL to use in place of the server's."""
        return f"http://{LOOPBACK}:{self._front.server_port}"

    def set_rates(self, rates: Rates) -> None:
        """Choose what the requests from now on meet."""
        with self._state:
            self._rates = rates

    def is_idle(self) -> bool:
        """Tell whether no request is under way, delayed ones included."""
        with self._state:
            return self._under_way == 0

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Hold requests back while the block runs, beginning when the server has answered those it has."""
        with self._state:
            self._is_open = False
            self._state.wait_for(lambda: self._forwarding == 0, UPSTREAM_SECONDS)
        try:
            yield
        finally:
            with self._state:
                self._is_open = True
                self._state.notify_all()

    def draw(self, *, is_conditional_put: bool) -> Draw:
        """Decide the next request's fate."""
        with self._state:
            self.requests += 1
            return self._dice.draw(self._rates, is_conditional_put=is_conditional_put)

    def count(self, fault: Fault) -> None:
        """Count a fault that has been carried out."""
        with self._state:
            self.injected[fault] += 1

    def pause(self, seconds: float) -> None:
        """Wait, unless the proxy closes."""
        self._closing.wait(seconds)

    @contextmanager
    def request_under_way(self) -> Iterator[None]:
        """Count a request as under way."""
        with self._state:
            self._under_way += 1
        try:
            yield
        finally:
            with self._state:
                self._under_way -= 1

    def forward(self, method: str, target: str, headers: list[tuple[str, str]], body: bytes) -> Answer | None:
        """Send one whole request to the server; None when it gives no answer."""
        with self._state:
            self._state.wait_for(lambda: self._is_open or self._closing.is_set())
            self._forwarding += 1
        try:
            return ask(self._server, method, target, headers, body)
        except (OSError, HTTPException):
            with self._state:
                self.lost_upstream += 1
            return None
        finally:
            with self._state:
                self._forwarding -= 1
                self._state.notify_all()

    def note_connection(self, connection: socket.socket, *, is_open: bool) -> None:
        """Remember a connection for as long as it is open."""
        with self._state:
            if is_open:
                self._connections.add(connection)
            else:
                self._connections.discard(connection)


class _Front(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True
    block_on_close = True


class _Handler(BaseHTTPRequestHandler):
    proxy: ClassVar[FaultProxy]
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.proxy.note_connection(self.connection, is_open=True)

    def finish(self) -> None:
        self.proxy.note_connection(self.connection, is_open=False)
        with suppress(OSError):
            super().finish()

    def handle(self) -> None:
        with suppress(ConnectionError, ValueError):  # the other side has gone, or we have cut it off
            super().handle()

    def log_message(self, *_: Any) -> None:  # noqa: ANN401 - the signature is the library's
        """Say nothing: the counters do."""

    def do_GET(self) -> None:
        with self.proxy.request_under_way():
            body = self._read_body()
            conditional = self.command == "PUT" and self.headers.get("If-None-Match") == "*"
            draw = self.proxy.draw(is_conditional_put=conditional)
            self._play(draw, body)

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 - the names are the library's

    def _play(self, draw: Draw, body: bytes) -> None:
        fault = draw.fault
        if fault is Fault.DELAYED_BEFORE:
            self.proxy.count(fault)
            self.proxy.pause(draw.delay_seconds)
        elif fault is not None and fault not in IS_CARRIED_OUT:
            self.proxy.count(fault)
            return self._fail(draw, None)
        headers = [(name, value) for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP]
        answer = self.proxy.forward(self.command, self.path, headers, body)
        if answer is None:
            return self._cut()
        if fault in IS_CARRIED_OUT:
            self.proxy.count(fault)
            if fault is not Fault.DELAYED_AFTER:
                return self._fail(draw, answer)
            self.proxy.pause(draw.delay_seconds)
        return self._send(answer)

    def _fail(self, draw: Draw, answer: Answer | None) -> None:
        fault = draw.fault
        if fault in _STATUS:
            dialect, status = self.proxy.dialect, _STATUS[fault]
            text = dialect.bodies[status].encode()
            self._send(Answer(status, [("Content-Type", dialect.content_type)], text, len(text)))
        elif fault is Fault.TORN_ANSWER and answer is not None:
            self._send(answer, part=draw.part)
        else:
            self._cut()

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            return self._read_chunks()
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _read_chunks(self) -> bytes:
        """Return a chunked body's content; it is forwarded with its length instead."""
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            continue
        return b"".join(parts)

    def _send(self, answer: Answer, *, part: float = 1) -> None:
        """Send an answer, or a part of it and then the end of the connection.

        The length stands last among the headers, as S3 sends it: a torn answer has none.
        """
        head = [f"HTTP/1.1 {answer.status} {self.responses.get(answer.status, ('',))[0]}"]
        head += [f"{name}: {value}" for name, value in answer.headers]
        head += [f"Content-Length: {answer.length}", "", ""]
        body = b"" if self.command == "HEAD" else answer.body
        message = "\r\n".join(head).encode("latin-1") + body
        self.wfile.write(message[: int(len(message) * part)])
        if part < 1:
            self.close_connection = True

    def _cut(self) -> None:
        """Reset the connection."""
        self.close_connection = True
        self.proxy.note_connection(self.connection, is_open=False)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.rfile.close()
        self.connection.close()
