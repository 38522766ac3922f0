"""The faults of a connection, and which of them a request meets: drawn from a seed, nothing else.

processor ----> proxy ----> server
         cut before: the server never sees the request
                      cut after: the server carried it out, and nobody learns of it
"""

import random
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple


class Fault(StrEnum):
    """What happens to one request. `BEFORE`: the server does not see it. `AFTER`: it has carried it out."""

    CUT_BEFORE = "cut before"
    CUT_AFTER = "cut after"
    TORN_ANSWER = "answer torn"
    DELAYED_BEFORE = "delayed before"
    DELAYED_AFTER = "delayed after"
    INTERNAL_BEFORE = "500 before"
    INTERNAL_AFTER = "500 after"
    UNAVAILABLE_BEFORE = "503 before"
    UNAVAILABLE_AFTER = "503 after"
    CONFLICT = "409 before"


IS_CARRIED_OUT: Final = frozenset(
    {Fault.CUT_AFTER, Fault.TORN_ANSWER, Fault.INTERNAL_AFTER, Fault.UNAVAILABLE_AFTER, Fault.DELAYED_AFTER}
)
"""Faults that strike after the server has answered."""

DYNAMODB_FAULTS: Final = frozenset(Fault) - {Fault.CONFLICT}

Rates = Mapping[Fault, float]
"""Fault -> share of the requests that meet it; together at most 1."""

CALM: Final[Rates] = {}


def even(share: float, faults: frozenset[Fault] = frozenset(Fault)) -> Rates:
    """Spread a share of the requests evenly over faults."""
    return dict.fromkeys(sorted(faults), share / len(faults))


class Draw(NamedTuple):
    """What one request meets: a fault or none, how long a delay takes, and how much of a torn answer arrives."""

    fault: Fault | None
    delay_seconds: float
    part: float


class Dice:
    """Draws for one request after the other. Three numbers are taken from the seed per request, whatever comes."""

    def __init__(self, rng: random.Random, longest_delay_seconds: float) -> None:
        self._rng = rng
        self._longest = longest_delay_seconds

    def draw(self, rates: Rates, *, is_conditional_put: bool) -> Draw:
        """Return what the next request meets. Only a conditional PUT is ever answered 409: S3 does no other."""
        point, delay, part = self._rng.random(), self._rng.uniform(0.05, self._longest), self._rng.random()
        for fault, share in rates.items():
            if point < share:
                possible = is_conditional_put or fault is not Fault.CONFLICT
                return Draw(fault if possible else None, delay, part)
            point -= share
        return Draw(None, delay, part)
