"""`minutebook audit` and `minutebook compact`: read the settings, wire, run, show."""

import importlib.metadata
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Final, Literal, NamedTuple, Self

import msgspec

from compaction.audit.audit import audit_day
from compaction.audit.conclusion import DayResult
from compaction.commands.engines import TaskEngine, engine_for
from compaction.inventory.checkpoints import Checkpoints, read_checkpoints
from compaction.job import checks, scope
from compaction.job.context import AuditOptions, JobContext
from compaction.job.request import AuditRequest, CompactRequest
from compaction.job.service_time import by_service
from compaction.job.settings import JobSettings, check_apart, load_job_settings
from compaction.night import dry_run, rewrite
from compaction.night.days import stop
from compaction.night.days.page import PublishedPage
from compaction.night.days.run import (
    KEPT_COLUMNS,
    REWRITE_COLUMNS,
    DayRow,
    DaysRun,
    RunSummary,
    count_due,
    end_of_stream,
    limited,
    row_of_audit,
    row_of_compaction,
    row_of_due,
    row_of_due_plan,
    row_of_plan,
    with_kept_columns,
)
from compaction.night.days.side_by_side import DayWorkers
from compaction.night.due import (
    PointerWord,
    WorkFailed,
    do_due,
    find_due,
    leave_due,
    pointer_word,
    published_audit,
)
from compaction.report import metric_line, reporter, screen
from compaction.stream.kinesis import SHARE, once_in_vain
from compaction.tables import catalog
from compaction.tables.commit import DayTable
from compaction.tasks.progress import Progress, no_progress
from compaction.verdict.exit_code import FailOn
from minutebook import logs
from minutebook.aws import clients
from minutebook.clock import SystemClock, new_id, new_random
from minutebook.errors import (
    CatalogRefused,
    CatalogUnavailable,
    FormatError,
    MinutebookError,
    StoreError,
    worst,
)
from minutebook.format.day import Day, day_of_ms
from minutebook.properties_file import PropertiesFile, Source
from minutebook.properties_folder import PropertiesFolder, StreamFile, streams_of
from minutebook.published.generation import DayFolder
from minutebook.retry import Backoff
from minutebook.store.places import StorePrefix, open_storage
from minutebook.store.retrying import RetryingStorage
from minutebook.streams_run import StreamEnd, StreamsRun, in_turn
from minutebook.terminal import TerminalConsole
from minutebook.wording import printable_json, some_of

_Away = CatalogUnavailable | CatalogRefused
"""Why the catalog could not be opened: each day's pointer is right without it."""
_STORE_BUDGET_SECONDS: Final = 120
_OLDER_NAMED: Final = 10
_LISTING_BUDGET_SECONDS: Final = 15
"""Short, because the markers name the shards too: an audit goes on without the stream."""


def run_audit(request: AuditRequest, environ: Mapping[str, str]) -> int:
    """Audit the days; return the exit code of the worst (`compaction.night.days.run`), or of the worst stream."""
    now_ms = SystemClock().now_ms()
    days, so_far_ms = checks.requested_days(request, day_of_ms(now_ms)), scope.parse_so_far(request.so_far, now_ms)
    level, event_id = checks.audit_level(request.level, request.event_id), checks.event_id_path(request.event_id)
    fail_on = checks.fail_on(request.fail_on)
    budget = checks.stream_budget(request.stream_budget, level)
    sample = checks.sample_minutes(request.sample, level)
    _configure_logging()

    def audit(session: Session, source: Source) -> int:
        settings = load_job_settings(source, environ)
        published = settings.output(request.published)
        options = _audit_options(request, settings, published, event_id, so_far_ms)._replace(
            level=level, shard=request.shard, sample_minutes=sample
        )
        with _started(session, settings, budget=budget) as (context, run):
            report, as_json = request.report, request.as_json
            output = reporter.new_reporter(
                context, settings, "audit", published, report=report, as_json=as_json, is_quiet=run.many
            )

            def show(day: Day, result: DayResult, seconds: float) -> DayRow:
                output.measure(metric_line.DayMetrics(str(day), result.audit.verdict, seconds), result.audit)
                return run.reported(row_of_audit(result, fail_on), output.show(result))

            return run.run(days, lambda day: audit_day(context, day, options), show)

    source = streams_of(request.file, environ, request.stream)
    checks.one_streams_options(source, request)
    with opened_session("audit", request, source) as session:
        return of_each_stream(session, source, audit)


