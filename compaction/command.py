"""`minutebook audit` and `minutebook compact`: read the settings, wire, run, show."""

import importlib.metadata
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from random import Random
from typing import Final

import msgspec
from rich.console import Console

from archive.aws import client_config, make_dynamodb_client, make_kinesis_client
from archive.clock import Clock, SystemClock, new_id, new_random
from archive.errors import SettingsError
from archive.format.day import Day, day_of_ms
from archive.format.minute import iso_time
from archive.logs import Limit, configure_logging
from archive.retry import Backoff
from archive.store.places import StorePrefix, open_storage, parse_place
from archive.store.retrying import RetryingStorage
from compaction.audit.audit import audit_day
from compaction.glue.catalog import open_table
from compaction.iceberg.catalog import opened_table
from compaction.inventory.checkpoints import Checkpoints, read_checkpoints
from compaction.inventory.inventory import list_day
from compaction.inventory.owner import read_owned
from compaction.job.context import AuditOptions, JobContext
from compaction.job.request import AuditRequest, CompactRequest, checked_fail_on
from compaction.job.scope import is_settled, judged_scope, parse_so_far, scope_end
from compaction.job.settings import JobSettings, check_apart, load_job_settings
from compaction.producers.day_before import look_back
from compaction.publish.generation import DayFolder
from compaction.publish.publisher import Publisher
from compaction.recheck import days_to_recheck
from compaction.report.metric_line import Judged
from compaction.report.progress_lines import ProgressLines
from compaction.report.screen import progress_bar
from compaction.report.telling import telling_of
from compaction.rewrite import Compacted, CompactOptions, compact_day, generation_of
from compaction.spark.engine import Progress
from compaction.spark.lazy import LazySpark
from compaction.stream.kinesis import StreamReader, once_in_vain
from compaction.tasks.plan import plan_tasks, raw_objects, single_groups
from compaction.verdict.exit_code import DayEnd, exit_code, was_read

_STORE_BUDGET_SECONDS: Final = 120
_LISTING_BUDGET_SECONDS: Final = 15
"""The markers name the shards too: a stream that cannot be asked holds no audit up."""
_FOLDER: Final = "_parquet"


def audit(request: AuditRequest, environ: Mapping[str, str]) -> int:
    """Audit the days; returns the exit code of the worst verdict (`compaction.verdict.exit_code`).

    Raises:
        SettingsError: the file or an option.
        SafetyRefusal: the archive of another stream.
    """
    now_ms = SystemClock().now_ms()
    days, so_far_ms = request.days(day_of_ms(now_ms)), parse_so_far(request.so_far, now_ms)
    level, event_id, fail_on = request.checked_level(), request.checked_event_id(), checked_fail_on(request.fail_on)
    _configure_logging()
    settings = load_job_settings(request.file, environ)
    published = _published(settings, request.published)
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
    )
    ends: list[DayEnd] = []
    with _context(settings, "audit", request.master) as context:
        telling = telling_of(context, settings, request, "audit", published)
        for day in days:
            began = context.clock.monotonic()
            result = audit_day(context, day, options)
            ends.append(DayEnd(result.audit.verdict, was_read(result.audit)))
            seconds = context.clock.monotonic() - began
            telling.measure(Judged(str(day), result.audit.verdict, seconds), result.audit)
            telling.show(result)
    return exit_code(ends, fail_on)


