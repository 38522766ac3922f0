"""`minutebook restore`: rebuild KCL's lease rows from the archive alone."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from consumer.archived.application import kcl_start
from consumer.archived.chain_ends import AHEAD_MINUTES, find_ends
from consumer.archived.shard_markers import read_archived_shards
from consumer.connections import archive_of, stream_of
from consumer.leases.rows import LeaseRows, LeaseTable, signs_of_life
from consumer.leases.table import failover_seconds, lease_table_of
from consumer.requests import RestoreRequest
from consumer.restore.plan import PlannedRow, RestoreFacts, RowChange, plan_rows
from consumer.settings.settings import LoadedSettings, load_with_kcl
from consumer.stream.port import ShardInfo, StreamIdentity
from minutebook.apply_option import is_applied, tell_unchanged
from minutebook.clock import Clock, SystemClock, new_random
from minutebook.errors import SafetyRefusal, SettingsError
from minutebook.format.minute import MINUTE_MS, parse_iso_time
from minutebook.logs import configure_logging
from minutebook.owner import check_application, check_stream, read_application
from minutebook.store.retrying import RetryingStore
from minutebook.terminal import Table, TerminalConsole, styled

_MARGIN_SECONDS: Final = 1
_EMPTY: Final = LeaseRows({})


def run_restore(request: RestoreRequest, environ: Mapping[str, str]) -> int:
    """Print the plan and, with `apply`, carry it out; return the exit code."""
    apply = is_applied(apply=request.apply, dry_run=request.dry_run)
    loaded = load_with_kcl(request.file, environ)
    configure_logging(loaded.settings.log_level)
    clock, console = SystemClock(), TerminalConsole()
    table = lease_table_of(loaded, clock, new_random())
    as_of_ms = None if request.as_of is None else parse_iso_time(request.as_of)
    parts = Parts(table, lambda: _gather(loaded, clock, as_of_ms), clock, failover_seconds(loaded), console)
    written = rebuild(parts, apply=apply, shard_ids=request.shards or [])
    if apply:
        console.print(f"{written} rows written to {table.name}: start the workers with minutebook consume")
    else:
        tell_unchanged("restore", dry_run=request.dry_run)
    return 0


class Parts(NamedTuple):
    """What `rebuild` works with. `gather` calls `gather_facts`."""

    table: LeaseTable
    gather: Callable[[], RestoreFacts]
    clock: Clock
    failover_seconds: float
    console: TerminalConsole


def rebuild(parts: Parts, *, apply: bool, shard_ids: Collection[str]) -> int:
    """Read the table and plan; with `apply` read it again a failover later and write.

    Returns the number of rows written.
    """
    table, clock, console = parts.table, parts.clock, parts.console
    before = table.read()
    # The time counts from the answer: a slow first read would shorten the time between both.
    read_at = clock.monotonic()
    with console.status("reading the stream's shards and the ends of their chains ..."):
        facts = parts.gather()
    refuse_unreadable(before)
    chosen = choose_shards(facts.shards, shard_ids)
    plan = [row for row in plan_rows(facts, (before or _EMPTY).leases) if row.lease.shard_id in chosen]
    _print_plan(console, plan)
    if not apply:
        return 0
    with console.status("looking for living workers ..."):
        clock.sleep(max(0.0, read_at + parts.failover_seconds + _MARGIN_SECONDS - clock.monotonic()))
        check_nobody_lives(before, table.read())
    return apply_plan(table, plan)


def gather_facts(
    store: RetryingStore,
    prefix: str,
    identity: StreamIdentity,
    shards: Mapping[str, ShardInfo],
    *,
    application: str,
    now_ms: int,
    as_of_ms: int | None,
) -> RestoreFacts:
    """Read the application record, the markers and the ends of the chains of `shards`.

    With `as_of_ms`, only minutes that were over by then are read, as if the archive ended there. Raises SafetyRefusal
    if the prefix holds no archive, or that of another stream or application.
    """
    record = read_application(store, prefix)
    if record is None:
        raise SafetyRefusal(
            f"no archive begins at prefix {prefix!r}: there is nothing to restore from",
            next_step="correct minutebook.bucket and minutebook.prefix; a new application needs no restore",
        )
    check_stream(record, identity, prefix)
    check_application(record, application, prefix)
    archived = read_archived_shards(store, prefix)
    newest = now_ms // MINUTE_MS + AHEAD_MINUTES if as_of_ms is None else as_of_ms // MINUTE_MS - 1
    searched = {
        shard_id: archived[shard_id].oldest_minute(record)
        for shard_id in shards.keys() & archived.keys()
        if archived[shard_id].start is not None and (as_of_ms is not None or archived[shard_id].end is None)
    }
    return RestoreFacts(
        shards=shards,
        archived=archived,
        ends=find_ends(store, prefix, searched, newest),
        start=kcl_start(record, identity, now_ms),
        oldest_held_ms=now_ms - identity.retention_ms,
        as_of=as_of_ms is not None,
    )


def choose_shards(shards: Mapping[str, ShardInfo], wanted: Collection[str]) -> set[str]:
    """Return the wanted shards, by default all; raise SettingsError if the stream does not list one."""
    unknown = sorted(set(wanted) - shards.keys())
    if unknown:
        raise SettingsError(
            f"the stream does not list {', '.join(unknown)}", next_step="look at minutebook status for its shards"
        )
    return set(wanted or shards)


def refuse_unreadable(rows: LeaseRows | None) -> None:
    """Raise SafetyRefusal if the table has rows that neither KCL nor we can read: they would stay beside ours."""
    if rows and rows.unreadable:
        raise SafetyRefusal(
            f"{rows.unreadable[0]}; {len(rows.unreadable)} such rows in all",
            next_step="KCL ignores these rows: delete them, then run it again",
        )


def check_nobody_lives(before: LeaseRows | None, after: LeaseRows | None) -> None:
    """Raise SafetyRefusal if two reads more than a failover apart show a living worker."""
    signs = signs_of_life(before, after)
    if signs:
        shown = "; ".join(signs[:3]) + ("" if len(signs) <= 3 else f"; {len(signs) - 3} more")  # noqa: PLR2004
        raise SafetyRefusal(
            f"a worker is alive: {shown}", next_step="stop every worker of this application, then run it again"
        )


def apply_plan(table: LeaseTable, plan: Sequence[PlannedRow]) -> int:
    """Write the rows; return their number.

    After a crash the rows written so far are valid; running the command again writes the rest. Raises SafetyRefusal
    if a row changed since it was read.
    """
    table.create()
    written = 0
    for row in plan:
        if row.action is RowChange.KEEP:
            continue
        if not table.put(row.lease, row.seen):
            raise SafetyRefusal(
                f"the row of {row.lease.shard_id} changed while the plan was made: a worker has started",
                next_step="stop every worker of this application, then run it again: it goes on where it stopped",
            )
        written += 1
    table.release_leader()
    return written


def _gather(loaded: LoadedSettings, clock: Clock, as_of_ms: int | None) -> RestoreFacts:
    settings = loaded.settings
    stream = stream_of(settings, clock)
    return gather_facts(
        archive_of(settings, clock),
        settings.prefix,
        stream.describe(),
        stream.all_shards(),
        application=settings.application_name,
        now_ms=clock.now_ms(),
        as_of_ms=as_of_ms,
    )


def _print_plan(console: TerminalConsole, plan: Sequence[PlannedRow]) -> None:
    table = Table("shard", "row", "checkpoint now", "checkpoint")
    for row in plan:
        because = [styled(row.reason), *(styled(f"! {warning}", "yellow") for warning in row.warnings)]
        now = "-" if row.seen is None else str(row.seen.checkpoint)
        table.add(row.lease.shard_id, row.action.value, now, str(row.lease.checkpoint), beside=because)
    console.print(table)
