"""The health verdict as a file in the state folder, and `minutebook health`, which reads it on the same host.

A worker with `--state-dir` writes a copy below the user's default folder, where `minutebook health` looks without the
option. A copy, no reference to the folder: it is as fresh as the verdict, and cleaners of /tmp leave what is written.

The file is written every few seconds. An old verdict, or one from before the host's last boot, means that the
supervisor is gone or hangs.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
import structlog

from consumer.monitoring.health import HealthVerdict
from consumer.settings.settings import load_with_kcl
from consumer.worker.state_folder import (
    boot_id,
    default_state_folder,
    draft_of,
    file_name,
    prepare_state,
    weakness_of,
    write_whole,
)
from consumer.worker.worker_id import stable_worker_id
from minutebook.clock import Clock, SystemClock
from minutebook.errors import SettingsError
from minutebook.logs import configure_logging
from minutebook.properties_file import PropertiesFile, Source
from minutebook.properties_folder import PropertiesFolder, StreamFile, streams_of
from minutebook.streams_run import StreamEnd, StreamsRun
from minutebook.wording import printable

UNHEALTHY: Final = 7
WRITE_SECONDS: Final = 5.0
_STALE_SECONDS: Final = 30.0
_GONE: Final = "unhealthy: no daemon runs: nobody writes {}"
_ELSEWHERE: Final = "; for a worker of another user or an earlier release give the --state-dir of consume"


class _Note(msgspec.Struct, frozen=True, kw_only=True):
    """The file's content; `at` is in seconds since the host's boot with the id `boot`."""

    at: float
    boot: str = ""
    healthy: bool
    sentence: str


def health_path(state: Path, worker_name: str) -> Path:
    """Return the file of a worker in its application's folder."""
    return state / f"{worker_name}.health"


def health_paths(state: Path, application: str, worker_name: str) -> list[Path]:
    """Return where a worker writes its verdict: its application's folder, and that in the user's default folder.

    Where the latter cannot be used, the worker goes on without it, and `minutebook health` needs `--state-dir`.
    """
    own = health_path(state, worker_name)
    try:
        copy = health_path(prepare_state(default_state_folder(), application), worker_name)
    except SettingsError as exc:
        structlog.get_logger().warning(
            "health_not_written", error=str(exc), next_step="give minutebook health the --state-dir of consume"
        )
        return [own]
    return [own] if copy.resolve() == own.resolve() else [own, copy]


class HealthFile:
    """Writes the file for the supervisor. A failing disk is logged once; the health check fails then."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._is_logged = False

    def write(self, verdict: HealthVerdict) -> None:
        """Replace the file atomically."""
        note = _Note(
            at=self._clock.monotonic(), boot=boot_id(), healthy=verdict.is_healthy, sentence=verdict.sentence
        )
        try:
            write_whole(self._path, msgspec.json.encode(note))
        except OSError as exc:
            if not self._is_logged:
                self._is_logged = True
                structlog.get_logger().warning(
                    "health_not_written",
                    error=f"{draft_of(self._path)}: {exc.strerror}",
                    next_step="make room for it: minutebook health says unhealthy while it cannot be written",
                )
            return
        self._is_logged = False

    def remove(self) -> None:
        """Remove the file at the task's end."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as exc:
            structlog.get_logger().warning(
                "health_not_removed",
                error=f"{self._path}: {exc.strerror}",
                next_step="nothing: minutebook health says unhealthy half a minute after the end",
            )


def read_verdict(path: Path, now: float, *, elsewhere: str = "") -> HealthVerdict:
    """Return the file's verdict, or why there is none; `now` is in seconds since the host's boot.

    `elsewhere` is added where there is none: where else one may be.
    """

    def none(sentence: str) -> HealthVerdict:
        return HealthVerdict(is_healthy=False, sentence=f"{sentence}{elsewhere}")

    try:
        note = msgspec.json.decode(path.read_bytes(), type=_Note)
    except FileNotFoundError:
        return none(_GONE.format(path))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as exc:
        return none(f"unhealthy: {path} cannot be read: {exc}")
    if note.boot != boot_id():
        return none(f"{_GONE.format(path)} since the host was started")
    if not 0 <= now - note.at <= _STALE_SECONDS:
        return none(f"{_GONE.format(path)} since {abs(now - note.at):.0f} s")
    return HealthVerdict(note.healthy, note.sentence)


def run_health(
    path: Path | None, environ: Mapping[str, str], state_folder: Path | None, *, stream: str | None = None
) -> int:
    """Print the verdict; return 0 if the task is healthy, 7 if it is not or does not run; raises SettingsError.

    Of a folder, a verdict for each stream whose worker runs on this host. No service is used: a container may be
    checked every few seconds.
    """
    source = streams_of(path, environ, stream)
    if isinstance(source, PropertiesFolder):
        configure_logging("error")

        def work(_: StreamFile, properties: PropertiesFile) -> StreamEnd:
            verdict = _verdict(properties, environ, state_folder)
            return StreamEnd(0 if verdict.is_healthy else UNHEALTHY, verdict.sentence)

        return StreamsRun("health", source).run(work)
    verdict = _verdict(source, environ, state_folder)
    sys.stdout.write(f"{printable(verdict.sentence)}\n")
    return 0 if verdict.is_healthy else UNHEALTHY


def _verdict(source: Source, environ: Mapping[str, str], state_folder: Path | None) -> HealthVerdict:
    loaded = load_with_kcl(source, environ)
    worker_id = loaded.kcl.get("workerId") or stable_worker_id(environ)
    state = (state_folder or default_state_folder()) / file_name(loaded.settings.application_name)
    file = health_path(state, file_name(worker_id))
    if state_folder is None and (weakness := _weakness(state.parent)):
        return HealthVerdict(is_healthy=False, sentence=f"unhealthy: {state.parent} {weakness}{_ELSEWHERE}")
    elsewhere = _ELSEWHERE if state_folder is None else ""
    return read_verdict(file, SystemClock().monotonic(), elsewhere=elsewhere)


def _weakness(default: Path) -> str | None:
    """Return why the default folder is not believed: anybody can make one of its name in /tmp."""
    try:
        return weakness_of(default)
    except OSError as exc:
        return f"cannot be read: {exc.strerror}"
