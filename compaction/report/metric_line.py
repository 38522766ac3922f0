"""The verdict of a day for CloudWatch: one line of its embedded metric format, among the lines of the log."""

import sys
from collections.abc import Mapping
from typing import BinaryIO, Final, NamedTuple

from minutebook.clock import Clock
from minutebook.emf import emf_line
from minutebook.published.verdict import Verdict

EVENT: Final = "day_judged"
METRICS: Final[Mapping[str, tuple[str, str]]] = {
    "DayClean": ("Count", "1 when the verdict is clean, else 0"),
    "DayPublished": ("Count", "`compact`: 1 when readers see the day, 0 when it is held"),
    "DayDefects": ("Count", "findings of severity defect"),
    "DayUnknowns": ("Count", "findings of severity unknown"),
    "DayWarnings": ("Count", "findings of severity warning"),
    "DayRows": ("Count", "rows of the day: in Parquet, or unique lines where nothing was written"),
    "DaySeconds": ("Seconds", "from the day's beginning in this run to its verdict"),
}
"""Name to unit and meaning. What a run does not know of a day is left out of its line."""


class DayMetrics(NamedTuple):
    """What is told of a day. `findings` are defects, unknowns, warnings; None: it was not read again."""

    day: str
    verdict: Verdict
    seconds: float
    rows: int | None = None
    findings: tuple[int, int, int] | None = None
    state: str | None = None
    generation: str | None = None


class CloudWatchLines:
    """Writes the lines of a command."""

    def __init__(self, application: str, command: str, clock: Clock, sink: BinaryIO | None = None) -> None:
        self._names = {"Application": application, "Command": command}
        self._clock = clock
        self._sink = sys.stderr.buffer if sink is None else sink

    def write(self, judged: DayMetrics) -> None:
        """Write the line of a day."""
        known: dict[str, float | None] = {
            "DayClean": int(judged.verdict == "clean"),
            "DayPublished": None if judged.state is None else int(judged.state != "held"),
            "DayRows": judged.rows,
            "DaySeconds": round(judged.seconds, 3),
        }
        if judged.findings is not None:
            known |= dict(zip(("DayDefects", "DayUnknowns", "DayWarnings"), judged.findings, strict=True))
        metrics: dict[str, tuple[object, str]] = {
            name: (value, METRICS[name][0]) for name, value in known.items() if value is not None
        }
        properties = {"day": judged.day, "verdict": judged.verdict}
        properties |= {
            name: value for name in ("state", "generation") if (value := getattr(judged, name)) is not None
        }
        line = emf_line(EVENT, self._clock.now_ms(), self._names, tuple(self._names), metrics, properties)
        self._sink.write(line)
        self._sink.flush()
