"""`minutebook status`: the state of the stream, the archive and the lease table, read-only."""

import sys
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec
from rich.live import Live

from consumer.connections import archive_of
from consumer.leases.table import failover_seconds, lease_table_of
from consumer.requests import StatusRequest
from consumer.settings.settings import LoadedSettings, load_with_kcl
from consumer.status.coverage import CoverageWatch
from consumer.status.facts import LagReader, StatusSources, ask_or_note, observe
from consumer.status.report import LeaseWatch, StatusReport, shard_statuses, unread
from consumer.status.screen import HEADINGS, NUMBERS, cells_of, render
from consumer.stream.kinesis import KinesisStream
from minutebook.aws.clients import make_kinesis_client
from minutebook.clock import SystemClock, new_random
from minutebook.errors import SettingsError
from minutebook.logs import configure_logging
from minutebook.properties_file import PropertiesFile
from minutebook.properties_folder import PropertiesFolder, StreamFile, streams_of
from minutebook.spans import parse_span
from minutebook.streams_run import StreamEnd, StreamsRun
from minutebook.terminal import TerminalConsole
from minutebook.wording import ITEM, printable_json, some_of

_PATIENCE_SECONDS: Final = 10
"""How long requests to one service are retried."""
_AT_ONCE: Final = 8
"""Streams of a folder that are looked at side by side."""
_SHOWN: Final = 2
_MAX_BEHIND: Final = "--max-behind"
_READS_APART: Final = 0.4
"""The part of the failover time between two reads of the leases; a living worker renews every third of it."""


def run_status(request: StatusRequest, environ: Mapping[str, str]) -> int:
    """Print one report, or with `watch` one after the other until interrupted; of a folder one table of its streams.

    Returned is the exit code. It is 0 also when the table, the bucket or the archive does not exist; a service that
    failed gives the code of its error; `judge_limit` says the codes of `max_behind`.
    """
    if request.max_behind is not None:
        parse_span(request.max_behind, _MAX_BEHIND)
        if request.watch:
            raise SettingsError("--max-behind works for one report only", next_step="leave --watch out")
    configure_logging("error")
    source = streams_of(request.file, environ, request.stream)
    if isinstance(source, PropertiesFolder):
        return _run_of_streams(source, request, environ)
    loaded = load_with_kcl(source, environ)
    console, clock = TerminalConsole(), SystemClock()
    reports = iter_reports(_sources(loaded, request.days, request.hours), failover_seconds(loaded))
    try:
        if not request.watch:
            report = next(reports)
            _print(console, report, as_json=request.as_json)
            return _conclude(console, report, request.max_behind, as_json=request.as_json)
        if request.as_json:
            for report in reports:
                _print(console, report, as_json=True)
                clock.sleep(request.every_seconds)
        with Live(console=console, auto_refresh=False) as live:
            for report in reports:
                live.update(render(report), refresh=True)
                clock.sleep(request.every_seconds)
    except KeyboardInterrupt:
        return 0
    return 0


def _run_of_streams(folder: PropertiesFolder, request: StatusRequest, environ: Mapping[str, str]) -> int:
    """Print a row for each stream; they are looked at side by side: a look waits for seconds between two reads."""
    if request.watch:
        raise SettingsError("--watch works for one stream only", next_step="name it with --stream NAME")

    def work(_: StreamFile, properties: PropertiesFile) -> StreamEnd:
        loaded = load_with_kcl(properties, environ)
        reports = iter_reports(_sources(loaded, request.days, request.hours), failover_seconds(loaded))
        return end_of_stream(next(reports), request.max_behind)

    return StreamsRun("status", folder, request.as_json, HEADINGS, _AT_ONCE, numbers=NUMBERS).run(work)


