"""`minutebook consume FILE`: run the checks, settle the start, write the daemon's file, and supervise the daemon."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import structlog

from consumer.boundaries.due import JOBS
from consumer.boundaries.pool import JobPool
from consumer.daemon.fork_server import ForkPlan
from consumer.daemon.opened import is_forked, open_stream
from consumer.daemon.prepared.classes import find_classes
from consumer.daemon.prepared.jvm_flags import jvm_flags
from consumer.daemon.process import allow_descriptors, daemon_command
from consumer.daemon.restart_policy import RestartLimits
from consumer.daemon.supervisor import DaemonPlan, Supervisor
from consumer.monitoring.outputs import make_watch, watched
from consumer.preflight.java import find_jars, find_java
from consumer.settings import shipped
from consumer.settings.settings import Settings, load_with_kcl
from minutebook.aws.access import Access
from minutebook.clock import SystemClock
from minutebook.errors import MinutebookError
from minutebook.logs import configure_logging
from minutebook.properties_file import FILE_VARIABLE, FORKS_VARIABLE, SUPERVISED_VARIABLE, TEXT_VARIABLE, Source

_FAILED: Final = "consume_failed"
KILL_MARGIN_SECONDS: Final = 15


def logged(consume: Callable[[], int]) -> int:
    """Return the exit code of `consume`, or of the error that it raises, which is logged as everything later is."""
    configure_logging()
    log = structlog.get_logger()
    try:
        return consume()
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


def consume_stream(source: Source, environ: Mapping[str, str], state_folder: Path | None) -> int:
    """Archive one stream until a signal or too many failures; return the exit code. Raises MinutebookError."""
    loaded = load_with_kcl(source, environ)
    configure_logging(loaded.settings.log_level)
    clock = SystemClock()
    watch = make_watch(loaded.settings, clock)
    opened = open_stream(loaded, environ, state_folder, watch, clock)
    if isinstance(opened, int):
        return opened
    settings = opened.loaded.settings
    java = find_java(environ).program
    socket = opened.socket if is_forked(opened.loaded) else None
    environment = daemon_environment(environ, opened.effective, settings.access, socket)
    plan = DaemonPlan(
        command=daemon_command(
            java, jvm_flags(environ), find_classes(java, find_jars()), opened.effective, find_logback(loaded.path)
        ),
        environment=environment,
        forks=None if socket is None else ForkPlan(socket, {"": opened.effective}, environment),
        grace_seconds=opened.grace_seconds + KILL_MARGIN_SECONDS,
        keep_open=[opened.lock],
        log_level=settings.log_level,
        stream=opened.plan,
    )
    allow_descriptors()
    with (
        watched(watch, settings, opened.health, opened.worker_id, clock),
        JobPool(clock, threads=JOBS).running() as pool,
        pool.serving(opened.boundaries),
    ):
        return Supervisor(plan, clock, limits=restart_limits(settings), watch=watch).run()


def restart_limits(settings: Settings) -> RestartLimits:
    """Return when a run counts as healthy: after twice the time that a processor may wait for the store."""
    return RestartLimits(healthy_seconds=60 + 2 * settings.store_timeout_seconds)


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
