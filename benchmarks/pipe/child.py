"""One process on one pipe: it is written to as KCL's daemon writes, and its CPU seconds and memory are taken."""

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, NamedTuple, Self, cast

from benchmarks.pipe.inputs import SHARD

_WRITE_BYTES: Final = 1 << 17
"""The daemon writes so much at a time (StreamingMessageWriter.java); KCL's own writer a sixteenth of it."""
_ENCODE_SECONDS: Final = 560e-6
"""What it computes for each of them: 4.4 ms for a MB, by its threads `multi-lang-daemon` (`whole_path`, 600 MB). A
process that reads has so long between two pieces; from a double that computes nothing, each read would wait for a
writer that waits for it."""
_SAMPLE_SECONDS: Final = 0.01
_CPU_CLOCK: Final = 2
"""CPUCLOCK_SCHED of linux/posix-timers.h: with it a process id becomes the clock of that process."""
_KIB_PER_MIB: Final = 1024
_FIRST = json.dumps(
    {"action": "initialize", "shardId": SHARD, "sequenceNumber": "TRIM_HORIZON", "subSequenceNumber": 0}
)
_LAST = b'{"action":"shutdownRequested"}\n'


class Used(NamedTuple):
    """CPU seconds of the start, up to the answer to `initialize`, and of the work; MiB at most, shared ones too.

    `pipe` and `put` are the shares of the work that reading the pipe and sending segments took, where they are known.
    """

    start_seconds: float
    seconds: float
    peak_rss_mib: float
    pipe: float | None = None
    put: float | None = None


class Memory(NamedTuple):
    """MiB that are nobody else's (USS): after the start, at most, and after a second's silence and an empty batch."""

    idle: float
    peak: float
    after: float


class Child:
    """A process on a pipe. Leaving the `with` block closes the pipe and reaps it."""

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        self._begun = time.monotonic()  # noqa: TID251 - real processes take real time
        self._process = subprocess.Popen(  # noqa: S603 - our own
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **environment},
        )
        self._to = cast("IO[bytes]", self._process.stdin)
        self._from = cast("IO[bytes]", self._process.stdout)
        self._log: list[bytes] = []
        self._drain = threading.Thread(target=self._log.extend, args=(self._process.stderr,))
        self._drain.start()
        self._folder = Path(f"/proc/{self._process.pid}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(BrokenPipeError):
            self._to.close()
        self._process.wait()
        self._from.close()
        self._drain.join()

    def first_answer(self, message: bytes) -> float:
        """Send the first message; return how many seconds after the start it was answered."""
        self._turn(message)
        return time.monotonic() - self._begun  # noqa: TID251 - as above

    def run(self, messages: Iterable[bytes]) -> Used:
        """Let it serve the messages of a whole life."""
        self._turn(_FIRST.encode() + b"\n")
        start = self._cpu_seconds()
        for message in messages:
            self._turn(message)
        self._turn(_LAST)
        return Used(start, self._cpu_seconds() - start, self._of("status", "VmHWM:"))

    def weigh(self, messages: Iterable[bytes]) -> Memory:
        """The same with an eye on its memory, all the time: nothing here says what it costs in CPU."""
        self._turn(_FIRST.encode() + b"\n")
        time.sleep(0.2)  # noqa: TID251 - real processes take real time
        idle, peak = self._private(), 0.0
        done = threading.Event()

        def watch() -> None:
            nonlocal peak
            while not done.wait(_SAMPLE_SECONDS):
                peak = max(peak, self._private())

        watcher = threading.Thread(target=watch)
        watcher.start()
        for message in messages:
            self._turn(message)
        time.sleep(1)  # noqa: TID251 - as above
        self._turn(b'{"action":"processRecords","records":[],"millisBehindLatest":0}\n')
        time.sleep(0.2)  # noqa: TID251 - as above
        after = self._private()
        self._turn(_LAST)
        done.set()
        watcher.join()
        return Memory(idle, peak, after)

    def _turn(self, message: bytes) -> None:
        """Send a message and wait for its status; checkpoints between are granted."""
        pipe, view = self._to.fileno(), memoryview(message)
        for start in range(0, len(view), _WRITE_BYTES):
            # Computing, as the daemon is: a core that sleeps is another one to be woken by.
            encoded = time.perf_counter() + _ENCODE_SECONDS
            while time.perf_counter() < encoded:
                pass
            os.write(pipe, view[start : start + _WRITE_BYTES])
        while True:
            line = self._from.readline()
            if not line:
                raise RuntimeError("it ended: " + b"".join(self._log[-5:]).decode("utf-8", "replace"))
            if line.isspace():
                continue
            answer = json.loads(line)
            if answer["action"] != "checkpoint":
                return
            self._to.write(json.dumps({**answer, "error": None}).encode() + b"\n")
            self._to.flush()

    def _cpu_seconds(self) -> float:
        return time.clock_gettime(~self._process.pid << 3 | _CPU_CLOCK)

    def _private(self) -> float:
        return self._of("smaps_rollup", "Private_Clean:") + self._of("smaps_rollup", "Private_Dirty:")

    def _of(self, file: str, name: str) -> float:
        _, _, rest = (self._folder / file).read_text().partition(name)
        return int(rest.split()[0]) / _KIB_PER_MIB if rest else 0.0
