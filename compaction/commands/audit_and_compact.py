"""`minutebook audit` and `minutebook compact`: read the settings, wire, run, show."""

import importlib.metadata
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Final, Literal, NamedTuple, Self

import msgspec

from compaction.audit.audit import audit_day
from compaction.audit.conclusion import DayResult
from compaction.inventory.checkpoints import Checkpoints, read_checkpoints
from compaction.job import checks, scope
from compaction.job.context import AuditOptions, JobContext
from compaction.job.request import AuditRequest, CompactRequest
from compaction.job.service_time import by_service
from compaction.job.settings import JobSettings, check_apart, load_job_settings
from compaction.night import dry_run, rewrite
from compaction.night.days import stop
from compaction.night.days.run import (
    DayRow,
    DaysRun,
    count_due,
    row_of_audit,
    row_of_compaction,
    row_of_due,
    row_of_due_plan,
    row_of_plan,
)
from compaction.night.days.side_by_side import DayWorkers
from compaction.night.due import PointerWord, do_due, find_due, pointer_word
from compaction.report import metric_line, reporter, screen
from compaction.spark.engine import LazySpark, Progress, no_progress
from compaction.stream.kinesis import SHARE, once_in_vain
from compaction.tables import catalog
from compaction.tables.commit import DayTable
from compaction.verdict.exit_code import FailOn
from minutebook import logs
from minutebook.aws import clients
from minutebook.clock import SystemClock, new_id, new_random
from minutebook.errors import CatalogRefused, CatalogUnavailable, MinutebookError
from minutebook.format.day import Day, day_of_ms
from minutebook.published.generation import DayFolder
from minutebook.retry import Backoff
from minutebook.store.places import StorePrefix, open_storage
from minutebook.store.retrying import RetryingStorage
from minutebook.terminal import TerminalConsole
from minutebook.wording import printable_json, some_of

_STORE_BUDGET_SECONDS: Final = 120
_OLDER_NAMED: Final = 10
_LISTING_BUDGET_SECONDS: Final = 15
"""Short, because the markers name the shards too: an audit goes on without the stream."""


def run_audit(request: AuditRequest, environ: Mapping[str, str]) -> int:
    """Audit the days; return the exit code of the worst (`compaction.night.days.run`)."""
    now_ms = SystemClock().now_ms()
    days, so_far_ms = checks.requested_days(request, day_of_ms(now_ms)), scope.parse_so_far(request.so_far, now_ms)
    level, event_id = checks.audit_level(request.level, request.event_id), checks.event_id_path(request.event_id)
    fail_on = checks.fail_on(request.fail_on)
    budget = checks.stream_budget(request.stream_budget, level)
    sample = checks.sample_minutes(request.sample, level)
    _configure_logging()
    settings = load_job_settings(request.file, environ)
    published = settings.output(request.published)
    options = _audit_options(request, settings, published, event_id, so_far_ms)._replace(
        level=level, shard=request.shard, sample_minutes=sample
    )
    with _started("audit", settings, request, budget=budget) as (context, run):
        report, as_json = request.report, request.as_json
        output = reporter.new_reporter(
            context, settings, "audit", published, report=report, as_json=as_json, is_quiet=run.many
        )

        def show(day: Day, result: DayResult, seconds: float) -> DayRow:
            output.measure(metric_line.DayMetrics(str(day), result.audit.verdict, seconds), result.audit)
            output.show(result)
            return row_of_audit(result, fail_on)

        return run.run(days, lambda day: audit_day(context, day, options), show)


