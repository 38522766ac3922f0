"""DynamoDB as a role sees it that lacks some actions: a proxy before a real server, which refuses as AWS does.

It tells what it is asked for, too: the requests of KCL pass no hook of ours.
"""

import json
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

from tests.fakes.loopback import serving

Tell = Callable[[str, bytes], object]


def _nobody(action: str, body: bytes) -> None:
    """Tell nobody."""


@contextmanager
def deny(endpoint: str, *actions: str, tell: Tell = _nobody) -> Iterator[str]:
    """Serve on loopback while the block runs; yield the address. `actions` as in a policy, without `dynamodb:`.

    `tell` is given the action and the body of each request, from any thread.
    """
    with serving(_handler(endpoint, frozenset(actions), tell)) as address:
        yield address


def _handler(endpoint: str, denied: Collection[str], tell: Tell) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            action = self.headers.get("X-Amz-Target", "").rpartition(".")[2]
            tell(action, body)
            if action in denied:
                self._send(400, {}, json.dumps(_refusal(action)).encode())
                return
            connection = HTTPConnection(urlsplit(endpoint).netloc, timeout=60)
            try:
                headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
                connection.request("POST", self.path, body, headers)
                answer = connection.getresponse()
                self._send(answer.status, dict(answer.getheaders()), answer.read())
            finally:
                connection.close()

        def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                if name.lower() not in {"connection", "content-length", "transfer-encoding", "server", "date"}:
                    self.send_header(name, value)
            if not headers:
                self.send_header("Content-Type", "application/x-amz-json-1.0")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401 - the standard library's names
            """Say nothing."""

    return Handler


def _refusal(action: str) -> dict[str, str]:
    """Return the body of the refusal (Amazon DynamoDB Developer Guide, error handling)."""
    return {
        "__type": "com.amazon.coral.service#AccessDeniedException",
        "Message": f"User: arn:aws:iam::000000000000:user/worker is not authorized to perform: dynamodb:{action} on "
        "resource: arn:aws:dynamodb:us-east-1:000000000000:table/app because no identity-based policy allows the "
        f"dynamodb:{action} action",
    }
