"""Values in producers' payloads: event ids, sequence numbers, producer keys.

Payloads are untrusted: one that is not JSON, or lacks the value, yields None. Only the user's own JMESPath is
evaluated.
"""

import functools
import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import jmespath
import msgspec

_LONGEST_ID_BYTES: Final = 512
MAX_PAYLOAD_BYTES: Final = 10 << 20
"""The most bytes of a Kinesis record since October 2025."""
_SMALL_BYTES: Final = 1 << 20
_MOST_VALUES: Final = 500_000
"""Values of a payload above 1 MiB, as many as fit one of 1 MiB: `[],` takes 24 times its bytes when decoded."""
JSON_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|\\?\Z)', re.DOTALL)
"""A string, terminated or not: otherwise each quote of an unterminated one would be tried as another start."""
_decode = msgspec.json.Decoder().decode


def is_decodable(payload: bytes) -> bool:
    """Return whether a payload may be decoded as JSON without taking more memory than one of 1 MiB may."""
    if len(payload) <= _SMALL_BYTES:
        return True
    if len(payload) > MAX_PAYLOAD_BYTES:
        return False
    return _values(payload) <= _MOST_VALUES or _values(JSON_STRING.sub(b"", payload)) <= _MOST_VALUES


def _values(text: bytes) -> int:
    """Return at least how many values a JSON text has; commas and brackets in strings count, too."""
    return text.count(b",") + text.count(b"{") + text.count(b"[")


class PayloadPath:
    """One JMESPath over JSON payloads."""

    def __init__(self, expression: str) -> None:
        parsed = jmespath.compile(expression)
        names = names_of(parsed.parsed)
        self._search = parsed.search if names is None else functools.partial(_follow, names)

    def value(self, payload: bytes) -> Any:  # noqa: ANN401 - whatever the producer wrote
        """Return the value at the path; None if there is none, or the payload is no JSON, or too large to decode."""
        if not is_decodable(payload):
            return None
        try:
            return self._search(_decode(payload))
        except (msgspec.MsgspecError, RecursionError, jmespath.exceptions.JMESPathError):
            return None
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            # jmespath compares values of any type, for example a text in "a[?b > `1`]". A producer must not be able
            # to stop a shard with one record.
            return None

    def text(self, payload: bytes) -> str | None:
        """Return the value as an id: JSON text of a string or an integer, so that 1 and "1" differ.

        Objects, arrays, booleans, null and the empty string are no ids. Nor are numbers with a fraction or an
        exponent: different ones may be the same double. Long ids are replaced by their SHA-256, because DynamoDB
        limits keys to 2 KB.
        """
        value = self.value(payload)
        if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
            return None
        try:
            text = json.dumps(value)
        except ValueError:  # an integer with more digits than Python formats: a sum of long ones
            return None
        if len(text) > _LONGEST_ID_BYTES:
            return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
        return text

    def number(self, payload: bytes) -> int | None:
        """Return the value as a producer's sequence number: a non-negative integer, or its decimal text."""
        value = self.value(payload)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 38:  # noqa: PLR2004
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**38:
            return value
        return None


class NumberPaths(NamedTuple):
    """The paths of a producer's sequence number and, if several producers share a shard, of the producer's key."""

    sequence: str
    key: str | None = None


class ProducerNumbers:
    """Reads by which number of which producer a payload is known."""

    def __init__(self, paths: NumberPaths) -> None:
        self._sequence = PayloadPath(paths.sequence)
        self._key = None if paths.key is None else PayloadPath(paths.key)

    def of(self, payload: bytes) -> tuple[str, int] | None:
        """Return the producer, empty if there is only one, and the number; None if either is missing."""
        number = self._sequence.number(payload)
        producer = "" if self._key is None else self._key.text(payload)
        return None if number is None or producer is None else (producer, number)


def names_of(node: dict[str, Any]) -> list[str] | None:
    """Return the names of a parsed path of names only, such as `event.id`; None for any other."""
    if node["type"] == "field":
        return [node["value"]]
    if node["type"] != "subexpression":
        return None
    parts = [names_of(child) for child in node["children"]]
    return None if None in parts else [name for part in parts for name in part or ()]


def _follow(names: Sequence[str], value: Any) -> Any:  # noqa: ANN401 - whatever the producer wrote
    """Look names up as jmespath does, three times as fast: nearly all paths in use consist of names only."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