def run_compact(request: CompactRequest, environ: Mapping[str, str]) -> int:
    """Compact the days; return the exit code of the worst (`compaction.night.days.run`).

    An error of the Iceberg table's catalog is raised after the days are published; with `--due` rows tell it.
    """
    now_ms = SystemClock().now_ms()
    window, budget = checks.due_days(request), checks.budget_seconds(request.budget)
    days = [] if window is not None else checks.requested_days(request, day_of_ms(now_ms))
    so_far_ms, reason = scope.parse_so_far(request.so_far, now_ms), checks.acceptance(request)
    event_id = checks.event_id_path(request.event_id, is_needed=request.drop_producer_duplicates)
    table_name = checks.iceberg_table(request.iceberg, request.iceberg_catalog)
    fail_on = checks.fail_on(request.fail_on)
    _configure_logging()
    settings = load_job_settings(request.file, environ)
    out = settings.output(request.out)
    check_apart(out, settings.archive)
    audit_options = _audit_options(request, settings, out, event_id, so_far_ms)._replace(
        drop_producer_duplicates=request.drop_producer_duplicates, max_repeats=request.max_repeats
    )
    columns = checks.columns_of_request(settings, request.columns, request.event_time, request.event_window)
    options = rewrite.CompactOptions(audit_options, out, reason, request.zstd_level, columns)
    with _started("compact", settings, request) as (context, started):
        run = started._replace(applied=not request.dry_run)
        if request.dry_run:
            code = (
                _plan_due(context, run, options, window)
                if window is not None
                else _plan_days(context, run, options, days)
            )
            if not request.as_json:
                TerminalConsole().print("dry run: nothing was changed")
            return code
        output = reporter.new_reporter(
            context, settings, "compact", out, report=request.report, as_json=request.as_json, is_quiet=run.many
        )
        table = _Table(table_name, request.iceberg_catalog, columns is not None and columns.event is not None)
        compaction = _Compaction(context, options, output, fail_on, as_json=request.as_json)
        with table.opened(out, is_needed=window is None) as opened:
            compaction = compaction.with_table(opened)
            try:
                if window is not None:
                    return compaction.run_due(run, window, budget)
                return compaction.run_days(run, days)
            except stop.Stopped:
                return run.workers.stop.exit_code or 1


class _Table(NamedTuple):
    """The Iceberg table of `--iceberg`."""

    name: str | None
    catalog: str | None
    by_event: bool

    @contextmanager
    def opened(self, out: StorePrefix, *, is_needed: bool) -> Iterator[DayTable | CatalogUnavailable | None]:
        """Open it; return None without one. One that is away is returned as the error, unless it `is_needed`."""
        if self.name is None:
            yield None
            return
        with ExitStack() as stack:
            opened: DayTable | CatalogUnavailable
            try:
                table = stack.enter_context(
                    catalog.opened_table(self.name, self.catalog, out, by_event=self.by_event)
                )
                opened = catalog.SerialTable(table)
            except CatalogUnavailable as exc:
                if is_needed:
                    raise
                opened = exc
            yield opened


