"""The metrics server: `/metrics` for Prometheus, and `/healthz` for an orchestrator's health check."""

import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, Protocol

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from minutebook.errors import SettingsError

LOOPBACK: Final = "127.0.0.1"
_REQUEST_SECONDS: Final = 10
_TEXT: Final = "text/plain; charset=utf-8"


class Health(Protocol):
    """What the health check answers."""

    @property
    def is_healthy(self) -> bool:
        """Whether to answer 200, else 503."""
        ...

    @property
    def sentence(self) -> str:
        """Why."""
        ...


def serve_metrics(
    host: str,
    port: int,
    registry: CollectorRegistry,
    verdict: Callable[[], Health],
    named: str = "minutebook.metricsPort",
) -> tuple[int, Callable[[], None]]:
    """Serve from a thread; return the port and a function that stops the server. Port 0 takes a free one.

    Raises SettingsError, with the setting that is `named`, if the port is taken, or the address is not one of this
    machine's.
    """

    class Handler(_Handler):
        answers = staticmethod(lambda path: _answer(path, registry, verdict))

    try:

        class Server(ThreadingHTTPServer):
            address_family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]

        server = Server((host, port), Handler)
    except OSError as exc:
        raise SettingsError(
            f"{named}={port} on minutebook.metricsHost={host}: {exc.strerror}",
            next_step="choose a free port, and an address of this machine (0.0.0.0 for all of them)",
        ) from exc
    thread = threading.Thread(target=server.serve_forever, name="metrics-server", daemon=True)
    thread.start()

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return server.server_port, stop


def _answer(path: str, registry: CollectorRegistry, verdict: Callable[[], Health]) -> tuple[HTTPStatus, str, bytes]:
    match path.partition("?")[0]:
        case "/metrics":
            return HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(registry)
        case "/healthz":
            health = verdict()
            status = HTTPStatus.OK if health.is_healthy else HTTPStatus.SERVICE_UNAVAILABLE
            return status, _TEXT, f"{health.sentence}\n".encode()
        case _:
            return HTTPStatus.NOT_FOUND, _TEXT, b"/metrics and /healthz are here\n"


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD, and closes the connection of a silent client."""

    timeout = _REQUEST_SECONDS
    answers: Callable[[str], tuple[HTTPStatus, str, bytes]]

    def do_GET(self) -> None:
        """Answer."""
        self._send(with_body=True)

    def do_HEAD(self) -> None:
        """Answer without the body."""
        self._send(with_body=False)

    def log_message(self, *_: object) -> None:
        """Log nothing: nobody would act on a request's line."""

    def _send(self, *, with_body: bool) -> None:
        status, kind, body = self.answers(self.path)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)
