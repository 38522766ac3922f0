"""Values that producers put into their payloads: event ids, sequence numbers, producer keys.

Payloads are untrusted bytes: a payload that is not JSON, or lacks the value, has none. Nothing is evaluated but the
user's own JMESPath.
"""

import functools
import hashlib
import json
from collections.abc import Sequence
from typing import Any, Final

import jmespath
import msgspec

_LONGEST_ID_BYTES: Final = 512
_LONGEST_PAYLOAD_BYTES: Final = 1 << 20
"""Decoded JSON takes up to twenty times its bytes: in larger payloads nothing is looked for."""
_decode = msgspec.json.Decoder().decode


class PayloadPath:
    """One JMESPath over JSON payloads."""

    def __init__(self, expression: str) -> None:
        parsed = jmespath.compile(expression)
        names = names_of(parsed.parsed)
        self._search = parsed.search if names is None else functools.partial(_follow, names)

    def value(self, payload: bytes) -> Any:  # noqa: ANN401 - whatever the producer wrote
        """Return what the path finds; None where the payload is not JSON, is above 1 MiB, or holds nothing there."""
        if len(payload) > _LONGEST_PAYLOAD_BYTES:
            return None
        try:
            return self._search(_decode(payload))
        except (msgspec.MsgspecError, RecursionError, jmespath.exceptions.JMESPathError):
            return None
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            # jmespath compares and counts what it finds without looking: "a[?b > `1`]" finds a text. A producer
            # must not be able to stop a shard with one record.
            return None

    def text(self, payload: bytes) -> str | None:
        """Return the value as an id: JSON text of a string or an integer, so that 1 and "1" stay apart.

        Objects, arrays, booleans, null and the empty string are not ids. Nor are numbers with a fraction or an
        exponent: they are read as doubles, and two that differ in the text may be the same double. Long ids are
        replaced by their SHA-256: DynamoDB keys end at 2 KB.
        """
        value = self.value(payload)
        if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
            return None
        try:
            text = json.dumps(value)
        except ValueError:  # an integer of more digits than Python writes out: a sum of long ones
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


def names_of(node: dict[str, Any]) -> list[str] | None:
    """Return the names of a parsed path that is names alone, such as `event.id`; None for any other."""
    if node["type"] == "field":
        return [node["value"]]
    if node["type"] != "subexpression":
        return None
    parts = [names_of(child) for child in node["children"]]
    return None if None in parts else [name for part in parts for name in part or ()]


def _follow(names: Sequence[str], value: Any) -> Any:  # noqa: ANN401 - whatever the producer wrote
    """Do what jmespath does for names alone, three times as fast: these are nearly all paths that are in use."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
