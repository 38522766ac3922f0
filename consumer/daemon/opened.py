"""One stream made ready for a supervisor: the checks are done, the start is settled, its worker id is locked."""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from consumer.archived.application import KclStart
from consumer.archived.skipped import SkippedBatches
from consumer.boundaries.due import Boundaries, make_boundaries
from consumer.boundaries.saying import DaemonRuns
from consumer.connections import archive_of, stream_of
from consumer.daemon.fork_server import socket_of, stub_command
from consumer.daemon.properties import ReadSize, effective_properties, processor_command, write_effective
from consumer.daemon.start import StartChooser, as_settled, settle_start
from consumer.daemon.stream_run import StreamPlan
from consumer.leases.hand_over import REPORT_SECONDS, HandedCounts, Leaving, release_own_lock, take_only_lease
from consumer.leases.rows import LeaseRows
from consumer.leases.table import DynamoDBLeaseTable, failover_seconds, lease_table_of
from consumer.liveness.first_start import FirstStart
from consumer.liveness.lock_memory import LockMemory
from consumer.liveness.poll import ReaderPoll
from consumer.liveness.rules import ReaderWatch
from consumer.monitoring.health_file import health_paths
from consumer.monitoring.watch import Watch
from consumer.preflight.check import Check, CheckOutcome
from consumer.preflight.preflight import failed_checks_code, preflight, settled
from consumer.settings.settings import LoadedSettings
from consumer.stream.kinesis import KinesisStream
from consumer.worker.state_folder import boot_id, default_state_folder, file_name, lock_worker, prepare_state
from consumer.worker.worker_id import stable_worker_id
from minutebook.clock import Clock, new_id, new_random

_LEADER_LOCK_SECONDS: Final = 5
_LEAVE_SECONDS: Final = 2
"""For one request at a stop, whose time is short."""
_TABLE_SECONDS: Final = 60
_POLL_SECONDS: Final = 10
_SKIPPED_SECONDS: Final = 20
"""Short enough for a stop; the store is retried before each start."""
_BOUNDARY_SECONDS: Final = 10
_ROWS_SECONDS: Final = 2
"""For an answer, and for all attempts: nothing waits for boundaries, but a stop does for its last rows."""
_GRACE: Final = "shutdownGraceMillis"
_IDLE: Final = "idleTimeBetweenReadsInMillis"
_KCL_IDLE_MILLIS: Final = 1500
_HANG_SECONDS: Final = 120
"""A request that began at the end of its budget may take a minute more; its failure is then logged."""


class OpenedStream(NamedTuple):
    """A stream that a daemon may read for this worker.

    `lock` is the descriptor that holds the lock of the worker id; `socket` where a fork server listens for the
    stream's processors if they are forked (`is_forked`). `effective` is the daemon's file, written before each start.
    """

    loaded: LoadedSettings
    worker_id: str
    lock: int
    effective: Path
    socket: Path
    grace_seconds: float
    plan: StreamPlan
    boundaries: Boundaries | None
    health: Sequence[Path]
    stream: KinesisStream


class TakenWorker(NamedTuple):
    """A worker id that no other process of this host may use, and the folder of its files.

    `lock` is the descriptor that holds it.
    """

    worker_id: str
    state: Path
    lock: int


def take_worker(
    loaded: LoadedSettings, environ: Mapping[str, str], state_folder: Path | None, clock: Clock
) -> TakenWorker:
    """Lock the worker id; raises SettingsError if another process holds it. Asks no service."""
    worker_id = loaded.kcl.get("workerId") or stable_worker_id(environ)
    state = prepare_state(state_folder or default_state_folder(), loaded.settings.application_name)
    return TakenWorker(worker_id, state, lock_worker(state, worker_id, clock))


class Fleetwide(NamedTuple):
    """What the streams of a fleet share; each worker of one stream has its own.

    `worker` is taken before the checks; `bound` changes the lines of the daemon's file; `handed` counts the leases
    that the streams give away at a stop; `before_start` gets the stream before each start.
    """

    bound: Callable[[dict[str, str]], dict[str, str]] = dict
    handed: HandedCounts | None = None
    before_start: Callable[[KinesisStream], None] | None = None
    worker: TakenWorker | None = None


