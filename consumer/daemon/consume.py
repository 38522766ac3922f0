"""`minutebook consume`: check, settle the start, write the daemon's file, and supervise the daemon."""

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from archive.aws import make_s3_client
from archive.clock import Clock, SystemClock, new_id, new_random
from archive.logs import configure_logging
from archive.properties_file import FILE_VARIABLE, TEXT_VARIABLE
from archive.retry import Backoff
from archive.store.retrying import RetryingStore
from archive.store.s3 import S3Store
from consumer.archived.application import KclStart
from consumer.archived.skipped import SkippedBatches
from consumer.daemon.metrics import Metrics
from consumer.daemon.prepared.classes import find_classes
from consumer.daemon.process import daemon_command
from consumer.daemon.properties import effective_properties, processor_command
from consumer.daemon.readers.lock_memory import lock_memory
from consumer.daemon.readers.poll import ReaderPoll
from consumer.daemon.readers.rules import ReaderWatch
from consumer.daemon.restart_policy import RestartLimits
from consumer.daemon.start import DaemonFile, StartChooser, settle_start, stream_of
from consumer.daemon.state_folder import default_state_folder, file_name, lock_worker, prepare_state
from consumer.daemon.supervisor import DaemonPlan, Supervisor
from consumer.daemon.worker_id import stable_worker_id
from consumer.leases.leader_lock import release_own_lock
from consumer.leases.table import DynamoDBLeaseTable, failover_seconds, lease_table_of
from consumer.preflight.check import Check, Outcome
from consumer.preflight.java import find_jars, find_java
from consumer.preflight.preflight import exit_code, preflight
from consumer.settings import shipped
from consumer.settings.settings import LoadedSettings, Settings, load_with_kcl

_KILL_MARGIN_SECONDS: Final = 15
_LEADER_LOCK_SECONDS: Final = 5
_TABLE_SECONDS: Final = 60
_POLL_SECONDS: Final = 10
_SKIPPED_SECONDS: Final = 20
"""Short enough for a stop; it is tried again before each start."""
_GRACE: Final = "shutdownGraceMillis"


def consume(path: Path | None, environ: Mapping[str, str], state_folder: Path | None) -> int:
    """Run until asked to stop or until going on makes no sense; return the exit code.

    Raises:
        MinutebookError: nothing was started.
    """
    loaded = load_with_kcl(path, environ)
    configure_logging(loaded.settings.log_level)
    clock = SystemClock()
    code = _preflight(loaded, environ, clock)
    if code:
        return code
    stream = stream_of(loaded.settings, clock)
    record = settle_start(loaded.settings, stream, clock)
    worker_id = loaded.kcl.get("workerId") or stable_worker_id(environ)
    state = prepare_state(state_folder or default_state_folder(), loaded.settings.application_name)
    lock = lock_worker(state, worker_id, clock)
    metrics = _metrics(loaded.settings)
    readers = ReaderPoll(
        ReaderWatch(
            worker_id,
            may_take_more="maxLeasesForWorker" not in loaded.kcl,
            failover_seconds=failover_seconds(loaded),
        ),
        _lease_table(loaded, clock, budget_seconds=_POLL_SECONDS),
        clock,
        failover_seconds=failover_seconds(loaded),
        on_unread=None if metrics is None else metrics.set_unread,
        memory=lock_memory(state / f"{file_name(worker_id)}.leader"),
    )
    effective = state / f"{file_name(worker_id)}.properties"
    values_from = partial(
        effective_properties, loaded, worker_id=worker_id, executable=processor_command(Path(sys.executable))
    )
    table = _lease_table(loaded, clock, budget_seconds=_TABLE_SECONDS)
    skipped = _skipped_batches(loaded.settings, clock)
    java = find_java(environ).program
    plan = DaemonPlan(
        command=daemon_command(java, find_classes(java, find_jars()), effective, find_logback(loaded.path)),
        environment=daemon_environment(environ, effective),
        grace_seconds=int(values_from(KclStart(None))[_GRACE]) / 1000 + _KILL_MARGIN_SECONDS,
        keep_open=[lock],
        readers=readers,
        on_skipped=lambda event: skipped.note(event.shard, event.error),
        after_end=[skipped.store],
        before_start=[
            skipped.store,
            partial(release_own_lock, _lease_table(loaded, clock, budget_seconds=_LEADER_LOCK_SECONDS), worker_id),
            readers.before_start,
            StartChooser(record, stream, table, DaemonFile(effective, values_from), clock).prepare,
        ],
    )
    limits = RestartLimits(healthy_seconds=60 + 2 * loaded.settings.store_timeout_seconds)
    return Supervisor(plan, clock, limits=limits, metrics=metrics).run()


def find_logback(properties: Path | None) -> Path:
    """Return the daemon's log configuration: beside the properties file, else the one shipped.

    Raises:
        SettingsError: there is none.
    """
    if properties is not None and (beside := properties.resolve().parent / "logback.xml").is_file():
        return beside
    return shipped.logback()


def daemon_environment(environ: Mapping[str, str], effective: Path) -> dict[str, str]:
    """Return the environment of daemon and processors: their settings are in the effective file alone."""
    kept = {name: text for name, text in environ.items() if name != TEXT_VARIABLE}
    return {**kept, "PYTHONUTF8": "1", FILE_VARIABLE: str(effective)}


def _lease_table(loaded: LoadedSettings, clock: Clock, *, budget_seconds: float) -> DynamoDBLeaseTable:
    return lease_table_of(loaded, clock, new_random(), budget_seconds=budget_seconds)


def _skipped_batches(settings: Settings, clock: Clock) -> SkippedBatches:
    store = S3Store(make_s3_client(settings.region, settings.s3_endpoint), settings.bucket)
    retrying = RetryingStore(store, lambda: Backoff(clock, new_random(), budget_seconds=_SKIPPED_SECONDS))
    return SkippedBatches(retrying, settings.prefix, clock, new_id)


def _preflight(loaded: LoadedSettings, environ: Mapping[str, str], clock: Clock) -> int:
    log = structlog.get_logger()
    begun = clock.monotonic()
    checks: list[Check] = []
    for check in preflight(loaded, environ, whole=False, clock=clock, rng=new_random(), new_id=new_id):
        checks.append(check)
        if check.outcome in {Outcome.FAIL, Outcome.WARN}:
            failed = check.outcome is Outcome.FAIL
            write = log.error if failed else log.warning
            write(
                "preflight_failed" if failed else "preflight_warning",
                check=check.name,
                error=check.sentence,
                exit_code=check.exit_code,
                next_step=check.next_step,
            )
    code = exit_code(checks)
    if code == 0:
        log.info("preflight_passed", checks=len(checks), seconds=round(clock.monotonic() - begun, 2))
    return code


def _metrics(settings: Settings) -> Metrics | None:
    if settings.metrics_port is None:
        return None
    metrics = Metrics()
    metrics.serve(settings.metrics_port)
    return metrics
