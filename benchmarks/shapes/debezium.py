"""Changes of a database as Debezium writes them, while its schema drifts: in the middle of the day rows get new keys.

first half     id, price, quantity, name, born, seen
second half    also tier, which the columns name, and loyalty, which they do not; quantity exceeds 32 bits
"""

from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, Final

from benchmarks.shapes.sent import (
    Sent,
    Shape,
    body,
    cents,
    days_since_1970,
    drawn,
    microseconds,
    moment,
    one,
    unread,
    word,
)

_ROW: Final = (
    "struct<id: int64 not null, price: decimal(10,2), quantity: int64, name: string, tier: string, "
    "born: date(days), seen: timestamp(us)>"
)
_COLUMNS: Final = f"""
[columns.op]
type = "string"
required = true
[columns.at]
path = "ts_ms"
type = "timestamp(ms)"
[columns.before]
type = "{_ROW}"
[columns.after]
type = "{_ROW}"
[columns.source]
type = "struct<db: string, table: string, lsn: int64, from: string>"
"""
NEW_KEYS: Final = ("after.loyalty", "before.loyalty")
"""The keys that appear in the middle of the day, and that no column reads."""
_Values = dict[str, Any]


def _state(number: int, seed: int, *, is_late: bool) -> _Values:
    """Return the values of a row of the database."""
    source = drawn(seed)
    return {
        "id": number,
        "price": cents(source),
        "quantity": source.randrange(1 << 31, 1 << 45) if is_late else source.randrange(100),
        "name": None if source.randrange(5) == 0 else word(source),
        "tier": source.choice(["gold", "silver"]) if is_late else None,
        "born": date(1, 1, 1) + timedelta(days=source.randrange(3_652_059)),
        "seen": moment(source),
    }


def _written(state: _Values, *, is_late: bool) -> _Values:
    """Return a row as Debezium writes it: decimals as text, dates and times as numbers."""
    row = state | {
        "price": None if state["price"] is None else str(state["price"]),
        "born": days_since_1970(state["born"]),
        "seen": microseconds(state["seen"]),
    }
    if is_late:
        return row | {"loyalty": {"points": 7}}
    del row["tier"]
    return row


def _fine(change: _Values, row: _Values) -> str:
    change["after"]["price"], row["after"]["price"] = "1.234", None
    return 'after.price: "1.234" has more than 2 digits behind the point'


def _both(change: _Values, row: _Values) -> str:
    for name in ("before", "after"):
        change[name]["price"], row[name]["price"] = Decimal("-7.005"), None
    return "; ".join(f"{name}.price: -7.005 has more than 2 digits behind the point" for name in ("before", "after"))


def _without_id(change: _Values, row: _Values) -> str:
    del change["after"]["id"]
    row["after"]["id"] = None
    return "after.id: missing or null, and required"


def _text(change: _Values, row: _Values) -> str:
    change["after"], row["after"] = "__debezium_unavailable_value", None
    return f'after: "__debezium_unavailable_value" is not {_ROW}'


def _six(change: _Values, row: _Values) -> str:
    change["after"] = {"id": 1.5, "price": "x", "quantity": "y", "name": 7, "tier": [], "born": 2_932_897, "seen": {}}
    row["after"] = dict.fromkeys(row["after"])
    return (
        'after.id: 1.5 is not int64; after.price: "x" is not decimal(10,2); after.quantity: "y" is not int64; '
        "after.name: 7 is not string; after.tier: a list of 0 is not string; also after.born, after.seen"
    )


def _source(change: _Values, row: _Values) -> str:
    change["source"]["lsn"], row["source"]["lsn"] = 1 << 63, None
    return "source.lsn: 9223372036854775808 is out of the range of int64"


def _op(change: _Values, row: _Values) -> str:
    change["op"] = row["op"] = None
    return "op: missing or null, and required"


_MISFITS: Final[tuple[Callable[[_Values, _Values], str], ...]] = (
    _fine,
    _both,
    _without_id,
    _text,
    _six,
    _source,
    _op,
)


def _send(number: int, day_size: int) -> Sent:
    is_late = number >= day_size // 2
    if number % 17 == 3:  # noqa: PLR2004 - what Debezium's server writes for a tombstone
        return unread(b"default", ": not JSON: Expecting value: line 1 column 1 (char 0)")
    is_bad = number % 4 == 1
    op = "u" if is_bad else "crud"[number // 4 % 4]
    before = _state(number, number, is_late=is_late) if op in "ud" else None
    after = None if op == "d" else _state(number, ~number, is_late=is_late)
    when = moment(drawn(number))
    row: _Values = {
        "op": op,
        "at": when.replace(microsecond=when.microsecond // 1000 * 1000),
        "before": before,
        "after": after,
        "source": {"db": "shop", "table": "orders", "lsn": number << 40, "from": None},
    }
    change: _Values = {
        "before": None if before is None else _written(before, is_late=is_late),
        "after": None if after is None else _written(after, is_late=is_late),
        "source": {"version": "3.0", "db": "shop", "table": "orders", "lsn": number << 40},
        "op": op,
        "ts_ms": microseconds(when) // 1000,
        "transaction": None,
    }
    row = row | {name: dict(row[name]) for name in ("before", "after") if row[name] is not None}
    why = _MISFITS[number // 4 % len(_MISFITS)](change, row) if is_bad else None
    return one(body(change), row, why)


DEBEZIUM: Final = Shape("Debezium with drift", _COLUMNS, _send)
