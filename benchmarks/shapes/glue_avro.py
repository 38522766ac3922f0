"""Avro behind the header of Glue's schema registry, in two versions of a schema, bare or compressed.

    version 1    id, n (int), amount (decimal(10,2)), at, day, blob, kind, who, tags, labels, ratio
    version 2    n is a long, amount decimal(18,2); note and lines come, and who has a tier

They mix, as producers are brought up to date one by one; some still send JSON.
"""

import base64
import io
import uuid
import zlib
from datetime import date, timedelta
from typing import Any, Final

import fastavro

from benchmarks.shapes.sent import (
    Event,
    Sent,
    Shape,
    Written,
    body,
    cents,
    drawn,
    moment,
    one,
    unread,
    word,
)

_Values = dict[str, Any]
_COLUMNS: Final = """
decode = ["glue-registry"]
[columns.id]
type = "string"
[columns.n]
type = "int64"
[columns.amount]
type = "decimal(18,2)"
[columns.at]
type = "timestamp(us)"
[columns.day]
type = "date(days)"
[columns.blob]
type = "string"
[columns.kind]
type = "string"
[columns.who]
type = "struct<id: int64, name: string, tier: string>"
[columns.tags]
type = "list<string>"
[columns.labels]
type = "map<string, int64>"
[columns.ratio]
type = "float64"
[columns.note]
type = "string"
[columns.items]
path = "lines"
type = "list<struct<sku: string, price: decimal(14,2), quantity: int32>>"
"""


def _decimal(precision: int) -> _Values:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2}


def _schema(*, is_second: bool) -> _Values:
    who = [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}]
    if is_second:
        who.append({"name": "tier", "type": ["null", "string"], "default": None})
    fields = [
        {"name": "id", "type": "string"},
        {"name": "n", "type": "long" if is_second else "int"},
        {"name": "amount", "type": _decimal(18 if is_second else 10)},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "blob", "type": ["null", "bytes"]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {"name": "who", "type": {"type": "record", "name": "Who", "fields": who}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "labels", "type": {"type": "map", "values": "long"}},
        {"name": "ratio", "type": "double"},
    ]
    if is_second:
        line = [
            {"name": "sku", "type": "string"},
            {"name": "price", "type": _decimal(14)},
            {"name": "quantity", "type": "int"},
        ]
        items = {"type": "record", "name": "Line", "fields": line}
        fields += [
            {"name": "note", "type": ["null", "string"], "default": None},
            {"name": "lines", "type": {"type": "array", "items": items}},
        ]
    return {"type": "record", "name": "Order", "fields": fields}


SCHEMAS: Final = {
    uuid.UUID(int=(0xF << 124) + version): _schema(is_second=version == 2)  # noqa: PLR2004 - of two
    for version in (1, 2)
}
"""The versions that a registry must know, by their ids."""
_UNKNOWN: Final = uuid.UUID(int=0xE << 124)


def _order(number: int, *, is_second: bool) -> _Values:
    """Return the values of an order."""
    source = drawn(number)
    order: _Values = {
        "id": f"order-{number}",
        "n": source.randrange(1 << 60) if is_second else source.randrange(-(1 << 31), 1 << 31),
        "amount": cents(source, 18 if is_second else 10),
        "at": moment(source),
        "day": date(1, 1, 1) + timedelta(days=source.randrange(3_652_059)),
        "blob": source.choice([None, source.randbytes(5)]),
        "kind": source.choice(["NEW", "OLD"]),
        "who": {"id": source.randrange(1 << 63), "name": source.choice([None, word(source)])},
        "tags": [word(source) for _ in range(source.randrange(3))],
        "labels": {f"k{each}": source.randrange(1 << 62) for each in range(source.randrange(3))},
        "ratio": source.choice([0.1, -0.0, 5e-324, 1.5e300]),
    }
    if is_second:
        order["who"]["tier"] = source.choice([None, "gold"])
        order["note"] = source.choice([None, word(source)])
        order["lines"] = [
            {"sku": word(source), "price": abs(cents(source, 14)), "quantity": source.randrange(1 << 31)}
            for _ in range(source.randrange(3))
        ]
    return order


def _row(order: _Values) -> _Values:
    row = {name: value for name, value in order.items() if name != "lines"}
    row["blob"] = None if order["blob"] is None else base64.b64encode(order["blob"]).decode()
    row["items"] = order.get("lines")
    return row


def _avro(order: _Values, schema: _Values) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), order)
    return stream.getvalue()


def _behind_header(version: uuid.UUID, avro: bytes, *, is_compressed: bool) -> bytes:
    """Return what AWS's serializers write."""
    return bytes([3, 5 if is_compressed else 0]) + version.bytes + (zlib.compress(avro) if is_compressed else avro)


def _send(number: int, _: int) -> Sent:
    is_second, at = number % 3 == 0, number % 16
    version = [*SCHEMAS][is_second]
    order = _order(number, is_second=is_second)
    row, schema = _row(order), SCHEMAS[version]
    if at == 1:  # a producer that still sends JSON
        return one(body({"id": order["id"], "n": order["n"], "amount": Written(str(order["amount"]))}), _few(row))
    if at == 3:  # noqa: PLR2004
        return unread(
            _behind_header(_UNKNOWN, _avro(order, schema), is_compressed=False),
            f" (glue-registry): there is no schema {_UNKNOWN}",
        )
    if at == 5:  # noqa: PLR2004
        payload = _behind_header(version, _avro(order, schema) + b"abc", is_compressed=False)
        return unread(payload, " (glue-registry): 3 bytes are left: not of its schema")
    if at == 7:  # noqa: PLR2004
        payload = _behind_header(version, _avro(order | {"ratio": float("nan")}, schema), is_compressed=True)
        why = "payload: NaN is not JSON; ratio: NaN is not a JSON number"
        return Sent(payload, [Event(row | {"ratio": None}, why)])
    if at == 9:  # noqa: PLR2004 - a day that no calendar has
        payload = _behind_header(version, _avro(order | {"day": 2_932_897}, schema), is_compressed=False)
        return one(payload, row | {"day": None}, "day: 2932897 is out of the range of date(days)")
    return one(_behind_header(version, _avro(order, schema), is_compressed=number % 2 == 0), row)


def _few(row: _Values) -> _Values:
    return {name: row[name] for name in ("id", "n", "amount")}


GLUE_AVRO: Final = Shape("Avro of Glue's registry", _COLUMNS, _send)
