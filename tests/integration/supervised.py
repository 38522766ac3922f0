"""A supervisor as a process on a program in the daemon's place, and the processes that it may leave behind."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.witness.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]
SUPERVISE = ROOT / "tests" / "fakes" / "supervise.py"


class Supervised:
    """A running supervisor; its stderr is read line by line."""

    def __init__(self, folder: Path, behaviours: tuple[str, ...], **environ: str) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, str(SUPERVISE), str(folder), *behaviours],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
            bufsize=0,  # `communicate` does not see what a buffered reader has read ahead
        )
        self.events: list[dict[str, Any]] = []
        self.stderr = ""

    def __repr__(self) -> str:
        """Show what it has logged: a failed assertion prints it."""
        return f"<Supervised {self.events} {self.stderr}>"

    def wait_for(self, event: str) -> dict[str, Any]:
        """Read on until a line tells `event`; return it."""
        pipe = self.process.stderr
        assert pipe is not None
        while line := pipe.readline():
            if line.startswith(b"{"):
                self.events.append(json.loads(line))
                if self.events[-1]["event"] == event:
                    return self.events[-1]
        raise AssertionError(f"{event} never came: {self.events}")

    def finish(self) -> int:
        """Read the rest of its lines and return its exit code."""
        stdout, stderr = self.process.communicate(timeout=PATIENCE_SECONDS)
        self.stdout, self.stderr = stdout.decode(), stderr.decode()
        self.events += [json.loads(line) for line in stderr.splitlines() if line.startswith(b"{")]
        return self.process.returncode

    def names(self) -> list[str]:
        """Return the events so far, in order."""
        return [event["event"] for event in self.events]

    def starts(self) -> int:
        """Return how often the daemon was started."""
        return len(list(self.folder.glob("start-*")))

    def pid(self, name: str) -> int:
        """Return the pid in a file of the fake daemon."""
        return int((self.folder / name).read_text())


def end(pid: int) -> None:
    """Kill a process of the fake daemon that a failed test left, and no other one that has its pid by now."""
    try:
        if b"daemon_program.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
    except (FileNotFoundError, ProcessLookupError):
        return


def has_gone(pid: int) -> bool:
    """Wait until the process is gone (it is not our child); False when it lives on."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], PATIENCE_SECONDS)[0])
    finally:
        os.close(descriptor)
