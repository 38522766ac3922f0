"""`minutebook cut`: divide an archive exactly; `minutebook handover`: go on behind it with another application."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

import msgspec

from consumer.archived.listed_shards import listed_stream
from consumer.connections import archive_of, stream_of
from consumer.cut.archive_cut import cut_archive
from consumer.cut.lease_rows import plan_handover
from consumer.leases.rows import Checkpoint, LeaderLock, Lease, LeaseRows, LeaseTable
from consumer.leases.table import lease_table_of
from consumer.requests import CutRequest, HandoverRequest
from consumer.settings.settings import LoadedSettings, Settings, load_with_kcl
from consumer.stream.port import SURELY_KEPT_MS, ShardInfo, StreamFacts, StreamIdentity
from minutebook.apply_option import is_applied, tell_unchanged
from minutebook.clock import Clock, SystemClock, new_random
from minutebook.coverage.intervals import Interval
from minutebook.coverage.verdict import State, Verdict
from minutebook.cut import END, NONE, Cut, check_cut, encode_cut, read_cut
from minutebook.errors import SafetyRefusal, SettingsError
from minutebook.format.markers import ApplicationRecord
from minutebook.format.minute import HOUR_MS, iso_time, parse_iso_time
from minutebook.format.position import Position
from minutebook.kcl_tables import KCL_TABLES
from minutebook.logs import configure_logging
from minutebook.owner import require_archive
from minutebook.proof.evidence_set import ProofQuery
from minutebook.proof.reading import judge_archive
from minutebook.proof.statements import read_statements
from minutebook.settings.kcl_properties import KCL_PROPERTIES
from minutebook.store.retrying import RetryingStore
from minutebook.terminal import Table, TerminalConsole
from minutebook.wording import printable, printable_json

_RETENTION_MARGIN_MS: Final = HOUR_MS
_UNPROVEN: Final = 4
_NEVER: Final = "name an application that has never run, or delete its lease table first"
_SHOWN: Final = 5
_WAIT: Final = "next step: choose an earlier time, or wait: quiet shards are proven up to each full hour"


class Sources(NamedTuple):
    """The archive and the stream that both commands read. `now_ms` is the time of the call."""

    store: RetryingStore
    prefix: str
    application: ApplicationRecord
    identity: StreamIdentity
    shards: Mapping[str, ShardInfo]
    now_ms: int
    stream: StreamFacts


class UnusedTable(LeaseTable, Protocol):
    """The lease table of an application that has never run."""

    def leader(self) -> LeaderLock | None:
        """Return the leader's lock; None if no worker has it."""
        ...


def run_cut(request: CutRequest, environ: Mapping[str, str]) -> int:
    """Write the cut to `out` or stdout; return 0, or 4 if not all that arrived before it is proven to be archived."""
    at_ms, out = parse_iso_time(request.at), request.out
    if out is not None and (out.exists() or not out.absolute().parent.is_dir()):
        raise SettingsError(f"{out} exists, or its folder does not", next_step="name another file with --out")
    loaded = load_with_kcl(request.file, environ)
    configure_logging("error")
    sources = read_sources(loaded.settings, SystemClock())
    check_time(sources, at_ms)
    from_ms = judged_from_ms(sources, at_ms, request.hours)
    verdict = judge(sources, from_ms, at_ms)
    if verdict.state is not State.COVERED:
        for sentence in [*doubts(verdict), _WAIT]:
            sys.stderr.write(f"minutebook: {printable(sentence)}\n")
        return _UNPROVEN
    # Behind the proof: what it rests on is listed then, also what a worker that lags has stored meanwhile.
    cut = cut_archive(sources.store, sources.prefix, sources.application, at_ms)
    body = encode_cut(msgspec.structs.replace(cut, judged_from=iso_time(from_ms)))
    if out is None:
        sys.stdout.write(printable_json(body.decode()))
        return 0
    out.write_bytes(body)
    texts = list(cut.shards.values())
    TerminalConsole().print(
        f"{out}: {len(texts)} shards at {cut.at}, {texts.count(END)} ended, {texts.count(NONE)} not begun; "
        f"every record before the cut arrived before {cut.through}"
    )
    TerminalConsole().print(_extent(from_ms, cut, is_whole=from_ms == sources.application.begin_ms))
    return 0


