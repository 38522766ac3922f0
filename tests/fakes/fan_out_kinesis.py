"""Kinesis with enhanced fan-out, on a loopback socket: botocore talks to it as to the service. No kinder than that.

A subscription is taken over by the next one of the same consumer, which is refused within five seconds; it ends after
five minutes, which are as many events of five seconds; it goes on silently at the oldest record where retention has
taken what was asked for; and it ends at the shard's end with the names of its children and no place to go on at.
`faults` are what becomes of the next subscriptions, one each. The clock is the test's and moves by sleeping alone.
"""

import base64
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple

from tests.fakes.clock import ManualClock
from tests.fakes.event_frames import broken, error_event, event
from tests.fakes.held_kinesis import Held, HeldKinesis

SHARD: Final = "shardId-000000000000"
_LIFE_EVENTS: Final = 300 // 5
_BETWEEN_SECONDS: Final = 5
_MOST_CONSUMERS: Final = 20
_PLAIN: Final = {
    "DescribeStreamSummary": "describe_stream_summary",
    "ListShards": "list_shards",
    "GetShardIterator": "get_shard_iterator",
    "GetRecords": "get_records",
}


class Fault(NamedTuple):
    """What becomes of a subscription after so many events: cut, crc, silent, end, misshapen, or an exception."""

    after: int
    kind: str


class RefusedError(Exception):
    """An error answer of the service, by its code."""


@dataclass
class Consumer:
    """A registered consumer: its status is ACTIVE when it was described so often, or has been deleted."""

    arn: str
    looks_left: int = 1
    is_deleting: bool = False

    @property
    def status(self) -> str:
        """The status as DescribeStreamConsumer names it."""
        return "DELETING" if self.is_deleting else "CREATING" if self.looks_left > 0 else "ACTIVE"


