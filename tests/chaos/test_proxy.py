"""The fault proxy tells the truth: what it counts as carried out reached the server, and nothing else did."""

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from tests.chaos.faults import IS_CARRIED_OUT, Dice, Fault, Rates, even
from tests.chaos.proxy import FaultProxy
from tests.chaos.upstream import DYNAMODB, S3, Dialect
from tests.witness.waiting import PATIENCE_SECONDS

_BODY = b"the object"
_ANSWERED = {
    Fault.INTERNAL_BEFORE: 500,
    Fault.INTERNAL_AFTER: 500,
    Fault.UNAVAILABLE_BEFORE: 503,
    Fault.UNAVAILABLE_AFTER: 503,
    Fault.CONFLICT: 409,
    Fault.DELAYED_BEFORE: 200,
    Fault.DELAYED_AFTER: 200,
}
_LOST = {Fault.CUT_BEFORE, Fault.CUT_AFTER, Fault.TORN_ANSWER}


class _Server(BaseHTTPRequestHandler):
    """Remembers what it was sent."""

    received: ClassVar[list[tuple[str, str, bytes, str | None]]]
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.received.append((self.command, self.path, body, self.headers.get("x-amz-meta-last")))
        self.send_response(200)
        self.send_header("ETag", '"e"')
        self.send_header("Content-Length", str(len(_BODY)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(_BODY)

    do_GET = do_HEAD = do_PUT  # noqa: N815 - the names are the library's

    def log_message(self, *_: Any) -> None:  # noqa: ANN401 - the signature is the library's
        """Say nothing."""


@contextmanager
def _proxy(rates: Rates, dialect: Dialect = S3) -> Iterator[tuple[FaultProxy, type[_Server]]]:
    handler = type("_Fresh", (_Server,), {"received": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        with FaultProxy(url, dialect, random.Random(1), longest_delay_seconds=0.1) as proxy:
            proxy.set_rates(rates)
            yield proxy, handler
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _ask(proxy: FaultProxy, method: str = "PUT", path: str = "/b/k", headers: dict[str, str] | None = None) -> int:
    """Return the status of one request; 0 when its answer is lost or torn."""
    connection = HTTPConnection(proxy.endpoint.removeprefix("http://"), timeout=PATIENCE_SECONDS)
    body = b"bytes" if method == "PUT" else None
    try:
        connection.request(method, path, body, {"If-None-Match": "*", **(headers or {})})
        answer = connection.getresponse()
        answer.read()
        return 0 if answer.getheader("Content-Length") is None else answer.status
    except (OSError, HTTPException):
        return 0
    finally:
        connection.close()


@pytest.mark.parametrize("fault", list(Fault))
def test_a_fault_strikes_on_its_side_of_the_server(fault: Fault) -> None:
    """`before` never reaches the server (a delay does, later); `after` always has."""
    with _proxy({fault: 1.0}) as (proxy, server):
        _ask(proxy)
        assert len(server.received) == (fault in IS_CARRIED_OUT or fault is Fault.DELAYED_BEFORE)


@pytest.mark.parametrize(("fault", "status"), [*_ANSWERED.items(), *((fault, 0) for fault in sorted(_LOST))])
def test_a_fault_is_what_the_client_sees(fault: Fault, status: int) -> None:
    """A status, or no whole answer."""
    with _proxy({fault: 1.0}) as (proxy, _):
        assert _ask(proxy) == status


@pytest.mark.parametrize("fault", list(Fault))
def test_every_fault_is_counted_once(fault: Fault) -> None:
    """And under its own name."""
    with _proxy({fault: 1.0}) as (proxy, _):
        _ask(proxy)
        assert proxy.injected == {fault: 1}


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT"])
def test_what_meets_no_fault_passes_unchanged(method: str) -> None:
    """Method, path as it was written, body and metadata."""
    with _proxy({}) as (proxy, server):
        path = "/b/raw/a%2Fb%20c/~x?list-type=2&prefix=a%3D"
        assert _ask(proxy, method, path, {"x-amz-meta-last": "1:2"}) == 200
        assert server.received == [(method, path, b"bytes" if method == "PUT" else b"", "1:2")]


def test_only_a_conditional_put_is_answered_409() -> None:
    """S3 gives that answer to nothing else."""
    with _proxy({Fault.CONFLICT: 1.0}) as (proxy, _):
        assert (_ask(proxy, "GET"), _ask(proxy, headers={"If-None-Match": '"e"'}), _ask(proxy)) == (200, 200, 409)


def test_a_dead_server_is_a_lost_connection_and_no_fault_of_ours() -> None:
    """It is counted apart."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with FaultProxy(url, DYNAMODB, random.Random(1)) as proxy:
        assert (_ask(proxy), proxy.lost_upstream, sum(proxy.injected.values())) == (0, 1, 0)


def test_a_delayed_request_arrives_after_its_sender_has_gone() -> None:
    """That is a late PUT of a killed processor."""
    with _proxy({Fault.DELAYED_BEFORE: 1.0}) as (proxy, server):
        with socket.create_connection(("127.0.0.1", int(proxy.endpoint.rpartition(":")[2]))) as sender:
            sender.sendall(b"PUT /b/late HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx")
        # The next request waits in the same way, so the first has been decided on when it is answered.
        _ask(proxy)
        _ask(proxy)
        assert ("PUT", "/b/late", b"x", None) in server.received


def test_quiet_holds_requests_back() -> None:
    """Nothing reaches the server within the block; what was held back goes on after it."""
    with _proxy({}) as (proxy, server):
        with proxy.quiet():
            sender = threading.Thread(target=_ask, args=(proxy,))
            sender.start()
            sender.join(0.2)
            held_back = list(server.received)
        sender.join()
        assert (held_back, len(server.received)) == ([], 1)


def test_a_body_in_chunks_arrives_whole() -> None:
    """With its length instead."""
    with _proxy({}) as (proxy, server):
        connection = HTTPConnection(proxy.endpoint.removeprefix("http://"), timeout=PATIENCE_SECONDS)
        connection.request("PUT", "/b/k", iter([b"a" * 70_000, b"bc"]), encode_chunked=True)
        assert connection.getresponse().read() == _BODY
        connection.close()
        assert server.received[0][2] == b"a" * 70_000 + b"bc"


def test_the_seed_decides_the_faults() -> None:
    """The same seed, the same fates, whatever the rates were in between."""
    draws = [[dice.draw(even(0.5), is_conditional_put=True) for _ in range(50)] for dice in map(_dice, (7, 7, 8))]
    assert draws[0] == draws[1] != draws[2]


def test_a_share_of_the_requests_meets_a_fault() -> None:
    """`even` spreads it over the kinds."""
    dice = _dice(3)
    fates = [dice.draw(even(0.5), is_conditional_put=True).fault for _ in range(10_000)]
    assert 4_700 < sum(fate is not None for fate in fates) < 5_300
    assert all(350 < fates.count(fault) < 650 for fault in Fault)


def _dice(seed: int) -> Dice:
    return Dice(random.Random(seed), 1)