def _extent(from_ms: int, cut: Cut, *, is_whole: bool) -> str:
    if is_whole:
        return f"proven to be archived: all that arrived before {cut.at}"
    return (
        f"proven to be archived: what arrived from {iso_time(from_ms)} to {cut.at}; gaps before that were not looked "
        "for (--hours 0: since the archive's beginning)"
    )


def check_time(sources: Sources, at_ms: int) -> None:
    """Raise SettingsError unless the time lies between the archive's beginning and now."""
    begin_ms = sources.application.begin_ms
    if not begin_ms < at_ms <= sources.now_ms:
        raise SettingsError(
            f"--at {iso_time(at_ms)} is no time of the archive: it begins at {iso_time(begin_ms)}, and now is "
            f"{iso_time(sources.now_ms)}",
            next_step="choose a time between both",
        )


def judged_from_ms(sources: Sources, at_ms: int, hours: int) -> int:
    """Return since when coverage is judged: `hours` before the cut; 0: since the archive's beginning."""
    begin_ms = sources.application.begin_ms
    return max(begin_ms, at_ms - hours * HOUR_MS) if hours else begin_ms


def judge(sources: Sources, from_ms: int, at_ms: int) -> Verdict:
    """Return what is proven of the time before the cut."""
    query = ProofQuery(
        Interval(from_ms, at_ms), sources.application.begin_ms, sources.now_ms, listed_stream(sources.shards)
    )
    return judge_archive(sources.store, sources.prefix, query).verdict


def doubts(verdict: Verdict) -> list[str]:
    """Return what is not proven, a sentence each, five at most."""
    times = verdict.open_times
    told = [f"not proven to be archived: {verdict.arrivals(time)} ({time.why})" for time in times[:_SHOWN]]
    more = [f"{len(times) - _SHOWN} more"] if len(times) > _SHOWN else []
    return [*told, *more]


def run_handover(request: HandoverRequest, environ: Mapping[str, str]) -> int:
    """Print the lease rows of the other application and, with `apply`, write them; return the exit code."""
    apply, cut = is_applied(apply=request.apply, dry_run=request.dry_run), read_cut(request.cut)
    loaded = load_with_kcl(request.file, environ)
    check_name(loaded, request.application)
    configure_logging(loaded.settings.log_level)
    sources = read_sources(loaded.settings, SystemClock())
    rows = handover_rows(sources, cut, request.application)
    table = lease_table_of(_as_application(loaded, request.application), SystemClock(), new_random())
    present = check_unused(table, rows)
    console = TerminalConsole()
    _print_rows(console, rows)
    if not apply:
        tell_unchanged("handover", dry_run=request.dry_run)
        return 0
    write_rows(table, [row for row in rows if row.shard_id not in present])
    console.print(
        f"{len(rows) - len(present)} rows written to {table.name}, {len(present)} already there: start the "
        f"application {request.application} on this stream; what lies before the cut is minutebook cat --before "
        f"{request.cut}"
    )
    return 0


def check_name(loaded: LoadedSettings, application: str) -> None:
    """Raise SettingsError for what is no name of an application, SafetyRefusal for that of a table of the archive."""
    try:
        KCL_PROPERTIES["applicationName"].parse(application)
    except ValueError as exc:
        raise SettingsError(f"--application {exc}", next_step="name the KCL application that goes on") from exc
    if application in {text for key, text in loaded.kcl.items() if key in KCL_TABLES}:
        raise SafetyRefusal(
            f"--application {application} is a table of the application that archives this stream",
            next_step="name the one that goes on behind the cut",
        )


