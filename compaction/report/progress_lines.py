"""Progress where nobody looks at a terminal: a line of the log at each tenth of a phase, or each minute."""

import threading
from typing import Final

import structlog

from minutebook.clock import Clock

_TENTHS: Final = 10
_LINE_SECONDS: Final = 60


class ProgressLines:
    """Takes progress as `compaction.spark.engine.Progress` gives it. Days that run side by side may share one."""

    def __init__(self, command: str, clock: Clock) -> None:
        self._log = structlog.get_logger().bind(command=command)
        self._clock = clock
        self._lock = threading.Lock()
        self._told: dict[str, tuple[int, float]] = {}
        self._begun: dict[str, float] = {}

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Write a line when one is due: the first of a phase, its last, and those between."""
        now = self._clock.monotonic()
        with self._lock:
            tenth = _TENTHS * done // total if total else _TENTHS
            before, told_at = self._told.get(phase, (-1, now))
            if before == _TENTHS and done < total:  # the phase runs again, as after a day that changed
                before, told_at = -1, now
            if before < 0:
                self._begun[phase] = now
            if tenth == before and now - told_at < _LINE_SECONDS:
                return
            if before == _TENTHS:
                return
            self._told[phase] = tenth, now
            seconds = round(now - self._begun[phase], 1)
        self._log.info("night_progress", phase=phase, done=done, total=total, seconds=seconds)
