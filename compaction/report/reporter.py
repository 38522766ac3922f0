"""Report each day of a command: to the terminal or as JSON, as report files, and to CloudWatch."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from compaction.audit.conclusion import DayResult
from compaction.job.context import JobContext
from compaction.job.settings import JobSettings, check_apart
from compaction.report.metric_line import CloudWatchLines, DayMetrics, NightMetrics
from compaction.report.screen import show_audit
from compaction.report.trend import Trend, by_severity, read_trend
from compaction.verdict.audit_document import Audit, encode_audit
from minutebook.clock import new_random
from minutebook.errors import StoreError, StoreRefused
from minutebook.format.day import Day
from minutebook.retry import Backoff
from minutebook.store.places import StorePrefix
from minutebook.store.retrying import RetryingStorage
from minutebook.terminal import TerminalConsole
from minutebook.wording import printable_json

_TREND_BUDGET_SECONDS: Final = 10
"""A report does not wait long for the previous days."""
_TYPES: Final = {".json": "application/json", ".html": "text/html; charset=utf-8"}
_NEXT_FOLDER: Final = "the day itself is done; make room there or let the job write, or name another --report"
_NEXT: Final = "the day itself is done; let the role write there (s3:PutObject), or name another --report"


class ReportPlace(Protocol):
    """A place for the files of reports; existing files are replaced."""

    def write(self, name: str, body: bytes) -> str:
        """Write a file and return its address. Raises StoreError."""
        ...


class ReportFolder(NamedTuple):
    """A local folder, created with the first file."""

    folder: Path

    def write(self, name: str, body: bytes) -> str:
        """Write a file."""
        path = self.folder / name
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
        except OSError as exc:
            raise StoreRefused(f"the report was not written: {exc}", next_step=_NEXT_FOLDER) from exc
        return str(path.absolute())


class ReportPrefix(NamedTuple):
    """A prefix on S3, for jobs without a disk. Writing needs only s3:PutObject; nothing is listed or read first."""

    storage: RetryingStorage
    prefix: str

    def write(self, name: str, body: bytes) -> str:
        """Write an object."""
        key = f"{self.prefix}{name}"
        try:
            sink = self.storage.open_write(key, _TYPES[Path(name).suffix])
            sink.write(body)
            sink.close()
        except StoreRefused as exc:
            raise StoreRefused(f"the report was not written: {exc}", next_step=_NEXT) from exc
        return self.storage.uri(key)


class Reporter(NamedTuple):
    """The outputs of a command. `trend` reads the days up to one, for the report."""

    as_json: bool
    reports: ReportPlace | None
    trend: Callable[[Day], Trend]
    metrics: CloudWatchLines | None = None
    is_quiet: bool = False
    """With `as_json`: a run of many days prints one document of its own."""

    def show(self, result: DayResult, generation: str | None = None) -> StoreError | None:
        """Show an audit; return why its report was not written, if so: that changes nothing of the day.

        `generation`: what this run published of the day; "": nothing; None: it only audits.
        """
        body = encode_audit(result.audit)
        if self.as_json and not self.is_quiet:
            sys.stdout.write(printable_json(body.decode()))
        elif not self.as_json:
            show_audit(result.audit, TerminalConsole(), result.retention_ms)
        if self.reports is None:
            return None
        try:
            address = self._write(self.reports, result, body, generation)
        except StoreError as exc:
            return exc
        if not self.as_json:
            TerminalConsole().print(f"report: {address}")
        return None

    def replace(self, audit: Audit) -> StoreError | None:
        """Replace the report of a day whose verdict was given up unread, and show nothing; see `show`."""
        if self.reports is None:
            return None
        try:
            self._write(self.reports, DayResult(audit, {}), encode_audit(audit), None)
        except StoreError as exc:
            return exc
        return None

    def _write(self, reports: ReportPlace, result: DayResult, body: bytes, generation: str | None) -> str:
        name = f"audit-{result.audit.scope.day}"
        reports.write(f"{name}.json", body)
        from compaction.report.page import render_page  # noqa: PLC0415 - loads jinja2 and numpy

        page = render_page(result, self.trend(Day.parse(result.audit.scope.day)), generation)
        return reports.write(f"{name}.html", page.encode(errors="replace"))

    def measure(self, day: DayMetrics, audit: Audit | None = None) -> None:
        """Write the metrics of a day, if enabled; `audit`: its audit, if the objects were read."""
        if self.metrics is None:
            return
        if audit is not None:
            findings = by_severity([finding.severity for finding in audit.findings])
            rows = audit.equation.unique if day.rows is None else day.rows
            steps = [row.arrival_step_back_ms for row in audit.shards if row.arrival_step_back_ms is not None]
            day = day._replace(findings=findings, rows=rows, step_back_ms=max(steps, default=None))
            if audit.typed is not None:
                unknown = audit.typed.unknown
                day = day._replace(unfit=audit.typed.unfit, unknown_keys=None if unknown is None else unknown.found)
        self.metrics.write(day)

    def measure_night(self, night: NightMetrics) -> None:
        """Write the metrics of a run of `--due`, if enabled."""
        if self.metrics is not None:
            self.metrics.write_night(night)


def report_place(context: JobContext, place: StorePrefix) -> ReportPlace:
    """Return the place of reports at an address."""
    if place.address.bucket is None:
        return ReportFolder(Path(place.address.root) / place.prefix)
    return ReportPrefix(context.open(place.address), place.prefix)


def new_reporter(
    context: JobContext,
    settings: JobSettings,
    command: str,
    out: StorePrefix,
    *,
    report: str | None,
    as_json: bool,
    is_quiet: bool,
) -> Reporter:
    """Return the reporter of a command. `out`: where days are published; `report`: the place of reports.

    Raises SettingsError if reports would lie among the raw segments.
    """
    rng = new_random()
    reports: ReportPlace | None = None
    if report is not None:
        place = settings.below(report)
        check_apart(place, settings.archive, option="--report")
        reports = report_place(context, place)

    def trend(day: Day) -> Trend:
        storage = context.open(out.address).within(
            lambda: Backoff(context.clock, rng, budget_seconds=_TREND_BUDGET_SECONDS)
        )
        return read_trend(storage, out, day)

    metrics = (
        CloudWatchLines(settings.application_name, command, context.clock) if settings.metrics == "emf" else None
    )
    return Reporter(as_json, reports, trend, metrics, is_quiet)
