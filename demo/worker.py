"""One worker of the demo: `minutebook consume` as a child process, with its log read as events."""

import os
import signal
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

import msgspec

from consumer.daemon.prepared.classes import MAIN_CLASS
from demo.child import Child
from demo.processes import Process, descendants, send
from minutebook.clock import Clock
from minutebook.errors import MinutebookError

_PROCESSOR = "minutebook-processor"
_DAEMON = MAIN_CLASS
_STOP_SECONDS = 45


class LogEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the supervisor's or a processor's log, as far as the demo reads it."""

    event: str
    timestamp: datetime
    shard: str = ""
    key: str = ""
    error: str = ""
    attempts: int = 0


class EventLog:
    """The events of a growing log file; lines of other programs are passed over."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._events: list[LogEvent] = []
        self._decoder = msgspec.json.Decoder(LogEvent)

    def read(self) -> list[LogEvent]:
        """Return all events so far, in the order of the file."""
        with self._path.open("rb") as source:
            source.seek(self._offset)
            fresh = source.read()
        whole, _, _ = fresh.rpartition(b"\n")
        self._offset += len(whole) + 1 if whole else 0
        for line in whole.split(b"\n"):
            if line.startswith(b"{"):
                try:
                    self._events.append(self._decoder.decode(line))
                except msgspec.MsgspecError:
                    continue  # KCL's own lines are JSON of another shape
        return list(self._events)


def _last_words(log: bytes) -> str:
    """Return our own last lines of a worker's log that are more than information; KCL's are thousands."""
    lines = [line for line in log.decode(errors="replace").splitlines() if '"next_step"' in line]
    return "\n".join(lines[-3:]) or "its log shows no trouble"


class Worker:
    """A supervisor, its daemon and the daemon's processors."""

    def __init__(self, name: str, properties: Path, *, clock: Clock, environment: Mapping[str, str]) -> None:
        self.name = name
        self.log_path = properties.with_suffix(".log")
        self._clock = clock
        program = Path(sys.executable).with_name("minutebook")
        inherited = {name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME", "LANG") if name in os.environ}
        self._child = Child(
            f"worker {name}",
            [str(program), "consume", str(properties), "--state-dir", str(properties.with_suffix(".state"))],
            log=self.log_path,
            clock=clock,
            environment={**inherited, "TMPDIR": str(properties.parent), **environment},
            last_words=_last_words,
        )
        self._log = EventLog(self.log_path)

    def events(self, name: str, *, since: int = 0) -> list[LogEvent]:
        """Return the events of one name, those of the first `since` lines left out."""
        return [event for event in self._log.read()[since:] if event.event == name]

    def mark(self) -> int:
        """Return a place in the log, for `since`."""
        return len(self._log.read())

    def holds(self) -> set[str]:
        """Return the shards that processors of this worker have opened, and neither lost nor ended."""
        shards: set[str] = set()
        for event in self._log.read():
            if event.event == "shard_opened":
                shards.add(event.shard)
            elif event.event in {"lease_lost", "shard_end_checkpointed"}:
                shards.discard(event.shard)
            elif event.event == "daemon_started":
                shards.clear()
        return shards

    def daemon(self) -> Process | None:
        """Return the running daemon."""
        return next((process for process in descendants(self._child.pid) if _DAEMON in process.command), None)

    def processors(self) -> list[Process]:
        """Return the running processors, one per shard."""
        running = descendants(self._child.pid)
        return [process for process in running if any(word.endswith(_PROCESSOR) for word in process.command)]

    def kill_daemon(self) -> None:
        """SIGKILL the daemon; the supervisor starts another."""
        daemon = self.daemon()
        if daemon is None:
            raise MinutebookError(f"worker {self.name} runs no daemon", next_step=f"read {self.log_path}")
        send(daemon.pid, signal.SIGKILL)

    def kill_processor(self) -> None:
        """SIGKILL one processor; the daemon then ends, and the supervisor starts another."""
        processors = self.processors()
        if not processors:
            raise MinutebookError(f"worker {self.name} runs no processor", next_step=f"read {self.log_path}")
        send(processors[0].pid, signal.SIGKILL)

    def wait_until(self, ready: Callable[[], bool], *, seconds: float) -> None:
        """Wait for `ready()`; raises MinutebookError with the end of the log when the worker ends or is late."""
        self._child.wait_until(ready, seconds=seconds)

    def stop(self) -> int:
        """Stop the worker: processors commit what they hold; returns the supervisor's exit code."""
        return self._child.stop(grace_seconds=_STOP_SECONDS)

    def kill(self) -> None:
        """End everything of this worker at once, processors included."""
        everyone = descendants(self._child.pid)
        self._child.kill()
        for process in everyone:
            send(process.pid, signal.SIGKILL)
