"""Clicks as a web page sends them: plain JSON with nested objects and lists."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

from benchmarks.shapes.sent import Sent, Shape, Written, as_json, body, cents, drawn, moment, one, unread, word

_WHO: Final = "struct<id: int64, name: string>"
_COLUMNS: Final = f"""
[columns.id]
type = "string"
required = true
[columns.n]
type = "int32"
[columns.amount]
path = "cart.total"
type = "decimal(10,2)"
[columns.page]
path = "page.url"
type = "string"
[columns.at]
type = "timestamp"
[columns.day]
type = "date"
[columns.ratio]
type = "float64"
[columns.is_bot]
type = "bool"
[columns.who]
type = "{_WHO}"
[columns.items]
path = "cart.items"
type = "list<struct<sku: string, price: decimal(10,2)>>"
[columns.tags]
type = "list<string>"
[columns.extra]
type = "json"
"""
_DOUBLES: Final = (0.1, -0.0, 5e-324, 1.7976931348623157e308, 1e22, 0.0, -1.5, 123456789.125)
_Values = dict[str, Any]
_Change = Callable[[_Values, _Values], str | None]
"""Changes what is sent and what must be read; returns the reason, None where all of it fits."""


def _values(number: int) -> _Values:
    """Return what a click is: the values of its columns."""
    source = drawn(number)
    items = [{"sku": f"sku-{source.randrange(100)}", "price": abs(cents(source))} for _ in range(source.randrange(4))]
    return {
        "id": f"click-{number}",
        "n": source.randrange(-(1 << 31), 1 << 31),
        "amount": cents(source),
        "page": f"https://shop.example/{word(source)}",
        "at": moment(source),
        "day": date(source.randrange(1, 10_000), 1 + source.randrange(12), 1 + source.randrange(28)),
        "ratio": _DOUBLES[number % len(_DOUBLES)],
        "is_bot": source.random() < 0.5,  # noqa: PLR2004 - one in two
        "who": {"id": source.randrange(-(1 << 63), 1 << 63), "name": word(source)},
        "items": items,
        "tags": [word(source) for _ in range(source.randrange(3))],
        "extra": as_json({"z": [1, 2.5, None, {"a": word(source)}], "big": 10**30}),
    }


def _click(values: _Values) -> _Values:
    """Return the object that is sent."""
    return {
        "id": values["id"],
        "n": values["n"],
        "cart": {
            "total": str(values["amount"]),
            "items": values["items"],
            "currency": "EUR",
        },
        "page": {"url": values["page"], "referrer": None},
        "at": values["at"].isoformat(),
        "day": values["day"].isoformat(),
        "ratio": values["ratio"],
        "is_bot": values["is_bot"],
        "who": values["who"],
        "tags": values["tags"],
        "extra": Written(values["extra"]),
    }


def _without_id(click: _Values, row: _Values) -> str:
    click["id"] = row["id"] = None
    return "id: missing or null, and required"


def _large(click: _Values, row: _Values) -> str:
    click["n"], row["n"] = 1 << 31, None
    return "n: 2147483648 is out of the range of int32"


def _fine_price(click: _Values, row: _Values) -> str:
    prices = [Decimal(1), Decimal("0.125"), Decimal("2.50"), Decimal("3.001")]
    click["cart"]["items"] = [{"sku": "s", "price": price} for price in prices]
    row["items"] = [{"sku": "s", "price": price} for price in (Decimal("1.00"), None, Decimal("2.50"), None)]
    return "items[].price: 0.125 has more than 2 digits behind the point (2 values, the first at [1])"


def _item_of_text(click: _Values, row: _Values) -> str:
    click["cart"]["items"] = ["x", {"sku": "s"}, None, {}]
    row["items"] = [None, {"sku": "s", "price": None}, None, {"sku": None, "price": None}]
    return 'items[]: "x" is not struct<sku: string, price: decimal(10,2)> (at [0])'


def _who_id(click: _Values, row: _Values) -> str:
    click["who"] = {"id": "x", "name": "n"}
    row["who"] = {"id": None, "name": "n"}
    return 'who.id: "x" is not int64'


def _who_of_text(click: _Values, row: _Values) -> str:
    click["who"], row["who"] = "x", None
    return f'who: "x" is not {_WHO}'


def _tags(click: _Values, row: _Values) -> str:
    click["tags"], row["tags"] = {"a": 1}, None
    return "tags: an object is not list<string>"


def _lone_surrogate(click: _Values, row: _Values) -> str:
    click["page"]["url"], row["page"] = Written('"\\ud800"'), None
    return 'page: "\\ud800" is not valid Unicode'


def _many(click: _Values, row: _Values) -> str:
    click |= {"n": 1.5, "at": "noon", "day": "2026-02-30", "ratio": 2**53 + 1, "is_bot": "yes", "tags": 7}
    row |= dict.fromkeys(("n", "at", "day", "ratio", "is_bot", "tags"))
    return (
        'n: 1.5 is not int32; at: "noon" is not timestamp; day: "2026-02-30" is not date; '
        'ratio: 9007199254740993 would lose digits as float64; is_bot: "yes" is not bool; also tags'
    )


def _nothing(click: _Values, row: _Values) -> None:
    for name in [name for name in click if name != "id"]:
        del click[name]
    row |= dict.fromkeys(row.keys() - {"id"})


def _empty(click: _Values, row: _Values) -> None:
    click |= {"who": {}, "tags": [], "extra": [], "page": {}}
    click["cart"]["items"] = [{}]
    row |= {"who": {"id": None, "name": None}, "tags": [], "extra": "[]", "page": None}
    row["items"] = [{"sku": None, "price": None}]


def _escaped(click: _Values, row: _Values) -> None:
    click["page"]["url"] = Written('"\\u0000\\ud83d\\ude00\\/"')
    row["page"] = "\0😀/"
    click["extra"], row["extra"] = Written('"a\\u00e9"'), '"aé"'


def _ends(click: _Values, row: _Values) -> None:
    click |= {"at": "9999-12-31T23:59:59.999999Z", "day": "0001-01-01"}
    click["cart"]["total"] = Decimal("99999999.99")
    row |= {"at": datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), "day": date(1, 1, 1)}
    row["amount"] = Decimal("99999999.99")


_CHANGES: Final[tuple[_Change, ...]] = (
    _without_id,
    _large,
    _fine_price,
    _item_of_text,
    _who_id,
    _who_of_text,
    _tags,
    _lone_surrogate,
    _many,
    _nothing,
    _empty,
    _escaped,
    _ends,
)


def _not_json(click: _Values, row: _Values) -> Sent:
    del row
    return unread(as_json(click)[:-1].encode()[:20] + b"\xff", ": not UTF-8 text")


def _hello(_: _Values, __: _Values) -> Sent:
    return unread(b"hello", ": not JSON: Expecting value: line 1 column 1 (char 0)")


def _two(_: _Values, __: _Values) -> Sent:
    return unread(b'{"id":"a"} {"id":"b"}', ": several JSON documents: 2")


def _list(click: _Values, _: _Values) -> Sent:
    return unread(body([click]), ": a list, not an object")


def _doubled(click: _Values, row: _Values) -> Sent:
    payload = as_json(click).replace("{", '{"n":1,', 1).encode()
    why = 'payload: the key "n" is there several times; n: the key is there several times'
    return one(payload, row | {"n": None}, why)


def _nan(click: _Values, row: _Values) -> Sent:
    payload = body(click | {"ratio": Written("NaN")})
    return one(payload, row | {"ratio": None}, "payload: NaN is not JSON; ratio: NaN is not a JSON number")


_BROKEN: Final = (_not_json, _hello, _two, _list, _doubled, _nan)


def _send(number: int, _: int) -> Sent:
    row = _values(number)
    click, special = _click(row), number // 2
    if number % 2 == 0:
        return one(body(click), row)
    at = special % (len(_CHANGES) + len(_BROKEN))
    if at >= len(_CHANGES):
        return _BROKEN[at - len(_CHANGES)](click, row)
    why = _CHANGES[at](click, row)
    return one(body(click), row, why)


CLICKSTREAM: Final = Shape("clickstream", _COLUMNS, _send)
