"""What a producer sent, and the rows that a reader of the table must see. Shares no code with the product.

A shape first makes values, then writes them as a payload. The rows are told from the values, never from the payload:

    values -> payload -> stream, archive, night, table -> a reader's row
    values -> expected row                                               compared, value by value
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any, Final, NamedTuple

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_US: Final = timedelta(microseconds=1)


class Event(NamedTuple):
    """A row: typed values by column (a column that is not there is null), and why it does not fit (None: it does).

    `event_index` numbers the events of a record that may hold several.
    """

    values: Mapping[str, Any]
    unfit: str | None = None
    event_index: int | None = None


class Sent(NamedTuple):
    """A payload, and its rows."""

    payload: bytes
    events: Sequence[Event]


class Shape(NamedTuple):
    """A day's payloads. `columns` is its file of columns; `send` makes the payload of a number of the day.

    `day_size` is given to it, too: where a schema drifts, it does in the middle of the day.
    """

    name: str
    columns: str
    send: Callable[[int, int], Sent]


def one(payload: bytes, values: Mapping[str, Any], unfit: str | None = None) -> Sent:
    """Return a payload that is one row."""
    return Sent(payload, [Event(values, unfit)])


def unread(payload: bytes, why: str) -> Sent:
    """Return a payload of which no column can be read."""
    return one(payload, {}, f"payload{why}")


def several(payload: bytes, events: Sequence[Event]) -> Sent:
    """Return a payload that is as many rows as it has events.

    Without any it is one row, with nothing in it; the index of that is null, as that of a record that is not decoded.
    """
    if len(events) == 1 and (events[0].unfit or "").startswith("payload ("):
        return Sent(payload, events)
    return Sent(payload, [event._replace(event_index=index) for index, event in enumerate(events)] or [Event({})])


def drawn(number: int) -> random.Random:
    """Return the source of chance for the payload of a number: the same in each run."""
    return random.Random(number)  # noqa: S311 - data of a test


def as_json(value: object) -> str:
    """Write JSON: without blanks, texts as they are, decimals with their digits."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{as_json(str(name))}:{as_json(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(as_json, value)) + "]"
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Written):
        return value.text
    return json.dumps(value, ensure_ascii=False)


class Written(NamedTuple):
    """A JSON value as it shall stand in the payload: `1e400`, `NaN`, `2.50`."""

    text: str


def body(value: object) -> bytes:
    """Return JSON as a payload."""
    return as_json(value).encode()


def microseconds(when: datetime) -> int:
    """Return a time in UTC, or one without a zone, as microseconds since 1970."""
    return (when.replace(tzinfo=UTC) - EPOCH) // _US


def at_microseconds(count: int) -> datetime:
    """Return the time in UTC so many microseconds after 1970."""
    return EPOCH + timedelta(microseconds=count)


def days_since_1970(day: date) -> int:
    """Return the number of a day."""
    return day.toordinal() - EPOCH.toordinal()


def cents(source: random.Random, digits: int = 10) -> Decimal:
    """Return an amount of so many digits at most, two of them behind the point."""
    return Decimal(f"{source.randrange(-(10**digits) + 1, 10**digits)}e-2")


def with_places(number: Decimal, places: int) -> Decimal:
    """Return a number with so many digits behind the point."""
    return number.quantize(Decimal(f"1e-{places}"), context=Context(prec=60))


def word(source: random.Random) -> str:
    """Return a text of a few letters, also of those that are several bytes or UTF-16 words long."""
    return "".join(source.choice('abcXYZ 0"\\/éßλ中😀\t') for _ in range(source.randrange(12)))


def moment(source: random.Random) -> datetime:
    """Return a time of 2026 in UTC, to the microsecond."""
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=source.randrange(365 * 86_400 * 10**6))
