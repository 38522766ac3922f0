"""A day whose payloads are flights, some of which do not fit their columns, in ten ways and more."""

import json
from collections.abc import Callable, Sequence
from itertools import count, cycle

import msgspec

from compaction.columns.counts import TypedCounts
from compaction.job.context import Engine
from compaction.tasks.finished import Part
from compaction.tasks.task import Order, TaskResult
from demo.flights import read_flights
from minutebook.format.day import Day
from tests.corpus.auditing import in_process
from tests.corpus.model import Corpus, Shape

COLUMNS = {
    "flight_id": {"path": "event_id", "type": "string", "required": True},
    "carrier": {"type": "string"},
    "year": {"type": "int32"},
    "flight": {"type": "int64"},
    "distance": {"type": "float64"},
    "dep_delay": {"type": "int64"},
    "price": {"path": "fare.price", "type": "decimal(10,2)"},
    "departs": {"path": "time_hour", "type": "timestamp"},
    "flown_on": {"path": "date", "type": "date"},
    "stops": {"type": "list<string>"},
    "fare": {"type": "json"},
}
"""A mapping, as its file has it; `path` is the name where none is said."""

Spoil = Callable[[str], bytes]


def _instead(name: str, text: str) -> Spoil:
    """Let a field hold another JSON text."""

    def spoil(payload: str) -> bytes:
        fields = json.loads(payload)
        fields[name] = "@@"
        return json.dumps(fields).replace('"@@"', text).encode()

    return spoil


MISFITS: dict[str, Spoil] = {
    "payload: not UTF-8 text": lambda payload: payload.encode().replace(b"UA", b"\xff") + b"\xfe",
    "payload: not JSON: Expecting value: line 1 column 1 (char 0)": lambda _: b"hello",
    "payload: a list, not an object": lambda payload: f"[{payload}]".encode(),
    "payload: nested deeper than 100": lambda _: b'{"x":' * 200 + b"1" + b"}" * 200,
    'payload: the key "carrier" is there several times; carrier: the key is there several times': (
        lambda payload: payload.replace("{", '{"carrier":"ZZ",', 1).encode()
    ),
    "payload: NaN is not JSON; dep_delay: NaN is not a JSON number": _instead("dep_delay", "NaN"),
    "flight_id: missing or null, and required": _instead("event_id", "null"),
    'price: "12x" is not decimal(10,2)': _instead("fare", '{"price":"12x"}'),
    "price: 0.125 has more than 2 digits behind the point": _instead("fare", '{"price":0.125}'),
    "price: 100000000 is out of the range of decimal(10,2)": _instead("fare", '{"price":100000000}'),
    "flight: 9223372036854775808 is out of the range of int64": _instead("flight", str(2**63)),
    "year: 2013.0 is not int32": _instead("year", "2013.0"),
    "distance: 9007199254740993 would lose digits as float64": _instead("distance", str(2**53 + 1)),
    'departs: "2013-01-01 05:00" is not timestamp': _instead("time_hour", '"2013-01-01 05:00"'),
    'flown_on: "2013-02-30" is not date': _instead("date", '"2013-02-30"'),
    "stops[]: 7 is not string (at [1])": _instead("stops", '["JFK",7]'),
}
"""What a producer did to a payload, by the reason that its row gives."""


def flown(payload: bytes) -> str:
    """Return a flight with what the columns ask for beside."""
    fields = json.loads(payload)
    more = {
        "fare": {"price": f"{fields['distance']}.50"},
        "date": fields["time_hour"][:10],
        "stops": [fields["dest"]],
    }
    return json.dumps({**fields, **more}, separators=(",", ":"))


def payload_day(day: Day, records: int, payload_of: Callable[[int], bytes]) -> Corpus:
    """Return a day of so many records a segment, whose payloads are made in their order: shard by shard."""
    corpus = Corpus(day, shape=Shape(records=records))
    numbers = count()
    for segment in (shard.segments[index] for shard in corpus.shards for index in shard.in_day(day)):
        segment.records = [
            msgspec.structs.replace(record, data=payload_of(next(numbers))) for record in segment.records
        ]
        total = sum(len(record.data) for record in segment.records)
        segment.metadata = msgspec.structs.replace(segment.metadata, payload_bytes=total)
        segment.seal()
    return corpus


def typed_day(day: Day, flights: int, every: int) -> tuple[Corpus, list[str | None]]:
    """Return a day of flights, each `every`-th of which does not fit, and their reasons (None: it fits), in order."""
    payloads = read_flights()
    spoils = cycle(MISFITS.items())
    reasons: list[str | None] = []

    def payload_of(number: int) -> bytes:
        reason, spoil = next(spoils) if number % every == 0 else (None, str.encode)
        reasons.append(reason)
        return spoil(flown(next(payloads).data))

    corpus = payload_day(day, flights // Corpus(day, shape=Shape(records=1)).records, payload_of)
    return corpus, reasons


def miscounting(change: Callable[[TypedCounts], TypedCounts]) -> Engine:
    """Return an engine whose tasks state other counts of their typed columns than they have made."""

    def run(orders: Sequence[Order]) -> list[TaskResult]:
        return [result._replace(part=restated(result.part)) for result in in_process(orders)]

    def restated(part: Part | None) -> Part | None:
        return part if part is None or part.typed is None else part._replace(typed=change(part.typed))

    return run
