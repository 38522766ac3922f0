"""Reasons why a payload does not fit its columns: a kind to count, and a sentence for a person."""

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Final, Literal, NamedTuple

Kind = Literal[
    "not_utf8",
    "not_json",
    "not_an_object",
    "too_long",
    "too_deep",
    "duplicate_key",
    "not_a_number",
    "bad_path",
    "missing",
    "wrong_type",
    "out_of_range",
    "lossy",
    "invalid",
    "far_off",
]
PAYLOAD: Final = "payload"
"""The column name of misfits that concern the payload itself."""
_LONGEST: Final = 40
_MOST: Final = 5


class Misfit(NamedTuple):
    """One value that does not fit; `path` is its place within the column, as in `.zip` or `[3]`."""

    kind: Kind
    what: str
    path: str = ""

    def below(self, step: str) -> "Misfit":
        """Return the misfit with `step` put before its path."""
        return self._replace(path=step + self.path)


class Ambiguous:
    """The value of a key that occurs several times in an object."""


class NotANumber:
    """NaN, Infinity or -Infinity: not JSON, but written by Python's encoder."""

    def __init__(self, text: str) -> None:
        self.text = text


def reason(misfits: Sequence[tuple[str, Misfit]]) -> str:
    """Return the text of `_unfit` for the misfits (column, misfit) of one row."""
    texts = [f"{column}{misfit.path}: {misfit.what}" for column, misfit in misfits[:_MOST]]
    more = len(misfits) - _MOST
    return "; ".join([*texts, f"and {more} more"] if more > 0 else texts)


def is_unicode(text: str) -> bool:
    """Return whether a text can be encoded: it has no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(value: object) -> str:
    """Return a value for a reason: short and on one line, whatever a producer wrote."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, str):
        text = json.dumps(value[:_LONGEST], ensure_ascii=False)
        return text.encode(errors="backslashreplace").decode() + ("…" if len(value) > _LONGEST else "")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > _LONGEST * 4:
        return f"a number of {value.bit_length()} bits"
    text = str(value) if isinstance(value, int | float | Decimal) else type(value).__name__
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
