"""Why a payload does not fit its columns: kinds that are counted, and sentences for a person."""

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
"""Stands for a column where the payload itself is wrong."""
_LONGEST: Final = 40
_MOST: Final = 5


class Misfit(NamedTuple):
    """One value that does not fit. `path` leads to it from its column, as in `.zip` or `[3]`."""

    kind: Kind
    what: str
    path: str = ""

    def below(self, step: str) -> "Misfit":
        """Return it as seen from one level higher."""
        return self._replace(path=step + self.path)


class Ambiguous:
    """Stands for the value of a key that an object has several times."""


class NotANumber:
    """Stands for NaN, Infinity and -Infinity, which JSON does not know and Python's encoder writes."""

    def __init__(self, text: str) -> None:
        self.text = text


def reason(misfits: Sequence[tuple[str, Misfit]]) -> str:
    """Return the text of `_unfit` for (column, misfit) of one row."""
    said = [f"{column}{misfit.path}: {misfit.what}" for column, misfit in misfits[:_MOST]]
    more = len(misfits) - _MOST
    return "; ".join([*said, f"and {more} more"] if more > 0 else said)


def shown(value: object) -> str:
    """Return a value as a reason shows it: short, in one line, whatever a producer wrote."""
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
