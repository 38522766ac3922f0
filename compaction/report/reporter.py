"""What a command tells of each day: the terminal or JSON, the report, the line for CloudWatch."""

import sys
from collections.abc import Callable
from typing import Final, NamedTuple

from rich.console import Console

from compaction.audit.examined import DayResult
from compaction.job.context import JobContext
from compaction.job.settings import JobSettings, check_apart
from compaction.report.metric_line import CloudWatchLines, DayMetrics
from compaction.report.place import ReportPlace, report_place
from compaction.report.screen import show_audit
from compaction.report.trend import Trend, by_severity, read_trend
from compaction.verdict.audit_document import Audit, encode_audit
from minutebook.clock import new_random
from minutebook.format.day import Day
from minutebook.retry import Backoff
from minutebook.store.places import StorePrefix, parse_place

_TREND_BUDGET_SECONDS: Final = 10
"""A report does not wait for the days before."""


class Reporter(NamedTuple):
    """Where a command tells what. `trend` reads the days before one, for the report."""

    as_json: bool
    reports: ReportPlace | None
    trend: Callable[[Day], Trend]
    metrics: CloudWatchLines | None = None
    is_quiet: bool = False
    """With `as_json`: a run of many days prints one document of its own."""

    def show(self, result: DayResult, generation: str | None = None) -> None:
        """Show an audit; `generation` is what this run published of the day, empty: nothing, None: it only audits."""
        body = encode_audit(result.audit)
        if self.as_json and not self.is_quiet:
            sys.stdout.write(body.decode())
        elif not self.as_json:
            show_audit(result.audit, Console())
        if self.reports is None:
            return
        name = f"audit-{result.audit.scope.day}"
        self.reports.write(f"{name}.json", body)
        from compaction.report.page import render_page  # noqa: PLC0415 - jinja2 and matplotlib, for who wants pictures

        page = render_page(result, self.trend(Day.parse(result.audit.scope.day)), generation)
        address = self.reports.write(f"{name}.html", page.encode(errors="replace"))
        if not self.as_json:
            Console().print(f"report: {address}", highlight=False, soft_wrap=True, markup=False)

    def measure(self, judged: DayMetrics, audit: Audit | None = None) -> None:
        """Write the metrics of a day, where they are asked for; `audit` where it was judged by its objects."""
        if self.metrics is None:
            return
        if audit is not None:
            findings = by_severity([found.severity for found in audit.findings])
            rows = audit.equation.unique if judged.rows is None else judged.rows
            judged = judged._replace(findings=findings, rows=rows)
        self.metrics.write(judged)


def telling_of(
    context: JobContext,
    settings: JobSettings,
    command: str,
    out: StorePrefix,
    *,
    report: str | None,
    as_json: bool,
    is_quiet: bool,
) -> Reporter:
    """Return where a command tells what it found; `out` is where days are published, `report` where reports go.

    Raises:
        SettingsError: reports would lie among the raw segments.
    """
    reports, rng = None, new_random()
    if report is not None:
        access, bucket = settings.access, settings.bucket
        place = parse_place(report, settings.region, settings.s3_endpoint, access, archive_bucket=bucket)
        check_apart(place, settings.archive, option="--report")
        reports = report_place(place, lambda found: context.open(found.address))

    def trend(day: Day) -> Trend:
        storage = context.open(out.address).within(
            lambda: Backoff(context.clock, rng, budget_seconds=_TREND_BUDGET_SECONDS)
        )
        return read_trend(storage, out, day)

    metrics = (
        CloudWatchLines(settings.application_name, command, context.clock) if settings.metrics == "emf" else None
    )
    return Reporter(as_json, reports, trend, metrics, is_quiet)