def run_compact(request: CompactRequest, environ: Mapping[str, str]) -> int:
    """Compact the days; return the exit code of the worst (`compaction.night.days.run`), or of the worst stream.

    An error of the Iceberg table's catalog is raised after the days are published; with `--due` rows tell it.
    """
    now_ms = SystemClock().now_ms()
    window, budget = checks.due_days(request), checks.budget_seconds(request.budget)
    days = [] if window is not None else checks.requested_days(request, day_of_ms(now_ms))
    so_far_ms, reason = scope.parse_so_far(request.so_far, now_ms), checks.acceptance(request)
    event_id = checks.event_id_path(request.event_id, is_needed=request.drop_producer_duplicates)
    table_name = checks.iceberg_table(request.iceberg, request.iceberg_catalog)
    fail_on, rewrites = checks.fail_on(request.fail_on), checks.rewrites_columns(request)
    _configure_logging()

    def compact(session: Session, source: Source) -> int:
        settings = load_job_settings(source, environ)
        out = settings.output(request.out)
        check_apart(out, settings.archive)
        audit_options = _audit_options(request, settings, out, event_id, so_far_ms)._replace(
            drop_producer_duplicates=request.drop_producer_duplicates, max_repeats=request.max_repeats
        )
        columns = checks.columns_of_compact(settings, request)
        options = rewrite.CompactOptions(
            audit_options, out, reason, request.zstd_level, columns, rewrites, request.yes
        )
        with _started(session, settings) as (context, started):
            run = started._replace(applied=not request.dry_run)
            if request.dry_run:
                if window is not None:
                    return _plan_due(context, run, options, window)
                return _plan_days(context, run, options, days)
            output = reporter.new_reporter(
                context, settings, "compact", out, report=request.report, as_json=request.as_json, is_quiet=run.many
            )
            name = checks.table_of_stream(table_name, settings.application_name)
            table = _Table(name, request.iceberg_catalog, columns is not None and columns.event is not None)
            compaction = _Compaction(
                context, options, output, fail_on, as_json=request.as_json, max_unfit=request.max_unfit
            )
            showing = session.page.showing(context, settings, out, session.ending.forget)
            with showing, table.opened(out, is_needed=window is None) as opened:
                compaction = compaction.with_table(opened)
                try:
                    if window is not None:
                        return compaction.run_due(run, window, session.deadline(budget))
                    return compaction.run_days(run, days)
                except stop.Stopped:
                    return run.workers.stop.exit_code or 1

    source = streams_of(request.file, environ, request.stream)
    checks.one_streams_options(source, request)
    checks.table_of_each(source, table_name)
    if isinstance(source, PropertiesFolder) and budget is not None:
        source = in_turn(source, day_of_ms(now_ms))
    report = request.report if window is not None and not request.dry_run else None
    page = PublishedPage(report, source if isinstance(source, PropertiesFolder) else None)
    with opened_session("compact", request, source) as opened:
        session = opened._replace(page=page)
        written = 0
        try:
            code = of_each_stream(session, source, compact)
        finally:
            if not session.ending.is_asked:
                written = page.write()
    if written:  # only where no signal ended the run, whose code is none of these
        code = worst([code, written])
    if request.dry_run and not request.as_json:
        TerminalConsole().print("dry run: nothing was changed")
    return code


