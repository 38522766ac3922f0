"""The JVM's answers, and what the streams' threads learn from them."""

import io
import threading
from pathlib import Path

from consumer.daemon.process import ChildOutput
from consumer.fleet.host import FleetHost, HostPlan, StreamSession
from minutebook.clock import SystemClock
from tests.witness.waiting import wait_until

_PROGRAM = """
import json, sys
print('{"event":"fleet_ready","heap_bytes":7}', flush=True)
for line in sys.stdin:
    command = json.loads(line)
    if command["act"] == "end":
        error = "broken" if command["stream"] == "b" else ""
        print(json.dumps({"event": "stream_ended", "stream": command["stream"], "error": error},
                         separators=(",", ":")), flush=True)
    elif command["file"] == "/die":
        sys.exit(3)
"""


class _Site:
    """A host whose JVM is a program in Python."""

    def __init__(self, starting: int = 12) -> None:
        self.heap: list[int] = []
        output = ChildOutput(io.BytesIO(), io.BytesIO(), self._read, bytes)
        self.host = FleetHost(self._plan, output, self.heap.append, SystemClock(), starting=starting)

    def begin(self, name: str, file: str) -> StreamSession:
        """Begin a stream that the host takes."""
        session = self.host.begin(name, Path(file))
        assert session is not None
        return session

    def _plan(self) -> HostPlan:
        return HostPlan(["python3", "-c", _PROGRAM], {"PATH": "/usr/bin:/bin:/usr/local/bin"}, None, [])

    def _read(self, line: bytes) -> bytes:
        return b"" if self.host.read_answer(line) else line


def test_one_stream_ends_and_the_other_goes_on() -> None:
    """Code 0 as KCL's own end, 1 with what it threw."""
    site = _Site()
    site.host.start()
    try:
        first, second = site.begin("a", "/a"), site.begin("b", "/b")
        site.host.end("a", first)
        wait_until(lambda: first.code is not None, "a has ended")
        assert (first.code, second.code) == (0, None)
        site.host.end("b", second)
        wait_until(lambda: second.code is not None, "b has ended")
        assert (second.code, second.error) == (1, "broken")
        assert site.heap == [7]
    finally:
        site.host.reap()


def test_a_start_waits_for_those_under_way() -> None:
    """Until one of them works, or has ended."""
    site = _Site(starting=1)
    site.host.start()
    try:
        first = site.begin("a", "/a")
        begun: list[StreamSession] = []
        waiters = [threading.Thread(target=lambda name=name: begun.append(site.begin(name, "/x"))) for name in "bc"]
        for waiter in waiters:
            waiter.start()
        wait_until(lambda: site.host.waiting == {"b", "c"}, "both wait")
        assert begun == []
        site.host.note_started("a")
        wait_until(lambda: len(site.host.waiting) == 1, "one begins")
        (other,) = {"b", "c"} - site.host.waiting
        site.host.end(other, begun[0])
        wait_until(lambda: not site.host.waiting, "and when it has ended, the last one")
        assert first.code is None
        for waiter in waiters:
            waiter.join(5)
    finally:
        site.host.reap()


def test_the_end_of_the_jvm_is_the_end_of_all_streams() -> None:
    """With its code, and the next one is waited for."""
    site = _Site()
    site.host.start()
    try:
        first, second = site.begin("a", "/a"), site.begin("b", "/die")
        wait_until(lambda: site.host.run is None or site.host.run.daemon.has_ended(), "it has ended")
        site.host.look()
        assert (first.code, second.code) == (3, 3)
        waiter = threading.Thread(target=site.host.begin, args=("a", Path("/a")))
        waiter.start()
        wait_until(lambda: site.host.waiting == {"a"}, "a waits")
        site.host.stop()
        waiter.join(5)
        assert not waiter.is_alive()
    finally:
        site.host.reap()


def test_a_line_of_the_log_is_no_answer() -> None:
    """Also where a record holds the words of one."""
    site = _Site()
    assert not site.host.read_answer(b'{"sequenceNumber":0,"message":"{\\"event\\":\\"stream_ended\\"}"}\n')
    assert not site.host.read_answer(b'{"event":"\xff\n')
