"""Short shards, played before the first fork: what all processors would load, parse and write later is there then.

The first request of a client loads rules and parses them, and the interpreter rewrites each function that is called
some times. Done in every processor, that is 5 MB of each one's own memory; done before the fork, it is shared. So the
whole way is played, from the daemon's lines to the PUT, with the processors' own clients: to a server on loopback
(`stage`), to which each request is turned after it was signed. Nothing is asked of AWS but the credentials, which the
processors share, too. No connection and no thread is left.

Nothing depends on it but memory: where it fails, a line says so, and processors are larger.
"""

import base64
import io
import os
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies

import msgspec
import structlog

from archive.clock import Clock, new_id, new_random
from archive.logs import configure_logging
from archive.store.s3 import S3Store
from consumer.forks.layout import move_together
from consumer.forks.parent_death import die_with
from consumer.processor.processor import ShardProcessor
from consumer.processor.protocol import run_process
from consumer.serving import Prepared
from consumer.stream.kinesis import KinesisStream

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest

_SHARD: Final = "shardId-000000000000"
_FEW_SEGMENTS: Final = 2
_SEGMENTS: Final = 12
"""CPython 3.11 rewrites a function at its eighth call (PEP 659)."""
_MINUTE_MS: Final = 60_000
_BUDGET_SECONDS: Final = 2
_NOBODYS: Final = "minutebook_rehearsal"
"""No bucket can have this name."""


def rehearse(prepared: Prepared, clock: Clock, level: str) -> None:
    """Play it; `level` is that of the log, which hears nothing meanwhile."""
    begun = clock.monotonic()
    configure_logging("debug", io.StringIO())
    try:
        if "http" in getproxies():
            raise OSError("requests to loopback would go through the proxy of HTTP_PROXY")  # noqa: TRY301 - told below
        with _stage() as port, turned([prepared.s3, prepared.kinesis()], port):
            move_together(lambda: _play(prepared, clock, _FEW_SEGMENTS))
            # A second time: the application record is there, as at nearly every start.
            _play(prepared, clock, _SEGMENTS)
            # botocore works out a bucket's address once, by a thousand calls: in each processor, where not here.
            S3Store(prepared.s3, prepared.settings.bucket).get(_NOBODYS)
    except Exception as exc:  # noqa: BLE001 - whatever it is, it is said, and the processors work without
        configure_logging(level)
        structlog.get_logger().warning(
            "rehearsal_failed",
            error=f"{type(exc).__name__}: {exc}",
            next_step="nothing by itself: each processor takes some 5 MB more; if an error of a processor follows, "
            "see to that",
        )
    configure_logging(level)
    structlog.get_logger().debug("rehearsed", seconds=round(clock.monotonic() - begun, 2))


@contextmanager
def _stage() -> Iterator[int]:
    """Let a server play in a process of its own; yields its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            die_with(parent)
            from consumer.forks.stage import play  # noqa: PLC0415 - only that process needs a server

            play(listener)
        finally:
            os._exit(1)
    port = listener.getsockname()[1]
    listener.close()
    try:
        yield port
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


class _Turn:
    """Turns a client's requests to the stage, as long as it has a port.

    It stays registered behind the rehearsal, without a port: with a handler that goes, a client forgets which others
    it has found for each event (botocore.hooks), and each processor would search for them again.
    """

    def __init__(self, port: int) -> None:
        self.port: int | None = port

    def __call__(self, request: "AWSPreparedRequest", **_: object) -> None:
        if self.port is not None:
            parts = urlsplit(request.url)
            request.url = parts._replace(scheme="http", netloc=f"127.0.0.1:{self.port}").geturl()


@contextmanager
def turned(clients: Sequence[Any], port: int) -> Iterator[None]:
    """Turn the clients' requests to the stage while the block runs, and close their connections after it."""
    turn, met = _Turn(port), []
    try:
        for client in clients:
            client.meta.events.register_last("before-send", turn)
            met.append(client)
        yield
    finally:
        turn.port = None
        for client in met:
            client.close()


def _play(prepared: Prepared, clock: Clock, segments: int) -> None:
    settings = replace(
        prepared.settings,
        bucket=_NOBODYS,  # should ever a request not be turned, it may not find the archive
        stream_name=_NOBODYS,
        store_timeout_seconds=_BUDGET_SECONDS,
        checkpoint_interval_seconds=86_400,
        linger_seconds=0,
        flush_seconds=None,
        dedupe=None,
    )
    rng = new_random()
    stream = KinesisStream(prepared.kinesis, settings.stream_name, clock, rng, budget_seconds=_BUDGET_SECONDS)
    processor = ShardProcessor(settings, S3Store(prepared.s3, settings.bucket), stream, clock, rng, new_id)
    # Not through a pipe: it may hold 8 KiB alone, where the user has many (pipe(7), pipe-user-pages-soft).
    with open(os.devnull, "wb") as protocol:  # noqa: PTH123 - a device
        run_process(processor, io.BytesIO(b"".join(_lines(clock.now_ms(), segments))), protocol)


def _lines(now_ms: int, segments: int) -> Iterator[bytes]:
    """Yield what the daemon says: a few minutes of three records each, an empty call after each, and no stop."""
    begin = {"action": "initialize", "shardId": _SHARD, "sequenceNumber": "TRIM_HORIZON", "subSequenceNumber": 0}
    yield msgspec.json.encode(begin) + b"\n"
    for number in range(segments):
        arrival_ms = now_ms - (segments + 3 - number) * _MINUTE_MS
        records = [
            {
                "action": "record",
                "data": base64.b64encode(b'{"rehearsal": true}' if row else b"\xff").decode(),
                "partitionKey": f"key-{row}",
                "sequenceNumber": str(10**55 + number * 10 + row),
                "subSequenceNumber": 0,
                "approximateArrivalTimestamp": arrival_ms + row,
            }
            for row in range(3)
        ]
        for batch in (records, []):
            yield msgspec.json.encode({"action": "processRecords", "records": batch, "millisBehindLatest": 0}) + b"\n"