class _Table(NamedTuple):
    """The Iceberg table of `--iceberg`."""

    name: str | None
    catalog: str | None
    by_event: bool

    @contextmanager
    def opened(self, out: StorePrefix, *, is_needed: bool) -> Iterator[DayTable | _Away | None]:
        """Open it; return None without one. One that is away is returned as the error, unless it `is_needed`."""
        if self.name is None:
            yield None
            return
        with ExitStack() as stack:
            opened: DayTable | _Away
            try:
                table = stack.enter_context(
                    catalog.opened_table(self.name, self.catalog, out, by_event=self.by_event)
                )
                opened = catalog.SerialTable(table)
            except (CatalogUnavailable, CatalogRefused) as exc:
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
    max_unfit: float | None = None
    away: _Away | None = None

    def with_table(self, opened: DayTable | _Away | None) -> Self:
        """Return the same with the table, or without it."""
        if isinstance(opened, _Away):
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
            row = limited(with_kept_columns(row_of_compaction(day, done, self.fail_on), done), done, self.max_unfit)
            return run.reported(row, self._show(day, done, seconds))

        code = run.run(days, self._compact, show)
        if errors and not run.many:
            run.raise_unless_worse(code, errors[0])
        if conflicting and code == CatalogRefused.exit_code:
            raise CatalogRefused(
                "; ".join(f"{name} did not take {day}" for name, day in sorted(conflicting))
                + ": columns are others there",
                next_step="the days are published; minutebook docs iceberg says which columns a table takes",
            )
        return code

    def run_due(self, run: DaysRun, window: int, deadline: float | None) -> int:
        """Do what is due of the last days, and name the rest; no day begins after `deadline`, on the clock."""
        context, root = self.context, self.options.out.prefix
        clock = context.clock
        due = find_due(context, self.options.out, self.options.audit, window)
        by_day = due.by_day

        def work(day: Day) -> tuple[rewrite.Compacted, PointerWord]:
            each = by_day[day]
            if deadline is not None and clock.monotonic() > deadline:
                spent = stop.BudgetSpent("the budget was spent before it", next_step="the next run goes on with it")
                raise self._with_report(day, leave_due(context, each, self.options, spent))
            try:
                done = do_due(context, each, self.options)
            except WorkFailed as exc:
                raise self._with_report(day, exc) from exc
            if not each.why or each.is_expired:
                return done, each.pointer
            return done, pointer_word(context.open(self.options.out.address), root, day)

        def show(day: Day, worked: tuple[rewrite.Compacted, PointerWord], seconds: float) -> DayRow:
            done, pointer = worked
            if self.away is not None:
                done = done._replace(table_error=self.away)
            each = by_day[day]
            today, has_table = day_of_ms(clock.now_ms()), context.table is not None
            # Of a folder each stream has a command line of its own.
            audit = "minutebook audit" if run.told is None else self.options.audit.command
            row = row_of_due(each, done, pointer, self.fail_on, has_table=has_table, today=today, audit=audit)
            row = limited(row, done, self.max_unfit)
            return run.reported(row, self._show(day, done, seconds, row))

        # With event ids a day is compared with the one before it; else yesterday is waited for most.
        days = sorted(by_day, reverse=self.options.audit.event_id is None)
        run = run._replace(
            many=True,
            older=_older(due.older.open_days),
            measure=lambda rows: self.output.measure_night(count_due(rows, due.older.open_days)),
        )
        return run.run(days, work, show)

    def _with_report(self, day: Day, error: MinutebookError) -> MinutebookError:
        """Replace the report of a verdict that was withdrawn unread; return the error, and why that failed, if so."""
        if not isinstance(error, WorkFailed) or not error.is_withdrawn:
            return error
        out = self.options.out
        failure: MinutebookError | None
        try:
            audit = published_audit(self.context.open(out.address), out.prefix, day)
            failure = None if audit is None else self.output.replace(audit)
        except (FormatError, StoreError) as exc:
            failure = exc
        return error if failure is None else error.with_remark(f"its report still says clean: {failure}")

    def _compact(self, day: Day) -> rewrite.Compacted:
        return rewrite.compact_day(self.context, self.context.open(self.options.out.address), day, self.options)

    def _show(
        self, day: Day, done: rewrite.Compacted, seconds: float, due: DayRow | None = None
    ) -> MinutebookError | None:
        """Show a day; return why its report was not written, if so."""
        out = self.options.out
        error = _report(self.output, day, done, seconds, due)
        if not self.as_json:
            _show_outcome(done, DayFolder(out.prefix, day), out)
        return error


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
    storage = context.open(options.out.address)

    def look(day: Day) -> DayRow:
        each = due.by_day[day]
        if not each.is_expired:
            return row_of_due_plan(each)
        objection = rewrite.objection_to_expired(context, storage, day, options, each.tombstone)
        return row_of_due_plan(each, objection)

    return run.run(sorted(due.by_day), look, lambda _day, row, _seconds: row)


def _show_plan(run: DaysRun, day: Day, plan: dry_run.DryRun, _seconds: float) -> DayRow:
    """Print the plan of a single day; several have rows of a table instead."""
    if not run.many and run.as_json:
        sys.stdout.write(printable_json(msgspec.json.encode(plan).decode()) + "\n")
    elif not run.many:
        TerminalConsole().print(f"{day}: {plan.sentence}")
    return row_of_plan(plan)


def _report(
    output: reporter.Reporter, day: Day, done: rewrite.Compacted, seconds: float, due: DayRow | None
) -> MinutebookError | None:
    generation = "" if done.manifest is None else done.manifest.generation
    rows = None if done.manifest is None else done.manifest.rows
    metrics = metric_line.DayMetrics(
        str(day), done.verdict, seconds, rows, state=done.state, generation=generation or None
    )
    if due is not None:
        metrics = metrics._replace(due={"pointer": due.pointer, "done": due.done, "table": due.table})
    output.measure(metrics, None if done.result is None else done.result.audit)
    return None if done.result is None else output.show(done.result, generation)


