"""The exit code of a command that judged days. Pure.

defects in any day .......................................... 3, whatever `--fail-on` says
a day could not be read, or was not published ............... 4, whatever `--fail-on` says
a day that could not be proven .............................. 4, or 0 with `--fail-on defects`
otherwise ................................................... 0
"""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from compaction.verdict.audit_document import EXIT_CODES, Audit
from minutebook.published.verdict import Verdict

FailOn = Literal["defects", "unknown"]
FAIL_ON: Final[tuple[FailOn, ...]] = ("defects", "unknown")
UNREAD: Final = "archive_readable"
"""The check that fails where the archive could not be read."""


class DayEnd(NamedTuple):
    """How a day ended. `is_done`: it was read, and published if that was requested."""

    verdict: Verdict
    is_done: bool = True


def was_read(audit: Audit) -> bool:
    """Return whether the archive could be read."""
    return all(check.id != UNREAD for check in audit.checks)


def exit_code(days: Sequence[DayEnd], fail_on: FailOn = "unknown") -> int:
    """Return the exit code of all days: a defect outweighs an unknown, and an unknown outweighs clean."""
    if any(day.verdict == "defects" for day in days):
        return EXIT_CODES["defects"]
    if any(not day.is_done or (day.verdict == "unknown" and fail_on == "unknown") for day in days):
        return EXIT_CODES["unknown"]
    return EXIT_CODES["clean"]