class _Compaction(NamedTuple):
    """Compacts days and shows them; `away` says why there is no table."""

    context: JobContext
    options: rewrite.CompactOptions
    output: reporter.Reporter
    fail_on: FailOn
    as_json: bool
    away: CatalogUnavailable | None = None

    def with_table(self, opened: DayTable | CatalogUnavailable | None) -> Self:
        """Return the same with the table, or without it."""
        if isinstance(opened, CatalogUnavailable):
            return self._replace(away=opened)
        return self._replace(context=self.context._replace(table=opened))

    def run_days(self, run: DaysRun, days: Sequence[Day]) -> int:
        """Compact the days that a person named."""
        conflicting: set[tuple[str, str]] = set()
        errors: list[MinutebookError] = []

        def show(day: Day, done: rewrite.Compacted, seconds: float) -> DayRow:
            if done.conflicts and done.table is not None:
                conflicting.add((done.table.table, str(day)))
            if done.table_error is not None:
                errors.append(done.table_error)
            self._show(day, done, seconds)
            return row_of_compaction(day, done, self.fail_on)

        code = run.run(days, self._compact, show)
        if errors and not run.many:
            raise errors[0]
        if conflicting and code == CatalogRefused.exit_code:
            raise CatalogRefused(
                "; ".join(f"{name} did not take {day}" for name, day in sorted(conflicting))
                + ": columns are others there",
                next_step="the days are published; minutebook docs iceberg says which columns a table takes",
            )
        return code

    def run_due(self, run: DaysRun, window: int, budget: float | None) -> int:
        """Do what is due of the last days, and name the rest."""
        context, root = self.context, self.options.out.prefix
        clock, begun = context.clock, context.clock.monotonic()
        due = find_due(context, self.options.out, self.options.audit, window)
        by_day = due.by_day

        def work(day: Day) -> tuple[rewrite.Compacted, PointerWord]:
            if budget is not None and clock.monotonic() - begun > budget:
                raise stop.BudgetSpent("the budget was spent before it", next_step="the next run goes on with it")
            each = by_day[day]
            done = do_due(context, each, self.options)
            if not each.why or each.is_expired:
                return done, each.pointer
            return done, pointer_word(context.open(self.options.out.address), root, day)

        def show(day: Day, worked: tuple[rewrite.Compacted, PointerWord], seconds: float) -> DayRow:
            done, pointer = worked
            if self.away is not None:
                done = done._replace(table_error=self.away)
            each = by_day[day]
            today, has_table = day_of_ms(clock.now_ms()), context.table is not None
            row = row_of_due(each, done, pointer, self.fail_on, has_table=has_table, today=today)
            self._show(day, done, seconds, row)
            return row

        # With event ids a day is compared with the one before it; else yesterday is waited for most.
        days = sorted(by_day, reverse=self.options.audit.event_id is None)
        run = run._replace(
            many=True,
            older=_older(due.older.open_days),
            measure=lambda rows: self.output.measure_night(count_due(rows, due.older.open_days)),
        )
        return run.run(days, work, show)

    def _compact(self, day: Day) -> rewrite.Compacted:
        return rewrite.compact_day(self.context, self.context.open(self.options.out.address), day, self.options)

    def _show(self, day: Day, done: rewrite.Compacted, seconds: float, due: DayRow | None = None) -> None:
        out = self.options.out
        _report(self.output, day, done, seconds, due)
        if not self.as_json:
            _show_outcome(done, DayFolder(out.prefix, day), out)


def _older(days: Sequence[Day]) -> str:
    if not days:
        return ""
    return f"{len(days)} older day(s) are neither clean nor accepted: {some_of([*map(str, days)], _OLDER_NAMED)}"


def _audit_options(
    request: AuditRequest | CompactRequest,
    settings: JobSettings,
    published: StorePrefix,
    event_id: str | None,
    so_far_ms: int | Literal["covered"] | None,
) -> AuditOptions:
    """Return the audit options that both commands have."""
    rewrite = publish = settings.compact_command
    if isinstance(request, CompactRequest):
        rewrite += _given(request, "columns", "event_time", "event_window")
        publish = rewrite + _given(request, "out", "iceberg", "iceberg_catalog")
    place = request.out if isinstance(request, CompactRequest) else request.published
    return AuditOptions(
        lookback_days=request.lookback_days,
        stream=settings.stream_name,
        application=settings.application_name,
        command=settings.audit_command + ("" if place is None else f" --published {shlex.quote(place)}"),
        rewrite=rewrite,
        publish=publish,
        event_id=event_id,
        numbers=settings.numbers,
        published=published,
        so_far_ms=so_far_ms,
    )


def _given(request: CompactRequest, *names: str) -> str:
    """Return options as they were given, for a command line that repeats them."""
    values = {name.replace("_", "-"): getattr(request, name) for name in names}
    return "".join(f" --{name} {shlex.quote(str(value))}" for name, value in values.items() if value is not None)


def _plan_days(context: JobContext, run: DaysRun, options: rewrite.CompactOptions, days: Sequence[Day]) -> int:
    return run.run(days, lambda day: dry_run.plan_dry_run(context, day, options), partial(_show_plan, run))


def _plan_due(context: JobContext, run: DaysRun, options: rewrite.CompactOptions, window: int) -> int:
    due = find_due(context, options.out, options.audit, window)
    run = run._replace(many=True, older=_older(due.older.open_days))
    return run.run(sorted(due.by_day), due.by_day.__getitem__, lambda _, each, _seconds: row_of_due_plan(each))


def _show_plan(run: DaysRun, day: Day, plan: dry_run.DryRun, _seconds: float) -> DayRow:
    """Print the plan of a single day; several have rows of a table instead."""
    if not run.many and run.as_json:
        sys.stdout.write(printable_json(msgspec.json.encode(plan).decode()) + "\n")
    elif not run.many:
        TerminalConsole().print(f"{day}: {plan.sentence}")
    return row_of_plan(plan)


