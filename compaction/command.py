"""`minutebook audit` and `minutebook compact`: read the settings, wire, run, show."""

import importlib.metadata
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Final

import msgspec
from rich.console import Console

from archive.aws import client_config, make_dynamodb_client
from archive.clock import SystemClock, new_id, new_random
from archive.errors import CatalogRefused, SettingsError
from archive.format.day import Day, day_of_ms
from archive.logs import Limit, configure_logging
from archive.published.generation import DayFolder
from archive.retry import Backoff
from archive.store.places import StorePrefix, open_storage
from archive.store.retrying import RetryingStorage
from compaction.audit.audit import audit_day
from compaction.audit.examined import DayResult
from compaction.days.outcome import DayRow, row_of_audit, row_of_compaction, row_of_plan
from compaction.days.run import DaysRun
from compaction.days.stop import Stop, StoppableClock, Stopped, stopped_by_signals
from compaction.days.tables import SerialTable
from compaction.dry_run import DayPlan, plan_day
from compaction.iceberg.catalog import opened_table
from compaction.inventory.checkpoints import Checkpoints, read_checkpoints
from compaction.job.context import AuditOptions, JobContext
from compaction.job.request import AuditRequest, CompactRequest, checked_fail_on
from compaction.job.scope import parse_so_far
from compaction.job.settings import JobSettings, check_apart, load_job_settings
from compaction.recheck import days_to_recheck
from compaction.report.metric_line import Judged
from compaction.report.progress_lines import ProgressLines
from compaction.report.screen import progress_bar
from compaction.report.telling import Telling, telling_of
from compaction.rewrite import Compacted, CompactOptions, compact_day
from compaction.spark.engine import Progress, no_progress
from compaction.spark.lazy import LazySpark
from compaction.stream.kinesis import once_in_vain

_STORE_BUDGET_SECONDS: Final = 120
_HELD: Final = "HELD, the day is not in it: "
_LISTING_BUDGET_SECONDS: Final = 15
"""The markers name the shards too: a stream that cannot be asked holds no audit up."""


def audit(request: AuditRequest, environ: Mapping[str, str]) -> int:
    """Audit the days; returns the exit code of the worst (`compaction.days.outcome`).

    Raises:
        SettingsError: the file or an option.
        SafetyRefusal: the archive of another stream.
    """
    now_ms = SystemClock().now_ms()
    days, so_far_ms = request.days(day_of_ms(now_ms)), parse_so_far(request.so_far, now_ms)
    level, event_id, fail_on = request.checked_level(), request.checked_event_id(), checked_fail_on(request.fail_on)
    _configure_logging()
    settings = load_job_settings(request.file, environ)
    published = settings.output(request.published)
    options = AuditOptions(
        level=level,
        lookback_days=request.lookback_days,
        shard=request.shard,
        stream=settings.stream_name,
        application=settings.application_name,
        command=settings.audit_command,
        event_id=event_id,
        published=published,
        so_far_ms=so_far_ms,
        sample_minutes=request.checked_sample(),
    )
    with _started(settings, "audit", request) as (context, run):
        telling = telling_of(context, settings, request, "audit", published)._replace(is_quiet=run.many)

        def show(day: Day, result: DayResult, seconds: float) -> DayRow:
            telling.measure(Judged(str(day), result.audit.verdict, seconds), result.audit)
            telling.show(result)
            return row_of_audit(result, fail_on)

        return run.run(days, lambda day: audit_day(context, day, options), show)


def compact(request: CompactRequest, environ: Mapping[str, str]) -> int:
    """Compact the days; returns the exit code of the worst (`compaction.days.outcome`).

    Raises:
        SettingsError: the file or an option.
        SafetyRefusal: the archive of another stream; a day that was expired; a table whose rows others changed.
        StoreError: the archive or the output.
        CatalogRefused, CatalogUnavailable: the catalog of the Iceberg table; the day is published all the same.
    """
    now_ms = SystemClock().now_ms()
    hour, so_far_ms = request.asked_hour(now_ms), parse_so_far(request.so_far, now_ms)
    days = request.days(day_of_ms(now_ms)) if hour is None else [hour.day]
    if request.recheck is not None and (request.recheck < 0 or so_far_ms is not None):
        raise SettingsError("--recheck takes a number of days, and days that are over", next_step="drop --so-far")
    event_id, table, fail_on = request.checked_event_id(), request.checked_table(), checked_fail_on(request.fail_on)
    _configure_logging()
    settings = load_job_settings(request.file, environ)
    out = settings.output(request.out)
    check_apart(out, settings.archive)
    audit_options = AuditOptions(
        lookback_days=request.lookback_days,
        stream=settings.stream_name,
        application=settings.application_name,
        command=settings.audit_command,
        event_id=event_id,
        published=out,
        drop_producer_duplicates=request.drop_producer_duplicates,
        max_repeats=request.max_repeats,
        so_far_ms=so_far_ms,
    )
    columns = request.read_columns(settings)
    options = CompactOptions(audit_options, out, request.accept_defects, request.zstd_level, columns, hour)
    held: set[tuple[str, str]] = set()
    opened = (
        nullcontext()
        if table is None or request.dry_run
        else opened_table(
            table, request.iceberg_catalog, out, by_event=columns is not None and columns.event is not None
        )
    )
    with _started(settings, "compact", request) as (context, run), opened as day_table:
        try:
            again = [] if request.recheck is None else days_to_recheck(context, out, request.recheck)
        except Stopped:
            return run.stop.exit_code or 1
        days = sorted({*days, *again})
        if request.dry_run:
            return run.run(days, lambda day: plan_day(context, day, options), partial(_show_plan, run))
        telling = telling_of(context, settings, request, "compact", out)._replace(is_quiet=run.many)
        given = context if day_table is None else context._replace(table=SerialTable(day_table))

        def show(day: Day, done: Compacted, seconds: float) -> DayRow:
            if done.conflicts and done.table is not None:
                held.add((done.table.table, str(day)))
            _tell(telling, day, done, seconds, is_day=hour is None)
            _show_outcome(done, DayFolder(out.prefix, day, hour), out, quiet=request.as_json)
            return row_of_compaction(day, done, fail_on)

        code = run.run(days, lambda day: compact_day(given, given.open(out.address), day, options), show)
    if held and code == CatalogRefused.exit_code:
        raise CatalogRefused(
            "; ".join(f"{name} did not take {day}" for name, day in sorted(held)) + ": columns are others there",
            next_step="the days are published; minutebook docs iceberg says which columns a table takes",
        )
    return code


