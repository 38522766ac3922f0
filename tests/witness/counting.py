"""A server in front of a server, that counts what it is asked by method and key: also by processes of Spark."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar, NamedTuple, Self
from urllib.parse import unquote, urlsplit

from tests.chaos.upstream import ask


class Asked(NamedTuple):
    """One request: its method, and the path without the bucket; `query` is what follows the path."""

    method: str
    key: str
    query: str


class CountingProxy:
    """Passes whole requests to the server of `endpoint`, as `endpoint` of its own; `requests` are those that came."""

    def __init__(self, endpoint: str) -> None:
        self.requests: list[Asked] = []
        handler = type("_Handler", (_Handler,), {"server_name": urlsplit(endpoint).netloc, "requests": self.requests})
        self._front = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._front.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._front.shutdown()
        self._front.server_close()
        self._thread.join()

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._front.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server_name: ClassVar[str]
    requests: ClassVar[list[Asked]]

    def pass_on(self) -> None:
        """Count the request, and give the server's answer."""
        path, _, query = self.path.partition("?")
        self.requests.append(Asked(self.command, unquote(path).lstrip("/").partition("/")[2], query))
        if self.headers.get("Expect") == "100-continue":
            self.send_response_only(100)
            self.end_headers()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        given = [(name, value) for name, value in self.headers.items() if name.lower() != "expect"]
        answer = ask(self.server_name, self.command, self.path, given, body)
        self.send_response_only(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(answer.length))
        self.end_headers()
        self.wfile.write(answer.body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = pass_on  # noqa: N815 - as the library has it

    def log_message(self, *_: object) -> None:
        """Write nothing."""
