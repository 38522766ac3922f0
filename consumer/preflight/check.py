"""The result of one pre-flight check."""

import enum
from dataclasses import dataclass
from typing import Self


class CheckOutcome(enum.StrEnum):
    """How a check ended. `UNKNOWN`: it could not be made, and never counts as `OK`."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Check:
    """One check: its subject, outcome, a sentence, and what to do; `exit_code` counts if it failed."""

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
        """It works, but a person should look at it."""
        return cls(name, CheckOutcome.WARN, sentence, next_step)

    @classmethod
    def failed(cls, name: str, sentence: str, *, next_step: str, exit_code: int) -> Self:
        """It must be corrected before a daemon may start."""
        return cls(name, CheckOutcome.FAIL, sentence, next_step, exit_code)

    @classmethod
    def unknown(cls, name: str, sentence: str, *, next_step: str = "") -> Self:
        """The check could not be made."""
        return cls(name, CheckOutcome.UNKNOWN, sentence, next_step)