def handover_rows(sources: Sources, cut: Cut, application: str) -> list[Lease]:
    """Return the planned rows; raises SafetyRefusal where the stream does not hold what lies behind the cut."""
    check_cut(cut, sources.application)
    if application == sources.application.application:
        raise SafetyRefusal(
            f"{application} is the application that archives this stream",
            next_step="name the one that goes on behind the cut; minutebook restore rebuilds the archive's own rows",
        )
    oldest_ms = sources.now_ms - sources.identity.retention_ms + _RETENTION_MARGIN_MS
    if cut.at_ms < oldest_ms:
        raise SafetyRefusal(
            f"the cut lies at {cut.at}, and what arrived before {iso_time(oldest_ms)} may be trimmed within the hour",
            next_step="make a cut at a later time: the archive holds what lies between",
        )
    statements = read_statements(sources.store, sources.prefix, ())
    if statements.problems:
        problem = statements.problems[0]
        raise SafetyRefusal(f"{problem.key}: {problem.why}", next_step="run minutebook audit, and repair the marker")
    first = [] if statements.first is None else [shard.shard for shard in statements.first.shards]
    rows = plan_handover(cut, {*first, *statements.shards}, sources.shards)
    is_old = cut.at_ms < sources.now_ms - SURELY_KEPT_MS
    if is_old and sources.identity.may_have_trimmed(sources.now_ms):
        starts = {name: shard.start for name, shard in statements.shards.items()}
        check_held(sources.stream, rows, {name: start.first_position() for name, start in starts.items() if start})
    return rows


def check_held(stream: StreamFacts, rows: Sequence[Lease], firsts: Mapping[str, Position]) -> None:
    """Raise SafetyRefusal unless the stream holds each row's position, or the first of a shard behind the cut.

    The retention does not tell: it may have been raised since, and what had been trimmed by then is gone. `firsts`
    are the archive's first positions of shards.
    """
    for row in rows:
        position = row.checkpoint if isinstance(row.checkpoint, Position) else firsts.get(row.shard_id)
        if row.checkpoint != "SHARD_END" and (position is None or not stream.holds(row.shard_id, position)):
            raise SafetyRefusal(
                f"the stream does not prove that it holds all of {row.shard_id} behind the cut: "
                + ("nothing of it is archived" if position is None else f"{position} is trimmed"),
                next_step="make a cut at a time in the last 23 hours: the archive holds what lies between",
            )


def check_unused(table: UnusedTable, rows: Sequence[Lease]) -> set[str]:
    """Return the shards whose rows an interrupted run has left.

    Raises SafetyRefusal unless the table is absent, empty, or holds only such rows: parents and children may differ,
    because the stream may have been split since. A worker that has started has left a leader's row.
    """
    present = table.read() or LeaseRows({})
    planned = {lease.shard_id: _progress(lease) for lease in rows}
    others = [key for key, lease in present.leases.items() if planned.get(key) != _progress(lease)]
    if others or present.unreadable:
        raise SafetyRefusal(
            f"the lease table has rows already: {', '.join([*others, *present.unreadable][:_SHOWN])}",
            next_step=_NEVER,
        )
    lock = table.leader()
    if lock is not None:
        raise SafetyRefusal(
            f"the worker {lock.owner} of this application has started: the table has its leader's row",
            next_step=_NEVER,
        )
    return set(present.leases)


def _progress(lease: Lease) -> tuple[Checkpoint, int, str | None]:
    return lease.checkpoint, lease.counter, lease.owner


def write_rows(table: LeaseTable, rows: Sequence[Lease]) -> None:
    """Write the rows of an application that has never run.

    Each put holds only where no row is: after a crash the command writes the rest. Raises SafetyRefusal if a worker
    has started meanwhile.
    """
    table.create()
    for lease in rows:
        if not table.put(lease, None):
            raise SafetyRefusal(
                f"a row for {lease.shard_id} appeared meanwhile: a worker of this application has started",
                next_step="stop it, delete its lease table, and run the command again",
            )


def read_sources(settings: Settings, clock: Clock) -> Sources:
    """Read what ties the archive to the stream; raises SafetyRefusal where it is not this application's archive."""
    stream, store = stream_of(settings, clock), archive_of(settings, clock)
    now_ms, identity, shards = clock.now_ms(), stream.describe(), stream.all_shards()
    record = require_archive(store, settings.prefix, identity, settings.application_name)
    return Sources(store, settings.prefix, record, identity, shards, now_ms, stream)


def _as_application(loaded: LoadedSettings, application: str) -> LoadedSettings:
    """Return the settings with which KCL names the other application's tables by default."""
    kcl = {name: text for name, text in loaded.kcl.items() if name not in KCL_TABLES}
    return loaded._replace(settings=replace(loaded.settings, application_name=application), kcl=kcl)


def _print_rows(console: TerminalConsole, rows: Sequence[Lease]) -> None:
    table = Table("shard", "checkpoint")
    for lease in rows:
        table.add(lease.shard_id, str(lease.checkpoint))
    console.print(table)