def _report(output: reporter.Reporter, day: Day, done: rewrite.Compacted, seconds: float, due: DayRow | None) -> None:
    generation = "" if done.manifest is None else done.manifest.generation
    rows = None if done.manifest is None else done.manifest.rows
    metrics = metric_line.DayMetrics(
        str(day), done.verdict, seconds, rows, state=done.state, generation=generation or None
    )
    if due is not None:
        metrics = metrics._replace(due={"pointer": due.pointer, "done": due.done, "table": due.table})
    output.measure(metrics, None if done.result is None else done.result.audit)
    if done.result is not None:
        output.show(done.result, generation)


def _configure_logging() -> None:
    """Log at level info unless stderr is a terminal."""
    level = "warning" if sys.stderr.isatty() else "info"
    logs.configure_logging(level, limit=logs.Limit(SystemClock()))


def _progress(what: str) -> AbstractContextManager[Progress]:
    return (
        screen.progress_bar(what) if sys.stderr.isatty() else nullcontext(screen.ProgressLines(what, SystemClock()))
    )


@contextmanager
def _started(
    command: str, settings: JobSettings, request: AuditRequest | CompactRequest, *, budget: float = SHARE
) -> Iterator[tuple[JobContext, DaysRun]]:
    """Yield a run's context and how its days are run; a signal ends it.

    The stream is read at `budget`, a share of each shard's reads.
    """
    ending = stop.StopRequest()
    clock, rng = stop.StoppableClock(SystemClock(), ending), new_random()

    def new_backoff() -> Backoff:
        ending.check()  # called before every request
        return Backoff(clock, rng, budget_seconds=_STORE_BUDGET_SECONDS)

    address = settings.stream._replace(share=budget)
    with stop.stopped_by_signals(ending), ExitStack() as stack:
        many = request.is_range
        progress = stack.enter_context(_progress(command)) if many else no_progress
        engine = LazySpark(
            stack, request.master, ending.check, lambda: nullcontext(no_progress) if many else _progress(command)
        )
        archive = RetryingStorage(open_storage(settings.archive.address), new_backoff)
        context = JobContext(
            archive=archive,
            place=settings.archive,
            clock=by_service(clock, archive, settings.archive.prefix),
            new_id=new_id,
            engine=engine,
            shuffle=engine.shuffle,
            group_sources=engine.group_source,
            checkpoints=lambda: _checkpoints(settings),
            version=importlib.metadata.version("minutebook"),
            owner=settings.owner,
            stream=address.here,
            shards=once_in_vain(lambda: address.open(clock, budget_seconds=_LISTING_BUDGET_SECONDS).listed()),
            spread=engine.spread,
        )
        workers = DayWorkers(request.parallel_days, ending, clock, engine.cancel)
        yield context, DaysRun(command, many, request.as_json, workers, progress)


def _checkpoints(settings: JobSettings) -> Checkpoints:
    # Reads are idempotent, and an audit goes on without the table: botocore's retries are enough.
    client = clients.make_dynamodb_client(
        settings.region, settings.dynamodb_endpoint, settings.access, clients.client_config(attempts=5)
    )
    return read_checkpoints(client, settings.application_name)


def _show_outcome(done: rewrite.Compacted, folder: DayFolder, out: StorePrefix) -> None:
    console = TerminalConsole()
    if done.manifest is None:
        console.print(f"{folder.name} is not published: {done.reason}")
        return
    words = {"published": "published", "already": "was published before; nothing to do", "held": "is not published"}
    console.print(
        f"{folder.name} {words[done.state]}: {done.manifest.rows:,} rows, {len(done.manifest.files)} file(s), "
        f"verdict {done.verdict}",
    )
    address = open_storage(out.address).uri(folder.generation(done.manifest.generation))
    console.print(address)
    if done.table is not None:
        states = {"committed": "committed", "already": "was there before; nothing to do"}
        state = states.get(done.table.state, f"HELD, the day is not in it: {done.conflicts}")
        console.print(f"table {done.table.table}: {state}")
