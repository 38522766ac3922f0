"""What a step gives: JSON texts, or the reason why not."""

from typing import Final

from compaction.columns.misfits import Kind, Misfit

MAX_BYTES: Final = 16 << 20
"""The most bytes that each step may make of one record."""
MAX_EVENTS: Final = 100_000
"""The most events of one record."""
Outcome = list[bytes] | Misfit
Text = bytes | Misfit
"""What the steps so far made of an event, or why one of them failed."""
Events = list[Text]
"""Those of one record: one for each, unless a step finds several, or none."""


def undecoded(step: str, why: str, kind: Kind = "undecoded") -> Misfit:
    """Return the reason of a step that failed. Its path sets the failures of each step apart: `payload (gzip)`."""
    return Misfit(kind, why, f" ({step})")


def too_long(step: str) -> Misfit:
    """Return the reason of a step whose result is too large."""
    return undecoded(step, f"more than {MAX_BYTES} bytes", "too_long")


def too_many(step: str) -> Misfit:
    """Return the reason of a step that finds too many events."""
    return undecoded(step, f"more than {MAX_EVENTS} events", "too_long")
