"""Changes of a DynamoDB table as its stream to Kinesis writes them: typed attributes, sets, bytes, 38 digits."""

import base64
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from benchmarks.shapes.sent import (
    Sent,
    Shape,
    as_json,
    body,
    cents,
    drawn,
    microseconds,
    moment,
    one,
    unread,
    with_places,
    word,
)

_WHO: Final = "struct<id: int64, name: string, tier: string>"
_IMAGE: Final = "dynamodb.NewImage"
_COLUMNS: Final = f"""
decode = ["dynamodb"]
[columns.id]
path = "dynamodb.Keys.id"
type = "string"
required = true
[columns.event_name]
path = "eventName"
type = "string"
[columns.at]
path = "dynamodb.ApproximateCreationDateTime"
type = "timestamp(us)"
[columns.big]
path = "{_IMAGE}.big"
type = "decimal(38,0)"
[columns.fine]
path = "{_IMAGE}.fine"
type = "decimal(38,38)"
[columns.amount]
path = "{_IMAGE}.amount"
type = "decimal(18,2)"
[columns.blob]
path = "{_IMAGE}.blob"
type = "string"
[columns.tags]
path = "{_IMAGE}.tags"
type = "list<string>"
[columns.numbers]
path = "{_IMAGE}.numbers"
type = "list<decimal(38,2)>"
[columns.blobs]
path = "{_IMAGE}.blobs"
type = "list<string>"
[columns.who]
path = "{_IMAGE}.who"
type = "{_WHO}"
[columns.items]
path = "{_IMAGE}.lines"
type = "list<struct<sku: string, price: decimal(14,2), quantity: int32>>"
[columns.extra]
path = "{_IMAGE}.extra"
type = "json"
[columns.is_bot]
path = "{_IMAGE}.flag"
type = "bool"
"""
_Values = dict[str, Any]


class _Binary(bytes):
    """The value of an attribute B."""


class _Set(list[Any]):
    """The value of an attribute SS, NS or BS, in the order in which it is written."""


def _typed(value: Any) -> _Values:  # noqa: ANN401 - any value of DynamoDB
    """Write a value as a typed attribute."""
    if isinstance(value, _Set):
        typed = [next(iter(_typed(each).items())) for each in value]
        return {f"{typed[0][0]}S": [text for _, text in typed]}
    if isinstance(value, list):
        return {"L": [_typed(each) for each in value]}
    if isinstance(value, dict):
        return {"M": {name: _typed(each) for name, each in value.items()}}
    if value is None or isinstance(value, bool):
        return {"NULL": True} if value is None else {"BOOL": value}
    if isinstance(value, _Binary):
        return {"B": base64.b64encode(value).decode()}
    return {"S" if isinstance(value, str) else "N": str(value)}


def _image(number: int) -> _Values:
    """Return the attributes of an item."""
    source = drawn(number)
    sign = source.choice([-1, 1])
    return {
        "big": sign * source.randrange(10**37, 10**38),
        "fine": Decimal(f"{sign * source.randrange(10**37, 10**38)}e-38"),
        "amount": cents(source, 18),
        "blob": _Binary(source.randbytes(source.randrange(20))),
        "tags": _Set({word(source) for _ in range(3)}),
        "numbers": _Set({cents(source, 38), Decimal("9.00"), Decimal(-3), Decimal("10.5")}),
        "blobs": _Set(_Binary(source.randbytes(4)) for _ in range(2)),
        "who": {"id": source.randrange(1 << 63), "name": word(source), "tier": source.choice([None, "gold"])},
        "lines": [
            {"sku": word(source), "price": abs(cents(source, 14)), "quantity": source.randrange(1 << 31)}
            for _ in range(source.randrange(3))
        ],
        "extra": {"m": {"l": [1, Decimal("2.50"), [None, True], {"deep": word(source)}]}, "n": 10**37},
        "flag": source.choice([True, False, None]),
    }


def _row(image: _Values) -> _Values:
    """Return the columns of an item."""
    row = {name: image[name] for name in ("fine", "amount", "who")}
    return row | {
        "big": Decimal(image["big"]),
        "blob": base64.b64encode(image["blob"]).decode(),
        "tags": sorted(image["tags"]),
        "numbers": [with_places(each, 2) for each in sorted(image["numbers"])],
        "blobs": sorted(base64.b64encode(each).decode() for each in image["blobs"]),
        "items": image["lines"],
        "extra": as_json(image["extra"]),
        "is_bot": image["flag"],
    }


def _change(number: int, name: str, when: datetime, images: _Values) -> _Values:
    return {
        "awsRegion": "us-east-1",
        "eventID": f"{number:032x}",
        "eventName": name,
        "userIdentity": None,
        "recordFormat": "application/json",
        "tableName": "orders",
        "dynamodb": {
            "ApproximateCreationDateTime": microseconds(when),
            "Keys": {"id": {"S": f"item-{number}"}},
            **images,
            "SizeBytes": 99,
            "ApproximateCreationDateTimePrecision": "MICROSECOND",
        },
        "eventSource": "aws:dynamodb",
    }


def _send(number: int, _: int) -> Sent:
    image, when = _image(number), moment(drawn(number))
    common: _Values = {"id": f"item-{number}", "at": when}
    typed, row = {name: _typed(each) for name, each in image.items()}, _row(image)
    if number % 4 == 1:
        return _special(number, typed, common | row)
    name = "MODIFY" if number % 2 else "INSERT"
    images = {"OldImage": {"id": {"S": "x"}}, "NewImage": typed} if number % 2 else {"NewImage": typed}
    return one(body(_change(number, name, when, images)), common | row | {"event_name": name})


def _special(number: int, typed: _Values, row: _Values) -> Sent:
    """Return a change that is unlike the others."""
    name, images, why = "INSERT", {"NewImage": typed}, None
    match number // 4 % 7:
        case 0:
            name, images = "REMOVE", {"OldImage": typed}
            row = {each: row[each] for each in ("id", "at")}
        case 1:  # 39 digits in one attribute: the others stay
            typed["big"], row["big"] = {"N": "1" + "0" * 38}, None
            why = f"big: 1{'0' * 38} is out of the range of decimal(38,0)"
        case 2:  # a text where a number was
            typed["who"] = _typed({"id": "x", "name": "n"})
            row["who"], why = {"id": None, "name": "n"}, 'who.id: "x" is not int64'
        case 3:  # a set of prices, one of them too fine
            typed["numbers"] = {"NS": ["3", "0.125", "-1"]}
            row["numbers"] = [Decimal("-1.00"), None, Decimal("3.00")]
            why = "numbers[]: 0.125 has more than 2 digits behind the point (at [1])"
        case 4:  # with an exponent, as SDKs may send numbers
            typed["amount"], row["amount"] = {"N": "1.5E+3"}, Decimal("1500.00")
        case 5:
            typed["odd"], row = {"Q": "1"}, {}
            why = "payload (dynamodb): NewImage.odd is of type 'Q', which DynamoDB does not have"
        case 6:
            return unread(body({"id": 1}), " (dynamodb): not a change record of DynamoDB: it has no dynamodb.Keys")
    when = moment(drawn(number))
    return one(body(_change(number, name, when, images)), row | {"event_name": name} if row else row, why)


DYNAMODB: Final = Shape("DynamoDB CDC", _COLUMNS, _send)
