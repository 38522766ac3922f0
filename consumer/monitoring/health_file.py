"""The health verdict as a file in the state folder, and `minutebook health`, which reads it on the same host.

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
from consumer.worker.state_folder import boot_id, default_state_folder, draft_of, file_name, write_whole
from consumer.worker.worker_id import stable_worker_id
from minutebook.clock import Clock, SystemClock
from minutebook.wording import printable

UNHEALTHY: Final = 7
WRITE_SECONDS: Final = 5.0
_STALE_SECONDS: Final = 30.0
_GONE: Final = "unhealthy: no daemon runs: nobody writes {}"


class _Note(msgspec.Struct, frozen=True, kw_only=True):
    """The file's content; `at` is in seconds since the host's boot with the id `boot`."""

    at: float
    boot: str = ""
    healthy: bool
    sentence: str


def health_path(state: Path, worker_name: str) -> Path:
    """Return the file of a worker in its application's folder."""
    return state / f"{worker_name}.health"


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
                    next_step="give --state-dir room: minutebook health says unhealthy while it cannot be written",
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


def read_verdict(path: Path, now: float) -> HealthVerdict:
    """Return the file's verdict, or why there is none; `now` is in seconds since the host's boot."""
    try:
        note = msgspec.json.decode(path.read_bytes(), type=_Note)
    except FileNotFoundError:
        return HealthVerdict(is_healthy=False, sentence=_GONE.format(path))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as exc:
        return HealthVerdict(is_healthy=False, sentence=f"unhealthy: {path} cannot be read: {exc}")
    if note.boot != boot_id():
        return HealthVerdict(is_healthy=False, sentence=f"{_GONE.format(path)} since the host was started")
    if not 0 <= now - note.at <= _STALE_SECONDS:
        return HealthVerdict(is_healthy=False, sentence=f"{_GONE.format(path)} since {abs(now - note.at):.0f} s")
    return HealthVerdict(note.healthy, note.sentence)


def run_health(path: Path | None, environ: Mapping[str, str], state_folder: Path | None) -> int:
    """Print the verdict; return 0 if the task is healthy, 7 if it is not or does not run; raises SettingsError.

    It uses no service: a container may be checked every few seconds.
    """
    loaded = load_with_kcl(path, environ)
    worker_id = loaded.kcl.get("workerId") or stable_worker_id(environ)
    state = (state_folder or default_state_folder()) / file_name(loaded.settings.application_name)
    verdict = read_verdict(health_path(state, file_name(worker_id)), SystemClock().monotonic())
    sys.stdout.write(f"{printable(verdict.sentence)}\n")
    return 0 if verdict.is_healthy else UNHEALTHY