def compact(request: CompactRequest, environ: Mapping[str, str]) -> int:
    """Compact the days; returns the exit code of the worst verdict.

    Raises:
        SettingsError: the file or an option.
        SafetyRefusal: the archive of another stream; a day that was expired; a table whose rows others changed.
        StoreError: the archive or the output.
        CatalogRefused, CatalogUnavailable: the catalog of the Iceberg table; the day is published all the same.
    """
    now_ms = SystemClock().now_ms()
    days, so_far_ms = request.days(day_of_ms(now_ms)), parse_so_far(request.so_far, now_ms)
    if request.recheck is not None and (request.recheck < 0 or so_far_ms is not None):
        raise SettingsError("--recheck takes a number of days, and days that are over", next_step="drop --so-far")
    event_id, table, fail_on = request.checked_event_id(), request.checked_table(), checked_fail_on(request.fail_on)
    _configure_logging()
    settings = load_job_settings(request.file, environ)
    out = _published(settings, request.out)
    check_apart(out, settings.archive)
    audit_options = AuditOptions(
        lookback_days=request.lookback_days,
        stream=settings.stream_name,
        application=settings.application_name,
        command=settings.audit_command,
        event_id=event_id,
        published=out,
        drop_producer_duplicates=request.drop_producer_duplicates,
        so_far_ms=so_far_ms,
    )
    options = CompactOptions(audit_options, out, accept_defects=request.accept_defects)
    catalog = None if request.glue is None else open_table(request.glue, out, _waits)
    ends: list[DayEnd] = []
    opened = nullcontext() if table is None or request.dry_run else opened_table(table, request.iceberg_catalog, out)
    with _context(settings, "compact", request.master) as context, opened as day_table:
        telling = telling_of(context, settings, request, "compact", out)
        again = [] if request.recheck is None else days_to_recheck(context, out, request.recheck)
        for day in sorted({*days, *again}):
            if request.dry_run:
                _show_plan(context, day, audit_options, out, as_json=request.as_json)
                continue
            register = None if catalog is None else catalog.register
            began = context.clock.monotonic()
            done = compact_day(
                context._replace(table=day_table, register=register), context.open(out.address), day, options
            )
            ends.append(DayEnd(done.verdict, done.state != "held"))
            generation = "" if done.manifest is None else done.manifest.generation
            rows = None if done.manifest is None else done.manifest.rows
            seconds = context.clock.monotonic() - began
            judged = Judged(str(day), done.verdict, seconds, rows, state=done.state, generation=generation or None)
            telling.measure(judged, None if done.result is None else done.result.audit)
            if done.result is not None:
                telling.show(done.result, generation)
            _show_outcome(done, day, out, quiet=request.as_json)
    return exit_code(ends, fail_on)


def _waits() -> Backoff:
    """Return the waits of a request to a catalog."""
    return Backoff(SystemClock(), new_random(), budget_seconds=_STORE_BUDGET_SECONDS)


def _configure_logging() -> None:
    """Tell more where nobody looks at a terminal: the log is then all there is."""
    level = "warning" if sys.stderr.isatty() else "info"
    configure_logging(level, limit=Limit(SystemClock()))


def _progress(stack: ExitStack, what: str) -> Progress:
    """Return who shows how far Spark is: a bar on a terminal, and lines in a log."""
    return stack.enter_context(progress_bar(what)) if sys.stderr.isatty() else ProgressLines(what, SystemClock())


@contextmanager
def _context(settings: JobSettings, what: str, master: str) -> Iterator[JobContext]:
    clock, rng = SystemClock(), new_random()
    with ExitStack() as stack:
        engine = LazySpark(stack, lambda: _progress(stack, what), master)
        yield JobContext(
            archive=RetryingStorage(
                open_storage(settings.archive.address),
                lambda: Backoff(clock, rng, budget_seconds=_STORE_BUDGET_SECONDS),
            ),
            place=settings.archive,
            clock=clock,
            new_id=new_id,
            engine=engine,
            shuffle=engine.shuffle,
            dealers=engine.dealer,
            checkpoints=lambda: _checkpoints(settings),
            version=importlib.metadata.version("minutebook"),
            owner=settings.owner,
            stream=lambda: _stream(settings, clock, rng),
            shards=once_in_vain(
                lambda: _stream(settings, clock, rng, budget_seconds=_LISTING_BUDGET_SECONDS).listed()
            ),
        )