def _show_plan(run: DaysRun, day: Day, plan: DayPlan, _seconds: float) -> DayRow:
    """Print the plan of the one day; of several, each has a row of the table."""
    if not run.many and run.as_json:
        sys.stdout.write(msgspec.json.encode(plan).decode() + "\n")
    elif not run.many:
        Console().print(f"{day}: {plan.sentence}", highlight=False, soft_wrap=True)
    return row_of_plan(plan)


def _tell(telling: Telling, day: Day, done: Compacted, seconds: float, *, is_day: bool) -> None:
    generation = "" if done.manifest is None else done.manifest.generation
    rows = None if done.manifest is None else done.manifest.rows
    judged = Judged(str(day), done.verdict, seconds, rows, state=done.state, generation=generation or None)
    if is_day:  # an alarm is about days
        telling.measure(judged, None if done.result is None else done.result.audit)
    if done.result is not None:
        telling.show(done.result, generation)


def _configure_logging() -> None:
    """Tell more where nobody looks at a terminal: the log is then all there is."""
    level = "warning" if sys.stderr.isatty() else "info"
    configure_logging(level, limit=Limit(SystemClock()))


def _progress(what: str) -> AbstractContextManager[Progress]:
    return progress_bar(what) if sys.stderr.isatty() else nullcontext(ProgressLines(what, SystemClock()))


def _no_progress() -> AbstractContextManager[Progress]:
    return nullcontext(no_progress)


@contextmanager
def _started(
    settings: JobSettings, what: str, request: AuditRequest | CompactRequest
) -> Iterator[tuple[JobContext, DaysRun]]:
    """Yield what a run reaches the world with, and how its days are worked on; a signal ends it."""
    stop = Stop()
    clock, rng = StoppableClock(SystemClock(), stop), new_random()

    def waits() -> Backoff:
        stop.check()  # every request asks for its waits first
        return Backoff(clock, rng, budget_seconds=_STORE_BUDGET_SECONDS)

    address = settings.stream._replace(share=request.checked_budget())
    with stopped_by_signals(stop), ExitStack() as stack:
        many, as_json = request.is_range, request.as_json
        report = stack.enter_context(_progress(what)) if many else no_progress
        engine = LazySpark(stack, request.master, stop.check, _no_progress if many else partial(_progress, what))
        context = JobContext(
            archive=RetryingStorage(open_storage(settings.archive.address), waits),
            place=settings.archive,
            clock=clock,
            new_id=new_id,
            engine=engine,
            shuffle=engine.shuffle,
            dealers=engine.dealer,
            checkpoints=lambda: _checkpoints(settings),
            version=importlib.metadata.version("minutebook"),
            owner=settings.owner,
            stream=address.here,
            shards=once_in_vain(lambda: address.open(clock, budget_seconds=_LISTING_BUDGET_SECONDS).listed()),
            spread=engine.spread,
        )
        yield context, DaysRun(what, request.parallel_days, many, as_json, stop, clock, engine.cancel, report)


def _checkpoints(settings: JobSettings) -> Checkpoints:
    # Reads are safe to repeat, and an audit goes on without the table: botocore's own retries are enough.
    client = make_dynamodb_client(
        settings.region, settings.dynamodb_endpoint, settings.access, client_config(attempts=5)
    )
    return read_checkpoints(client, settings.application_name)


def _show_outcome(done: Compacted, folder: DayFolder, out: StorePrefix, *, quiet: bool) -> None:
    if quiet:
        return
    console = Console()
    if done.manifest is None:
        console.print(f"{folder.name} is not published: {done.reason}", highlight=False, soft_wrap=True)
        return
    words = {"published": "published", "already": "was published before; nothing to do", "held": "is not published"}
    console.print(
        f"{folder.name} {words[done.state]}: {done.manifest.rows:,} rows, {len(done.manifest.files)} file(s), "
        f"verdict {done.verdict}",
        highlight=False,
        soft_wrap=True,
    )
    address = open_storage(out.address).uri(folder.generation(done.manifest.generation))
    console.print(address, highlight=False, soft_wrap=True)
    if done.table is not None:
        states = {"committed": "committed", "already": "was there before; nothing to do"}
        state = states.get(done.table.state, f"{_HELD}{done.conflicts}")
        console.print(f"table {done.table.table}: {state}", highlight=False, markup=False, soft_wrap=True)
