"""What a check of the pre-flight says."""

import enum
from dataclasses import dataclass
from typing import Self


class CheckOutcome(enum.StrEnum):
    """How a check ended. `UNKNOWN` is never taken for `OK`."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Check:
    """One check: its subject, how it ended, a sentence, and what to do; `exit_code` counts when it failed."""

    name: str
    outcome: CheckOutcome
    sentence: str
    next_step: str = ""
    exit_code: int = 0

    @classmethod
    def ok(cls, name: str, sentence: str) -> Self:
        """All is well."""
        return cls(name, CheckOutcome.OK, sentence)

    @classmethod
    def warn(cls, name: str, sentence: str, *, next_step: str) -> Self:
        """It works, and somebody should look at it."""
        return cls(name, CheckOutcome.WARN, sentence, next_step)

    @classmethod
    def failed(cls, name: str, sentence: str, *, next_step: str, exit_code: int) -> Self:
        """It must be put right before anything starts."""
        return cls(name, CheckOutcome.FAIL, sentence, next_step, exit_code)

    @classmethod
    def unknown(cls, name: str, sentence: str, *, next_step: str = "") -> Self:
        """The check could not be made."""
        return cls(name, CheckOutcome.UNKNOWN, sentence, next_step)