def end_of_stream(report: StatusReport, max_behind: str | None) -> StreamEnd:
    """Return the row of a stream: what a person would look at first of its report."""
    code, problems = unasked_services_code(report), sorted(report.problems, key=lambda each: each.exit_code == 0)
    told, next_step = [each.sentence for each in problems], next((each.next_step for each in problems), "")
    if max_behind is not None:
        verdict = judge_limit(report, max_behind)
        code = code or verdict.exit_code
        told += [verdict.sentence] if verdict.exit_code else []
    if broken := [shard.shard for shard in report.shards if shard.gaps]:
        told.append(f"gaps in the archive of {some_of(broken, _SHOWN)}")
        next_step = next_step or "add --stream to see them; the nightly audit says what is lost"
    return StreamEnd(code, ITEM.join(told), next_step, report, cells_of(report))


def iter_reports(sources: StatusSources, failover: float) -> Iterator[StatusReport]:
    """Yield one report after the other; the leases' ages become more exact with each."""
    watch, clock, settings = LeaseWatch(failover), sources.clock, sources.settings
    while True:
        begun = clock.monotonic()
        observation, problems = observe(sources)
        if observation.leases is not None:
            watch.note(observation.leases.leases, begun)
            clock.sleep(max(0.0, begun + failover * _READS_APART - clock.monotonic()))
            # Only the counters are used: a checkpoint read now may lie beyond the archive read a moment ago.
            rows = ask_or_note(sources.table.read, problems, "lease table")
            watch.note(rows.leases if rows else {}, clock.monotonic())
        shards = shard_statuses(observation, watch, clock.monotonic())
        yield StatusReport(
            at_ms=clock.now_ms(),
            application=settings.application_name,
            stream=settings.stream_name,
            bucket=settings.bucket,
            prefix=settings.prefix,
            problems=[*problems, *unread(shards)],
            coverage=observation.coverage,
            complete=observation.complete,
            shards=shards,
        )


def unasked_services_code(report: StatusReport) -> int:
    """Return the code of the first service that failed; 0 when all answered."""
    return next((problem.exit_code for problem in report.problems if problem.exit_code), 0)


class LimitVerdict(NamedTuple):
    """The exit code and its sentence."""

    exit_code: int
    sentence: str


def judge_limit(report: StatusReport, limit: str) -> LimitVerdict:
    """Return 7 if a shard is farther behind than the limit, else 4 if a lag or all shards are unknown, else 0."""
    seconds = parse_span(limit, _MAX_BEHIND)
    late = [shard.shard for shard in report.shards if (shard.behind_seconds or 0) > seconds]
    if late:
        return LimitVerdict(7, f"more than {limit} behind: {', '.join(late)}")
    unknown = [shard.shard for shard in report.shards if shard.behind_seconds is None]
    if unknown or not report.shards:
        return LimitVerdict(4, f"not known how far behind: {', '.join(unknown) or 'no shard was found'}")
    return LimitVerdict(0, f"no shard is more than {limit} behind")


def _conclude(console: TerminalConsole, report: StatusReport, max_behind: str | None, *, as_json: bool) -> int:
    """Return the exit code: that of a failed service comes before that of the limit."""
    if max_behind is None:
        return unasked_services_code(report)
    verdict = judge_limit(report, max_behind)
    if not as_json:
        console.print(verdict.sentence, style="green" if verdict.exit_code == 0 else "bold red")
    return unasked_services_code(report) or verdict.exit_code


def _sources(loaded: LoadedSettings, days: int, hours: float) -> StatusSources:
    settings, clock, rng = loaded.settings, SystemClock(), new_random()
    client = make_kinesis_client(settings.region, settings.kinesis_endpoint, settings.access)
    stream = KinesisStream(lambda: client, settings.stream_name, clock, rng, budget_seconds=_PATIENCE_SECONDS)
    store = archive_of(settings, clock, _PATIENCE_SECONDS)
    return StatusSources(
        settings=settings,
        store=store,
        describe=stream.describe,
        all_shards=stream.all_shards,
        table=lease_table_of(loaded, clock, rng, budget_seconds=_PATIENCE_SECONDS),
        lags=LagReader(client, settings.stream_name),
        clock=clock,
        days=days,
        coverage=CoverageWatch(store, settings.prefix, clock, hours=hours),
    )


def _print(console: TerminalConsole, report: StatusReport, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(printable_json(msgspec.json.encode(report).decode()) + "\n")
        sys.stdout.flush()
    else:
        console.print(render(report))
