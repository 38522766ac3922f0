"""The verdict on a task as a file in its state folder: for `minutebook health`, in the same container or on the host.

It is written anew every few seconds. A verdict that has grown old, or that another start of the host left, says that
nobody writes it any more: the supervisor is gone, or hangs.
"""

from pathlib import Path
from typing import Final

import msgspec
import structlog

from consumer.monitoring.health import HealthVerdict
from consumer.worker.state_folder import boot_id, draft_of, write_whole
from minutebook.clock import Clock

WRITE_SECONDS: Final = 5.0
_STALE_SECONDS: Final = 30.0
_GONE: Final = "unhealthy: no daemon runs: nobody writes {}"


class _Note(msgspec.Struct, frozen=True, kw_only=True):
    """The file's content; `at` is on the clock that counts from the host's start, which `boot` names."""

    at: float
    boot: str = ""
    healthy: bool
    sentence: str


def health_path(state: Path, worker_name: str) -> Path:
    """Return the file of a worker in its application's folder."""
    return state / f"{worker_name}.health"


class HealthFile:
    """The file, as the supervisor writes it. A disk that takes no file is told once: the health check fails then."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._is_told = False

    def write(self, verdict: HealthVerdict) -> None:
        """Write it; a reader sees the old verdict or the new one, whole."""
        note = _Note(
            at=self._clock.monotonic(), boot=boot_id(), healthy=verdict.is_healthy, sentence=verdict.sentence
        )
        try:
            write_whole(self._path, msgspec.json.encode(note))
        except OSError as exc:
            if not self._is_told:
                self._is_told = True
                structlog.get_logger().warning(
                    "health_not_written",
                    error=f"{draft_of(self._path)}: {exc.strerror}",
                    next_step="give --state-dir room: minutebook health says unhealthy while it cannot be written",
                )
            return
        self._is_told = False

    def remove(self) -> None:
        """Remove it: the task has ended. Where that cannot be done it grows old."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as exc:
            structlog.get_logger().warning(
                "health_not_removed",
                error=f"{self._path}: {exc.strerror}",
                next_step="nothing: minutebook health says unhealthy half a minute after the end",
            )


def read_verdict(path: Path, now: float) -> HealthVerdict:
    """Return what the file says at `now`, on the clock that counts from the host's start."""
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