def _configure_logging() -> None:
    """Log at level info unless stderr is a terminal."""
    level = "warning" if sys.stderr.isatty() else "info"
    logs.configure_logging(level, limit=logs.Limit(SystemClock()))


def _progress(what: str) -> AbstractContextManager[Progress]:
    return (
        screen.progress_bar(what) if sys.stderr.isatty() else nullcontext(screen.ProgressLines(what, SystemClock()))
    )


class Session(NamedTuple):
    """What the streams of a run share: what runs tasks, the request to stop, and the time it began.

    `many`: several days, or several streams, whose days are rows. `told` gets what a stream's days came to, where
    several streams are run.
    """

    command: str
    request: AuditRequest | CompactRequest
    many: bool
    ending: stop.StopRequest
    clock: stop.StoppableClock
    engine: TaskEngine
    begun: float
    told: Callable[[RunSummary], None] | None = None
    stream: str = ""
    page: PublishedPage = PublishedPage(None)

    def deadline(self, budget: float | None) -> float | None:
        """Return when the budget of the whole run is spent, on its clock; None without one."""
        return None if budget is None else self.begun + budget


@contextmanager
def opened_session(
    command: str, request: AuditRequest | CompactRequest, source: Source | PropertiesFolder
) -> Iterator[Session]:
    """Yield what a run's streams share; it starts with the first task, and a signal ends the run."""
    ending = stop.StopRequest()
    clock = stop.StoppableClock(SystemClock(), ending)
    many = request.is_range or isinstance(source, PropertiesFolder)
    with stop.stopped_by_signals(ending), ExitStack() as stack:
        engine = engine_for(
            request.engine,
            request.master,
            stack,
            ending.check,
            lambda: nullcontext(no_progress) if many else _progress(command),
        )
        yield Session(command, request, many, ending, clock, engine, clock.monotonic())


def of_each_stream(
    session: Session, source: Source | PropertiesFolder, work: Callable[[Session, Source], int]
) -> int:
    """Run a command of one stream, or of each of a folder; return the exit code."""
    if not isinstance(source, PropertiesFolder):
        return work(session, source)

    def work_on(each: StreamFile, properties: PropertiesFile) -> StreamEnd:
        if code := session.ending.exit_code:
            return StreamEnd(code, "not begun: the run was asked to end", "run the command again")
        summaries: list[RunSummary] = []
        try:
            code = work(session._replace(told=summaries.append, stream=each.name), properties)
        except MinutebookError as exc:
            if not summaries:
                raise
            return end_of_stream(summaries[-1], exc.exit_code)._replace(outcome=str(exc), next_step=exc.next_step)
        finally:
            session.ending.forget()
            session.engine.forget_gone()
        return end_of_stream(summaries[-1], code) if summaries else StreamEnd(code)

    return StreamsRun(session.command, source, session.request.as_json, is_long=True).run(work_on)


@contextmanager
def _started(
    session: Session, settings: JobSettings, *, budget: float = SHARE
) -> Iterator[tuple[JobContext, DaysRun]]:
    """Yield the context of a stream and how its days are run.

    The stream is read at `budget`, a share of each shard's reads.
    """
    ending, clock, engine, rng = session.ending, session.clock, session.engine, new_random()

    def new_backoff() -> Backoff:
        ending.check()  # called before every request
        return Backoff(clock, rng, budget_seconds=_STORE_BUDGET_SECONDS)

    address = settings.stream._replace(share=budget)
    label = f"{session.command} {session.stream}".rstrip()
    with _progress(label) if session.many else nullcontext(no_progress) as progress:
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
            schemas=settings.schemas,
        )
        workers = DayWorkers(session.request.parallel_days, ending, clock, engine.cancel)
        yield (
            context,
            DaysRun(session.command, session.many, session.request.as_json, workers, progress, told=session.told),
        )


def _checkpoints(settings: JobSettings) -> Checkpoints:
    # Reads are idempotent, and an audit goes on without the table: botocore's retries are enough.
    client = clients.make_dynamodb_client(
        settings.region, settings.dynamodb_endpoint, settings.access, clients.client_config(attempts=5)
    )
    return read_checkpoints(client, settings.lease_table, settings.application_name)


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
    if done.keeps_columns:
        console.print(f"{KEPT_COLUMNS}: {REWRITE_COLUMNS}")
    if done.table is not None:
        states = {"committed": "committed", "already": "was there before; nothing to do"}
        state = states.get(done.table.state, f"HELD, the day is not in it: {done.conflicts}")
        console.print(f"table {done.table.table}: {state}")
