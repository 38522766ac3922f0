"""Spans of time as people write them."""

import re
from collections.abc import Mapping
from typing import Final

from minutebook.errors import SettingsError

SLOT_SECONDS: Final = 300
"""The distance of two boundaries if `minutebook.completeSlotSeconds` is left out."""

_HOUR_SECONDS: Final = 3600
_UNITS: Final[Mapping[str, int]] = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_SPAN: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)([smhd]?)", re.ASCII)


def parse_span(text: str, option: str) -> float:
    """Return the seconds of a span such as 5m, 300s, 1.5h or 90; raises SettingsError that names `option`."""
    match = _SPAN.fullmatch(text)
    if match is None:
        raise SettingsError(f"not a span of time: {text!r}", next_step=f"write it as {option} 5m, 300s or 2h")
    return float(match[1]) * _UNITS[match[2]]


def parse_slot(text: str) -> int:
    """Return the seconds between two boundaries, of `minutebook.completeSlotSeconds`; 0 for no boundaries.

    Raises ValueError unless they are whole minutes that divide an hour.
    """
    number = int(text) if re.fullmatch(r"[0-9]{1,4}", text, re.ASCII) else -1
    if number == 0 or (number > 0 and number % 60 == 0 and _HOUR_SECONDS % number == 0):
        return number
    raise ValueError(f"must be 0, or whole minutes that divide an hour, such as 300 or 3600, not {text!r}")
