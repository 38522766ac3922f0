"""What the daemon writes into a processor's pipe: batches of records of one shape, the same on every run."""

import base64
import json
import random
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import Final, NamedTuple

from demo.flights import read_flights
from minutebook.format.record import Record, encode_lines

SHARD: Final = "shardId-000000000000"
MINUTE_MS: Final = 60_000
_FIRST: Final = 49680430009993180326445188721472315949130085524050018306
_START_MS: Final = 1_780_000_020_000
"""A minute of May 2026: the past, for every clock that is right."""
_LETTERS: Final = "etaoin shrdlu 0123456789"
_AGGREGATED: Final = 100
_FLIGHTS: Final = 20_000


class Pace(NamedTuple):
    """How a shard's records come: so many a batch, and so many batches a minute."""

    batch_records: int = 1000
    batches_per_minute: int = 60


class Shape(NamedTuple):
    """Payloads of about `payload_bytes`; `make` makes one. `aggregated` records share a sequence number."""

    name: str
    payload_bytes: int
    make: Callable[[random.Random, int, int], bytes]
    aggregated: int = 1


class Input(NamedTuple):
    """Messages of the daemon, how much payload is in them, and the lines that must become of them."""

    messages: list[bytes]
    records: int
    payload_bytes: int
    lines: bytes


def _text(rng: random.Random, number: int, payload_bytes: int) -> bytes:
    event = {"id": number, "carrier": rng.choice(("UA", "AA", "DL", "B6")), "distance": rng.randrange(5000)}
    pad = max(0, payload_bytes - len(json.dumps(event)) - 12)
    return json.dumps({**event, "note": "".join(rng.choices(_LETTERS, k=pad))}).encode()


def _binary(rng: random.Random, number: int, payload_bytes: int) -> bytes:
    # Half of it can be compressed, as in most binary formats; the first byte is no UTF-8.
    return b"\xff" + number.to_bytes(8, "big") + rng.randbytes(payload_bytes // 2) + bytes(payload_bytes // 2 - 9)


@cache
def _flights() -> list[bytes]:
    return [event.data for event in islice(read_flights(), _FLIGHTS)]


def _flight(rng: random.Random, number: int, payload_bytes: int) -> bytes:  # noqa: ARG001 - as the others
    """Return a real event: its fields' names and most of its values were seen before, as in most streams."""
    return _flights()[number % _FLIGHTS]


SHAPES: Final = {
    shape.name: shape
    for shape in (
        Shape("200 B", 200, _text),
        Shape("1 KB", 1000, _text),
        Shape("10 KB", 10_000, _text),
        Shape("binary 1 KB", 1000, _binary),
        Shape("KPL 200 B", 200, _text, _AGGREGATED),
        Shape("flights", 330, _flight),
    )
}


def make_input(shape: Shape, total_bytes: int, pace: Pace) -> Input:
    """Return about `total_bytes` of payload."""
    messages: list[bytes] = []
    lines: list[bytes] = []
    records = payload_bytes = 0
    batches = _batches(shape, pace)
    while payload_bytes < total_bytes:
        batch = next(batches)
        messages.append(_message(batch))
        lines.append(encode_lines(SHARD, batch))
        records += len(batch)
        payload_bytes += sum(len(record.data) for record in batch)
    return Input(messages, records, payload_bytes, b"".join(lines))


def _batches(shape: Shape, pace: Pace) -> Iterator[list[Record]]:
    rng = random.Random(1)  # noqa: S311 - the same input on every run
    number = count = 0
    while True:
        arrival_ms = _START_MS + count * (MINUTE_MS // pace.batches_per_minute)
        batch = []
        for _ in range(pace.batch_records):
            sequence, sub = divmod(number, shape.aggregated)
            data = shape.make(rng, number, shape.payload_bytes)
            batch.append(Record(str(_FIRST + sequence), sub, f"N{number % 997}", arrival_ms, data))
            number += 1
        yield batch
        count += 1


def _message(batch: list[Record]) -> bytes:
    """Return what the daemon makes of a batch (ProcessRecordsMessage.java, JsonFriendlyRecord.java)."""
    records = [
        {
            "action": "record",
            "data": base64.b64encode(record.data).decode(),
            "partitionKey": record.partition_key,
            "sequenceNumber": record.sequence_number,
            "approximateArrivalTimestamp": record.arrival_ms,
            "subSequenceNumber": record.sub_sequence_number,
        }
        for record in batch
    ]
    message = {"action": "processRecords", "records": records, "millisBehindLatest": 0}
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"
