"""The gate: does a store really let one conditional PUT win?

    32 connections    headers + body[:-1]  ->  |            (the server has 32 whole requests but for one byte)
                                               |  body[-1]  on all of them, within about a millisecond
                                               v
    exactly one 200, thirty-one 412, and the object that stays is the winner's, metadata included

Threads that start a PUT each do not find an unsafe server: the client is slower than the gap between the server's
check and its write. Holding back the last byte takes the client out of the race. A store that fails here makes
every test of exactly-once worthless, in both directions.
"""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from minutebook.clock import SystemClock
from tests.witness.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

CONNECTIONS = 32
KEYS = 50
_HOLD_SECONDS = 0.01
_OK, _PRECONDITION_FAILED = 200, 412


class Endpoint(NamedTuple):
    """Where the race is run, and with which credentials."""

    url: str
    region: str
    access_key: str
    secret_key: str


class Race(NamedTuple):
    """One key's outcome: the HTTP status that each connection got, in their order."""

    key: str
    statuses: tuple[int, ...]

    @property
    def winners(self) -> list[int]:
        """Connections that were told 200."""
        return [number for number, status in enumerate(self.statuses) if status == _OK]

    @property
    def is_exact(self) -> bool:
        """One winner, and all others were told 412."""
        losers = [status for status in self.statuses if status != _OK]
        return len(self.winners) == 1 and set(losers) <= {_PRECONDITION_FAILED}


def _hold() -> None:
    SystemClock().sleep(_HOLD_SECONDS)


def run_races(
    endpoint: Endpoint,
    bucket: str,
    prefix: str,
    *,
    keys: int = KEYS,
    before_release: Callable[[], None] = _hold,
) -> list[Race]:
    """Race for `keys` fresh keys under `prefix`, one after the other; returns every outcome.

    `before_release` runs while the last bytes are held back. The default gives the server a moment to read the
    rest: a server cannot be asked how far it is.
    """
    with _connections(endpoint.url) as sockets:
        return [_race(endpoint, sockets, bucket, f"{prefix}{number:03d}", before_release) for number in range(keys)]


def assert_exact(races: list[Race], client: "S3Client", bucket: str) -> None:
    """Fail, naming the keys, unless each had one winner whose bytes and metadata are what is stored."""
    inexact = {race.key: race.statuses for race in races if not race.is_exact}
    assert not inexact, f"the store let two conditional PUTs win, or answered neither 200 nor 412: {inexact}"
    for race in races:
        winner = race.winners[0]
        stored = client.get_object(Bucket=bucket, Key=race.key)
        assert stored["Body"].read() == _body(winner), f"{race.key} holds the bytes of a loser"
        assert stored["Metadata"] == {"writer": str(winner)}, f"{race.key} holds the metadata of a loser"


def _race(
    endpoint: Endpoint, sockets: list[socket.socket], bucket: str, key: str, before_release: Callable[[], None]
) -> Race:
    for number, connection in enumerate(sockets):
        connection.sendall(_request(endpoint, bucket, key, number)[:-1])
    before_release()
    for number, connection in enumerate(sockets):
        connection.sendall(_body(number)[-1:])
    return Race(key, tuple(_answer(connection) for connection in sockets))


def _body(number: int) -> bytes:
    return f"written by connection {number}\n".encode() * 20


def _request(endpoint: Endpoint, bucket: str, key: str, number: int) -> bytes:
    """Return a whole signed PUT as it goes over the wire."""
    headers = {"If-None-Match": "*", "x-amz-meta-writer": str(number), "Content-Length": str(len(_body(number)))}
    request = AWSRequest("PUT", f"{endpoint.url}/{bucket}/{key}", headers=headers, data=_body(number))
    credentials = Credentials(endpoint.access_key, endpoint.secret_key)
    S3SigV4Auth(credentials, "s3", endpoint.region).add_auth(request)
    lines = [f"PUT /{bucket}/{key} HTTP/1.1", f"Host: {urlsplit(endpoint.url).netloc}"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + _body(number)


def _answer(connection: socket.socket) -> int:
    response = HTTPResponse(connection, method="PUT")
    try:
        response.begin()
        response.read()
        return response.status
    finally:
        response.close()


@contextmanager
def _connections(url: str) -> Iterator[list[socket.socket]]:
    address = urlsplit(url)
    sockets: list[socket.socket] = []
    try:
        for _ in range(CONNECTIONS):
            connection = socket.create_connection(
                (address.hostname or "", address.port or 80), timeout=PATIENCE_SECONDS
            )
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sockets.append(connection)
        yield sockets
    finally:
        for connection in sockets:
            connection.close()