def _stream(settings: JobSettings, clock: Clock, rng: Random, *, budget_seconds: float = 120) -> StreamReader:
    client = make_kinesis_client(
        settings.region, settings.kinesis_endpoint, settings.access, client_config(connections=32)
    )
    return StreamReader(client, settings.stream_name, clock, rng, budget_seconds=budget_seconds)


def _published(settings: JobSettings, uri: str | None) -> StorePrefix:
    """Return where days are published: `_parquet/` beside the archive unless it was said."""
    if uri is not None:
        return parse_place(
            uri, settings.region, settings.s3_endpoint, settings.access, archive_bucket=settings.bucket
        )
    return StorePrefix(settings.archive.address, f"{settings.archive.prefix}{_FOLDER}/")


def _checkpoints(settings: JobSettings) -> Checkpoints:
    # Reads are safe to repeat, and an audit goes on without the table: botocore's own retries are enough.
    client = make_dynamodb_client(
        settings.region, settings.dynamodb_endpoint, settings.access, client_config(attempts=5)
    )
    return read_checkpoints(client, settings.application_name)


def _show_outcome(done: Compacted, day: Day, out: StorePrefix, *, quiet: bool) -> None:
    if quiet:
        return
    console = Console()
    if done.manifest is None:
        console.print(f"{day} is not published: {done.reason}", highlight=False, soft_wrap=True)
        return
    words = {"published": "published", "already": "was published before; nothing to do", "held": "is not published"}
    console.print(
        f"{day} {words[done.state]}: {done.manifest.rows:,} rows, {len(done.manifest.files)} file(s), verdict "
        f"{done.verdict}",
        highlight=False,
    )
    folder = DayFolder(out.prefix, day).generation(done.manifest.generation)
    console.print(open_storage(out.address).uri(folder), highlight=False, soft_wrap=True)
    if done.table is not None:
        state = {"committed": "committed", "already": "was there before; nothing to do"}[done.table.state]
        console.print(f"table {done.table.table}: {state}", highlight=False, soft_wrap=True)
    if done.registered is not None:
        told = {"created": "registered", "updated": "registered anew", "already": "was registered before"}
        console.print(f"catalog: {told[done.registered]}", highlight=False)


def _show_plan(context: JobContext, day: Day, options: AuditOptions, out: StorePrefix, *, as_json: bool) -> None:
    """Print what a run would do; reads names only."""
    application, now_ms = read_owned(context.archive, context.place.prefix, context.owner), context.clock.now_ms()
    until_ms = scope_end(day, options.so_far_ms, now_ms)
    judged_scope(day, application, now_ms, until_ms)
    inventory = list_day(context.archive, day, context.place.prefix).until(until_ms)
    tasks = plan_tasks(single_groups(raw_objects(inventory.rows)), sizes=context.sizes)
    publisher = Publisher(context.open(out.address), DayFolder(out.prefix, day))
    pointer = publisher.current().pointer
    before = look_back(context, day, options) if options.drop_producer_duplicates else None
    generation = generation_of(inventory, options, before)
    state = "not published" if pointer is None else f"published as {pointer.generation}, verdict {pointer.verdict}"
    until = None if until_ms is None else iso_time(until_ms)
    is_same = pointer is not None and (pointer.generation, pointer.until) == (generation, until)
    stands = is_same and pointer is not None and publisher.intact(pointer, inventory.digest())
    action = "nothing to do" if stands else "would be rewritten"
    if until is None and not is_settled(day, now_ms):
        action = "would be held: it is not over"
    if as_json:
        plan = {"day": str(day), "segments": len(inventory.segments), "bytes": inventory.size, "tasks": len(tasks)}
        plan |= {"generation": generation, "state": state, "action": action}
        sys.stdout.write(msgspec.json.encode(plan).decode() + "\n")
        return
    Console().print(
        f"{day}: {len(inventory.segments):,} segments, {inventory.size:,} bytes, {len(tasks)} task(s), "
        f"generation {generation}; {state}; {action}",
        highlight=False,
        soft_wrap=True,
    )