@dataclass
class FanOutKinesis:
    """The service's state: one stream of one shard."""

    clock: ManualClock
    records: Sequence[Held]
    created_ms: int = 1
    arn: str = "arn:aws:kinesis:us-east-1:000000000000:stream/corpus"
    most: int = 10_000
    retention_hours: int = 24
    is_closed: bool = False
    empty_before: int = 0
    moves: bool = True
    names_last: bool = True
    idle_seconds: float = 0.0
    consumers: dict[str, Consumer] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    refusals: dict[str, list[str]] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    _subscribed: dict[str, tuple[float, object]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Hold the records for whoever polls."""
        hours, arn = self.retention_hours, self.arn
        self.held = HeldKinesis(
            self.clock, self.records, created_ms=self.created_ms, arn=arn, most=self.most, retention_hours=hours
        )

    def register(self, name: str) -> Consumer:
        """Register a consumer that is active, as somebody else did."""
        consumer = self.consumers[name] = Consumer(f"{self.arn}/consumer/{name}:{1000 + len(self.asked)}", 0)
        return consumer

    def answer(self, operation: str, asked: dict[str, Any]) -> dict[str, Any]:
        """Answer a request; raises RefusedError."""
        with self._lock:
            self.asked.append((operation, asked))
            refusal = next(iter(self.refusals.get(operation, [])), "")
            if refusal:
                self.refusals[operation].pop(0)
            if refusal.startswith("lost "):  # it is done, and the answer is another
                getattr(self, f"_{operation}")(asked)
            if refusal:
                raise RefusedError(refusal.removeprefix("lost "))
            if operation in _PLAIN:
                return getattr(self.held, _PLAIN[operation])(**asked)  # type: ignore[no-any-return]
            return getattr(self, f"_{operation}")(asked)  # type: ignore[no-any-return]

    def _named(self, asked: dict[str, Any]) -> tuple[str, Consumer]:
        for name, consumer in self.consumers.items():
            if asked.get("ConsumerARN", consumer.arn) == consumer.arn and asked.get("ConsumerName", name) == name:
                return name, consumer
        raise RefusedError("ResourceNotFoundException")

    def _RegisterStreamConsumer(self, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - the operation's name
        name = asked["ConsumerName"]
        if name in self.consumers:
            raise RefusedError("ResourceInUseException")
        if len(self.consumers) >= _MOST_CONSUMERS:
            raise RefusedError("LimitExceededException")
        consumer = self.register(name)
        consumer.looks_left = 2
        return {"Consumer": self._shown(name, consumer)}

    def _DescribeStreamConsumer(self, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - as above
        name, consumer = self._named(asked)
        shown = self._shown(name, consumer)
        consumer.looks_left -= 1
        if consumer.is_deleting and consumer.looks_left < 0:
            del self.consumers[name]
        return {"ConsumerDescription": shown | {"StreamARN": self.arn}}

    def _DeregisterStreamConsumer(self, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - as above
        _, consumer = self._named(asked)
        consumer.is_deleting, consumer.looks_left = True, 1
        return {}

    def _shown(self, name: str, consumer: Consumer) -> dict[str, Any]:
        shown = {"ConsumerName": name, "ConsumerARN": consumer.arn, "ConsumerStatus": consumer.status}
        return shown | {"ConsumerCreationTimestamp": self.created_ms / 1000}

    def _SubscribeToShard(self, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - as above
        _, consumer = self._named(asked)
        before, _ = self._subscribed.get(consumer.arn, (float("-inf"), None))
        if consumer.status != "ACTIVE" or self.clock.monotonic() - before < _BETWEEN_SECONDS:
            raise RefusedError("ResourceInUseException")
        token = object()
        self._subscribed[consumer.arn] = self.clock.monotonic(), token
        fault = self.faults.pop(0) if self.faults else Fault(_LIFE_EVENTS, "end")
        return {"events": self._faulty(consumer, token, asked["StartingPosition"], fault)}

    def _faulty(self, consumer: Consumer, token: object, start: dict[str, Any], fault: Fault) -> Iterator[bytes]:
        yield event("initial-response", {})
        number = 0
        for number, body in enumerate(self._events(start)):
            whole = event("SubscribeToShardEvent", body)
            if self._subscribed[consumer.arn][1] is not token:
                yield error_event("ResourceInUseException", "another subscription")
                return
            if consumer.is_deleting:
                yield error_event("ResourceNotFoundException", "the consumer is gone")
                return
            if number == min(fault.after, _LIFE_EVENTS):
                yield from broken(fault.kind, whole)
                return
            yield whole
            if not body["Records"] and self.idle_seconds:
                threading.Event().wait(self.idle_seconds)

    def _events(self, start: dict[str, Any]) -> Iterator[dict[str, Any]]:
        at, rows = self._first(start), self.held.records
        named = rows[at - 1].sequence if at else 0
        while True:
            edge_ms = self.clock.now_ms() - self.retention_hours * 3_600_000
            while at < len(rows) and rows[at].arrival_ms <= edge_ms:
                at += 1
            if at == len(rows) and self.is_closed:
                child = {"ShardId": "shardId-000000000001", "ParentShards": [SHARD]}
                keys = {"StartingHashKey": "0", "EndingHashKey": "1"}
                yield {"Records": [], "MillisBehindLatest": 0, "ChildShards": [child | {"HashKeyRange": keys}]}
                return
            for _ in range(self.empty_before if at < len(rows) else 1):
                named = max(named, rows[at].sequence - 1) if at < len(rows) else named + self.moves
                yield self._event([], named, at)
            given = rows[at : at + self.most]
            at += len(given)
            if given:
                named = given[-1].sequence if self.names_last or at == len(rows) else rows[at].sequence
                yield self._event(given, named, at)

    def _event(self, rows: Sequence[Held], named: int, at: int) -> dict[str, Any]:
        held = self.held.records
        behind = 0 if at == len(held) else max(1, self.clock.now_ms() - held[at].arrival_ms)
        records = [
            {
                "SequenceNumber": str(row.sequence),
                "ApproximateArrivalTimestamp": row.arrival_ms / 1000,
                "PartitionKey": row.partition_key,
                "Data": base64.b64encode(row.data).decode(),
            }
            for row in rows
        ]
        return {"Records": records, "MillisBehindLatest": behind, "ContinuationSequenceNumber": str(named)}

    def _first(self, start: dict[str, Any]) -> int:
        kind = start["Type"]
        sequence, at_ms = int(start.get("SequenceNumber", 0)), start.get("Timestamp", 0) * 1000
        for number, row in enumerate(self.held.records):
            if (
                kind == "TRIM_HORIZON"
                or (kind == "AT_TIMESTAMP" and row.arrival_ms >= at_ms)
                or (kind == "AT_SEQUENCE_NUMBER" and row.sequence >= sequence)
                or (kind == "AFTER_SEQUENCE_NUMBER" and row.sequence > sequence)
            ):
                return number
        return len(self.held.records)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    service: FanOutKinesis

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        operation = self.headers["X-Amz-Target"].partition(".")[2]
        try:
            answer = self.service.answer(operation, asked)
        except RefusedError as exc:
            self._whole(400, json.dumps({"__type": str(exc), "message": "no"}).encode())
            return
        if "events" not in answer:
            answer.pop("ResponseMetadata", None)
            self._whole(200, json.dumps(answer, default=_shown).encode())
            return
        self._head(200, ("Transfer-Encoding", "chunked"), ("Content-Type", "application/vnd.amazon.eventstream"))
        with suppress(ConnectionError):
            for chunk in answer["events"]:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            self.wfile.write(b"0\r\n\r\n")
            return
        self.close_connection = True

    def _whole(self, status: int, body: bytes) -> None:
        self._head(status, ("Content-Length", str(len(body))), ("Content-Type", "application/x-amz-json-1.1"))
        self.wfile.write(body)

    def _head(self, status: int, *headers: tuple[str, str]) -> None:
        self.send_response_only(status)
        for name, value in (*headers, ("Date", formatdate(self.service.clock.now_ms() / 1000, usegmt=True))):
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _shown(value: object) -> object:
    if isinstance(value, datetime):
        return value.timestamp()
    assert isinstance(value, bytes)
    return base64.b64encode(value).decode()


class FanOutServer:
    """Serves the double on a port of its own until it is closed."""

    def __init__(self, service: FanOutKinesis) -> None:
        self._handler = type("Handler", (_Handler,), {"service": service})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign] # readers hang up
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def serve(self, service: FanOutKinesis) -> None:
        """Serve another one."""
        self._handler.service = service  # type: ignore[attr-defined] # made above

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
