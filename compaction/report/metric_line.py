"""Write the verdict of a day for CloudWatch: a log line in its embedded metric format."""

import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import BinaryIO, Final, NamedTuple

from minutebook.clock import Clock
from minutebook.emf import emf_line
from minutebook.published.verdict import Verdict

EVENT: Final = "day_judged"
NIGHT_EVENT: Final = "night_ended"
METRICS: Final[Mapping[str, tuple[str, str]]] = {
    "DayClean": ("Count", "1 when the verdict is clean, else 0"),
    "DayPublished": ("Count", "`compact`: 1 when readers see the day, 0 when it is held"),
    "DayDefects": ("Count", "findings of severity defect"),
    "DayUnknowns": ("Count", "findings of severity unknown"),
    "DayWarnings": ("Count", "findings of severity warning"),
    "DayArrivalStepBack": ("Milliseconds", "the greatest step back of arrival times within a shard"),
    "DayRows": ("Count", "rows of the day: in Parquet, or unique lines where nothing was written"),
    "DayUnfit": ("Count", "rows that do not fit their typed columns"),
    "DayUnknownKeys": ("Count", "keys in a sample of payloads that no typed column reads"),
    "DaySeconds": ("Seconds", "from the day's beginning in this run to its verdict"),
}
"""Name to unit and meaning. Unknown metrics of a day are omitted from its line."""
NIGHT_METRICS: Final[Mapping[str, tuple[str, str]]] = {
    "DaysOpen": (
        "Count",
        "settled days that are neither clean nor accepted nor expired, and those that failed; also before the window",
    ),
    "DaysLeft": ("Count", "days that were not begun: the budget was spent, or the run was asked to end"),
    "DaysNotInTable": ("Count", "days that the Iceberg table lacks or holds otherwise than their pointers"),
}
"""The same for a run of `--due`, which writes one line at its end, also without any day."""


class DayMetrics(NamedTuple):
    """The metrics of a day. `findings`: defects, unknowns, warnings; None: the day was not audited again.

    `due` are columns of its row with `--due`: what readers see, what was done, and how it is in the table.
    """

    day: str
    verdict: Verdict
    seconds: float
    rows: int | None = None
    findings: tuple[int, int, int] | None = None
    state: str | None = None
    generation: str | None = None
    step_back_ms: int | None = None
    unfit: int | None = None
    unknown_keys: int | None = None
    due: Mapping[str, object] = MappingProxyType({})


class NightMetrics(NamedTuple):
    """The metrics of a run of `--due`. `days_not_in_table`: None without a table."""

    days_open: int = 0
    days_left: int = 0
    days_not_in_table: int | None = None


class CloudWatchLines:
    """Writes the metric lines of a command."""

    def __init__(self, application: str, command: str, clock: Clock, sink: BinaryIO | None = None) -> None:
        self._names = {"Application": application, "Command": command}
        self._clock = clock
        self._sink = sys.stderr.buffer if sink is None else sink

    def write(self, day: DayMetrics) -> None:
        """Write the line of a day."""
        known: dict[str, float | None] = {
            "DayClean": int(day.verdict == "clean"),
            "DayPublished": None if day.state is None else int(day.state != "held"),
            "DayArrivalStepBack": day.step_back_ms,
            "DayRows": day.rows,
            "DayUnfit": day.unfit,
            "DayUnknownKeys": day.unknown_keys,
            "DaySeconds": round(day.seconds, 3),
        }
        if day.findings is not None:
            known |= dict(zip(("DayDefects", "DayUnknowns", "DayWarnings"), day.findings, strict=True))
        properties: dict[str, object] = {"day": day.day, "verdict": day.verdict}
        properties |= {name: value for name in ("state", "generation") if (value := getattr(day, name)) is not None}
        properties |= day.due
        self._write(EVENT, {name: (value, METRICS[name][0]) for name, value in known.items()}, properties)

    def write_night(self, night: NightMetrics) -> None:
        """Write the line of a run of `--due`."""
        units = ((name, unit) for name, (unit, _) in NIGHT_METRICS.items())
        self._write(NIGHT_EVENT, {name: (value, unit) for (name, unit), value in zip(units, night, strict=True)}, {})

    def _write(
        self, event: str, metrics: Mapping[str, tuple[float | None, str]], properties: Mapping[str, object]
    ) -> None:
        known: dict[str, tuple[object, str]] = {
            name: (value, unit) for name, (value, unit) in metrics.items() if value is not None
        }
        line = emf_line(event, self._clock.now_ms(), self._names, {tuple(self._names): known}, known, properties)
        self._sink.write(line)
        self._sink.flush()