def open_stream(
    loaded: LoadedSettings,
    environ: Mapping[str, str],
    state_folder: Path | None,
    watch: Watch,
    clock: Clock,
    fleetwide: Fleetwide | None = None,
) -> OpenedStream | int:
    """Do what comes before the first start of a daemon; return the exit code of checks that failed and were logged.

    Raises MinutebookError.
    """
    shared = Fleetwide() if fleetwide is None else fleetwide
    code = _preflight(loaded, environ, clock)
    if code:
        return code
    stream = stream_of(loaded.settings, clock)
    record = settle_start(loaded.settings, stream, clock)
    loaded = as_settled(loaded, record)
    code = _report([settled(loaded, clock, new_random(), new_id)])
    if code:
        return code
    worker = shared.worker or take_worker(loaded, environ, state_folder, clock)
    worker_id, state = worker.worker_id, worker.state
    name = file_name(worker_id)
    table = _lease_table(loaded, clock, budget_seconds=_TABLE_SECONDS)
    quick_table = _lease_table(loaded, clock, budget_seconds=_LEADER_LOCK_SECONDS)

    def take(rows: LeaseRows) -> None:
        take_only_lease(quick_table, rows, worker_id, clock, every_seconds=_report_seconds(loaded))

    first_start = FirstStart(
        table,
        makes_table=loaded.kcl.get("leaseTablePitrEnabled") != "true",
        protected=loaded.kcl.get("leaseTableDeletionProtectionEnabled") == "true",
        on_rows=take if loaded.settings.release_leases else None,
    )
    readers = ReaderPoll(
        ReaderWatch(
            worker_id,
            may_take_more="maxLeasesForWorker" not in loaded.kcl,
            failover_seconds=failover_seconds(loaded),
            idle_seconds=int(loaded.kcl.get(_IDLE, _KCL_IDLE_MILLIS)) / 1000,
            hang_seconds=loaded.settings.store_timeout_seconds + _HANG_SECONDS,
        ),
        _lease_table(loaded, clock, budget_seconds=_POLL_SECONDS),
        clock,
        on_poll=watch.note_readers,
        memory=LockMemory(state / f"{name}.leader", boot_id()),
        first_start=first_start,
    )
    effective = state / f"{name}.properties"
    starter = stub_command if is_forked(loaded) else processor_command
    values_from = partial(effective_properties, loaded, worker_id=worker_id, executable=starter(Path(sys.executable)))
    read_size = ReadSize()

    def write_file(start: KclStart) -> None:
        write_effective(effective, read_size.bound(shared.bound(values_from(start))))

    runs = DaemonRuns(new_id())
    skipped = SkippedBatches(
        archive_of(loaded.settings, clock, _SKIPPED_SECONDS),
        loaded.settings.prefix,
        clock,
        lambda: f"{runs.name}_{new_id()}",
    )
    boundaries = make_boundaries(
        loaded.settings,
        record,
        stream,
        archive_of(loaded.settings, clock, _BOUNDARY_SECONDS, read_timeout=_BOUNDARY_SECONDS),
        archive_of(loaded.settings, clock, _ROWS_SECONDS, read_timeout=_ROWS_SECONDS),
        clock,
        worker=worker_id,
        runs=runs,
        leads=lambda: readers.leads,
        on_complete=watch.note_complete,
    )
    counted = [] if shared.before_start is None else [partial(shared.before_start, stream)]
    plan = StreamPlan(
        readers=readers,
        leaving=_leaving(loaded, worker_id, clock, shared.handed),
        on_skipped=lambda event: skipped.note(event.shard, event.error),
        on_out_of_memory=read_size.ran_out,
        after_end=[*([] if boundaries is None else [boundaries.store_last]), skipped.store],
        boundaries=boundaries,
        before_start=[
            skipped.store,
            partial(release_own_lock, quick_table, worker_id),
            readers.before_start,
            first_start.before_start,
            *counted,
            StartChooser(record, stream, table, write_file, clock).prepare,
        ],
    )
    return OpenedStream(
        loaded=loaded,
        worker_id=worker_id,
        lock=worker.lock,
        effective=effective,
        socket=socket_of(state, name),
        grace_seconds=int(values_from(KclStart(None))[_GRACE]) / 1000,
        plan=plan,
        boundaries=boundaries,
        health=health_paths(state, loaded.settings.application_name, name),
        stream=stream,
    )


def is_forked(loaded: LoadedSettings) -> bool:
    """Return whether processors are forked: unless the file names a program of its own for them."""
    return loaded.settings.fork_server and "executableName" not in loaded.kcl


def _leaving(loaded: LoadedSettings, worker_id: str, clock: Clock, handed: HandedCounts | None) -> Leaving | None:
    if not loaded.settings.release_leases:
        return None
    table = lease_table_of(loaded, clock, new_random(), budget_seconds=_LEAVE_SECONDS, read_timeout=_LEAVE_SECONDS)
    most = loaded.kcl.get("maxLeasesForWorker")
    return Leaving(
        table,
        worker_id,
        clock,
        most=None if most is None else int(most),
        every_seconds=_report_seconds(loaded),
        handed=handed,
    )


def _report_seconds(loaded: LoadedSettings) -> float:
    every = loaded.kcl.get("workerMetricsReporterFreqInMillis")
    return REPORT_SECONDS if every is None else int(every) / 1000


def _lease_table(loaded: LoadedSettings, clock: Clock, *, budget_seconds: float) -> DynamoDBLeaseTable:
    return lease_table_of(loaded, clock, new_random(), budget_seconds=budget_seconds)


def _preflight(loaded: LoadedSettings, environ: Mapping[str, str], clock: Clock) -> int:
    begun = clock.monotonic()
    checks = list(preflight(loaded, environ, whole=False, clock=clock, rng=new_random(), new_id=new_id))
    code = _report(checks)
    if code == 0:
        structlog.get_logger().info(
            "preflight_passed", checks=len(checks), seconds=round(clock.monotonic() - begun, 2)
        )
    return code


def _report(checks: Sequence[Check]) -> int:
    """Log failed checks and warnings; return the exit code."""
    log = structlog.get_logger()
    for check in checks:
        if check.outcome in {CheckOutcome.FAIL, CheckOutcome.WARN}:
            failed = check.outcome is CheckOutcome.FAIL
            write = log.error if failed else log.warning
            write(
                "preflight_failed" if failed else "preflight_warning",
                check=check.name,
                error=check.sentence,
                exit_code=check.exit_code,
                next_step=check.next_step,
            )
    return failed_checks_code(checks)
