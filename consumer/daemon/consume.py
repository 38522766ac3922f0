"""`minutebook consume`: run the checks, settle the start, write the daemon's file, and supervise the daemon."""

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from consumer.archived.application import KclStart
from consumer.archived.skipped import SkippedBatches
from consumer.connections import stream_of
from consumer.daemon.fork_server import ForkPlan, socket_of, stub_command
from consumer.daemon.prepared.classes import find_classes
from consumer.daemon.process import allow_descriptors, daemon_command
from consumer.daemon.properties import ReadSize, effective_properties, processor_command, write_effective
from consumer.daemon.restart_policy import RestartLimits
from consumer.daemon.start import StartChooser, as_settled, settle_start
from consumer.daemon.supervisor import DaemonPlan, Supervisor
from consumer.leases.hand_over import REPORT_SECONDS, Leaving, release_own_lock
from consumer.leases.table import DynamoDBLeaseTable, failover_seconds, lease_table_of
from consumer.liveness.first_start import FirstStart
from consumer.liveness.lock_memory import LockMemory
from consumer.liveness.poll import ReaderPoll
from consumer.liveness.rules import ReaderWatch
from consumer.monitoring.health_file import health_paths
from consumer.monitoring.outputs import make_watch, watched
from consumer.preflight.check import Check, CheckOutcome
from consumer.preflight.java import find_jars, find_java
from consumer.preflight.preflight import failed_checks_code, preflight, settled
from consumer.settings import shipped
from consumer.settings.settings import LoadedSettings, Settings, load_with_kcl
from consumer.worker.state_folder import boot_id, default_state_folder, file_name, lock_worker, prepare_state
from consumer.worker.worker_id import stable_worker_id
from minutebook.aws.access import Access
from minutebook.aws.clients import make_s3_client
from minutebook.clock import Clock, SystemClock, new_id, new_random
from minutebook.errors import MinutebookError
from minutebook.logs import configure_logging
from minutebook.properties_file import FILE_VARIABLE, FORKS_VARIABLE, SUPERVISED_VARIABLE, TEXT_VARIABLE
from minutebook.retry import Backoff
from minutebook.store.retrying import RetryingStore
from minutebook.store.s3 import S3Store

_FAILED: Final = "consume_failed"
_KILL_MARGIN_SECONDS: Final = 15
_LEADER_LOCK_SECONDS: Final = 5
_LEAVE_SECONDS: Final = 2
"""For one request at a stop, whose time is short."""
_TABLE_SECONDS: Final = 60
_POLL_SECONDS: Final = 10
_SKIPPED_SECONDS: Final = 20
"""Short enough for a stop; the store is retried before each start."""
_GRACE: Final = "shutdownGraceMillis"
_IDLE: Final = "idleTimeBetweenReadsInMillis"
_KCL_IDLE_MILLIS: Final = 1500
_HANG_SECONDS: Final = 120
"""A request that began at the end of its budget may take a minute more; its failure is then logged."""


def run_consume(path: Path | None, environ: Mapping[str, str], state_folder: Path | None) -> int:
    """Run until a signal or too many failures; return the exit code. Errors are logged, as everything later is."""
    configure_logging()
    log = structlog.get_logger()
    try:
        return _consume(path, environ, state_folder)
    except MinutebookError as exc:
        log.error(  # noqa: TRY400 - the message and the next step explain it without a stack
            _FAILED,
            kind=type(exc).__name__,
            error=str(exc),
            next_step=exc.next_step or "correct what the error names, and run minutebook doctor",
            exit_code=exc.exit_code,
        )
        return exc.exit_code
    except Exception as exc:
        log.exception(
            _FAILED,
            kind=type(exc).__name__,
            error=str(exc),
            next_step="this is a defect of Minutebook: report the stack",
            exit_code=1,
        )
        return 1


def _consume(path: Path | None, environ: Mapping[str, str], state_folder: Path | None) -> int:
    loaded = load_with_kcl(path, environ)
    configure_logging(loaded.settings.log_level)
    clock = SystemClock()
    code = _preflight(loaded, environ, clock)
    if code:
        return code
    stream = stream_of(loaded.settings, clock)
    record = settle_start(loaded.settings, stream, clock)
    loaded = as_settled(loaded, record)
    code = _report([settled(loaded, clock, new_random(), new_id)])
    if code:
        return code
    worker_id = loaded.kcl.get("workerId") or stable_worker_id(environ)
    name = file_name(worker_id)
    state = prepare_state(state_folder or default_state_folder(), loaded.settings.application_name)
    lock = lock_worker(state, worker_id, clock)
    watch = make_watch(loaded.settings, clock)
    table = _lease_table(loaded, clock, budget_seconds=_TABLE_SECONDS)
    first_start = FirstStart(
        table,
        makes_table=loaded.kcl.get("leaseTablePitrEnabled") != "true",
        protected=loaded.kcl.get("leaseTableDeletionProtectionEnabled") == "true",
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
    # Processors are forked unless the file names a program of its own for them.
    forks = socket_of(state, name) if loaded.settings.fork_server and "executableName" not in loaded.kcl else None
    starter = processor_command if forks is None else stub_command
    values_from = partial(effective_properties, loaded, worker_id=worker_id, executable=starter(Path(sys.executable)))
    environment = daemon_environment(environ, effective, loaded.settings.access, forks)
    skipped, read_size = _skipped_batches(loaded.settings, clock), ReadSize()
    java = find_java(environ).program

    def write_file(start: KclStart) -> None:
        write_effective(effective, read_size.bound(values_from(start)))

    plan = DaemonPlan(
        command=daemon_command(java, find_classes(java, find_jars()), effective, find_logback(loaded.path)),
        environment=environment,
        forks=None if forks is None else ForkPlan(forks, effective, environment),
        grace_seconds=int(values_from(KclStart(None))[_GRACE]) / 1000 + _KILL_MARGIN_SECONDS,
        keep_open=[lock],
        readers=readers,
        log_level=loaded.settings.log_level,
        leaving=_leaving(loaded, worker_id, clock),
        on_skipped=lambda event: skipped.note(event.shard, event.error),
        on_out_of_memory=read_size.ran_out,
        after_end=[skipped.store],
        before_start=[
            skipped.store,
            partial(release_own_lock, _lease_table(loaded, clock, budget_seconds=_LEADER_LOCK_SECONDS), worker_id),
            readers.before_start,
            first_start.before_start,
            StartChooser(record, stream, table, write_file, clock).prepare,
        ],
    )
    allow_descriptors()
    limits = RestartLimits(healthy_seconds=60 + 2 * loaded.settings.store_timeout_seconds)
    health = health_paths(state, loaded.settings.application_name, name)
    with watched(watch, loaded.settings, health, worker_id, clock):
        return Supervisor(plan, clock, limits=limits, watch=watch).run()


def find_logback(properties: Path | None) -> Path:
    """Return the daemon's log configuration: beside the properties file, else the one shipped."""
    if properties is not None and (own := properties.resolve().parent / "logback.xml").is_file():
        return own
    return shipped.logback()


def daemon_environment(
    environ: Mapping[str, str], effective: Path, access: Access, forks: Path | None = None
) -> dict[str, str]:
    """Return the environment of daemon and processors, which read their settings from the effective file only.

    `forks` is the fork server's socket. KCL has no property for AWS's other endpoints, but the AWS SDK for Java reads
    these variables.
    """
    inherited = {name: text for name, text in environ.items() if name != TEXT_VARIABLE}
    flags = {"AWS_USE_FIPS_ENDPOINT": access.use_fips, "AWS_USE_DUALSTACK_ENDPOINT": access.use_dualstack}
    endpoints = {name: "true" for name, is_set in flags.items() if is_set}
    ours = {"PYTHONUTF8": "1", FILE_VARIABLE: str(effective), SUPERVISED_VARIABLE: "1"}
    return {**inherited, **endpoints, **ours, **({} if forks is None else {FORKS_VARIABLE: str(forks)})}


def _leaving(loaded: LoadedSettings, worker_id: str, clock: Clock) -> Leaving | None:
    if not loaded.settings.release_leases:
        return None
    table = lease_table_of(loaded, clock, new_random(), budget_seconds=_LEAVE_SECONDS, read_timeout=_LEAVE_SECONDS)
    most, every = loaded.kcl.get("maxLeasesForWorker"), loaded.kcl.get("workerMetricsReporterFreqInMillis")
    return Leaving(
        table,
        worker_id,
        clock,
        most=None if most is None else int(most),
        every_seconds=REPORT_SECONDS if every is None else int(every) / 1000,
    )


def _lease_table(loaded: LoadedSettings, clock: Clock, *, budget_seconds: float) -> DynamoDBLeaseTable:
    return lease_table_of(loaded, clock, new_random(), budget_seconds=budget_seconds)


def _skipped_batches(settings: Settings, clock: Clock) -> SkippedBatches:
    store = S3Store(make_s3_client(settings.region, settings.s3_endpoint, settings.access), settings.bucket)
    retrying = RetryingStore(store, lambda: Backoff(clock, new_random(), budget_seconds=_SKIPPED_SECONDS))
    return SkippedBatches(retrying, settings.prefix, clock, new_id)


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
