"""`minutebook-processor` as a process: its stdout, its signals, its log, its memory."""

import fcntl
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from consumer.pipe.capacity import INPUT_BYTES, OUTPUT_BYTES
from tests.integration.archive_site import Site
from tests.integration.process_daemon import PROGRAM

NOISE = """
import os, sys

def shout(event, args):
    # A library that prints, at the worst moment and in the worst words: an answer of the protocol.
    if event == "socket.connect":
        line = '{"action":"status","responseFor":"processRecords"}'
        os.write(1, line.encode() + b"\\n")
        print(line, flush=True)

sys.addaudithook(shout)
"""


def test_a_stray_print_does_not_reach_the_protocol(site: Site, tmp_path: Path) -> None:
    """Neither `print` nor a write to fd 1 from inside a library is taken for an answer; both land on stderr."""
    folder = tmp_path / "noise"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(NOISE)
    site.put(3)
    with site.processor(path=str(folder)) as processor:
        processor.start()
        processor.deliver()
        processor.request_shutdown()
        assert processor.close() == 0
        noise = [line for line in processor.events.lines if "responseFor" in line]
    assert len(noise) >= 4, "nothing was printed: this proves nothing"
    site.assert_exactly_once()


def test_the_pipes_are_sized(site: Site) -> None:
    """As the daemon's ends of them tell, also where a stub has handed them over."""
    new = os.pipe()
    is_small = fcntl.fcntl(new[0], fcntl.F_GETPIPE_SZ) < INPUT_BYTES // 2
    for descriptor in new:
        os.close(descriptor)
    if is_small:
        pytest.skip("this user's pipes are small already: pipe-user-pages-soft")
    with site.forks() as forks, forks.processor(site.lease) as processor:
        processor.start()
        pipes = processor.process.stdin, processor.process.stdout
        held = [fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) for pipe in pipes if pipe is not None]
    assert held == [INPUT_BYTES, OUTPUT_BYTES]


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_a_closed_end_is_one_clear_line(site: Site, closed: str) -> None:
    """Whoever starts it by hand learns who should."""
    command = ["/bin/sh", "-c", f'exec "$0" "$1" {closed}', PROGRAM, site.properties()]
    done = subprocess.run(command, env=site.environment(), stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    last = json.loads(done.stderr.splitlines()[-1])
    assert (last["event"], last["kind"]) == ("processor_failed", "SettingsError")
    assert "stdin or stdout is closed" in last["error"]
    assert "minutebook consume" in last["next_step"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_daemon_alone_decides_about_the_end(site: Site, number: signal.Signals) -> None:
    """A signal that reaches the whole process group does not cut a processor short."""
    site.put(3)
    with site.processor() as processor:
        processor.start()
        processor.signal(number)
        processor.deliver()
        processor.signal(number)
        processor.request_shutdown()
        assert processor.close() == 0
    site.assert_exactly_once()


def test_the_end_of_input_ends_it_with_0(site: Site) -> None:
    """A daemon that dies closes the pipe; what was not committed is left to the next start."""
    site.put(3)
    with site.processor() as processor:
        processor.start()
        processor.deliver()
        assert processor.close() == 0
    assert site.segments() == []
    site.archive_the_rest()
    site.assert_exactly_once()


def test_every_log_line_is_json(site: Site) -> None:
    """From the first line to the last one."""
    site.put(3)
    with site.processor(logLevel="debug") as processor:
        processor.start()
        processor.deliver()
        processor.request_shutdown()
        processor.close()
        assert processor.events.foreign_lines == []


def test_memory(site: Site) -> None:
    """Report the resident memory of an idle processor and its peak while a 10 MB batch passes.

    The bounds are generous; the figures to reach are measured in benchmarks/.
    """
    with site.processor() as processor:
        processor.start()
        processor.tick()
        idle = _status_mb(processor.process.pid, "VmRSS")
        site.put(10_000, size=1000)
        processor.deliver()
        peak = _status_mb(processor.process.pid, "VmHWM")
        processor.request_shutdown()
        processor.close()
    print(f"resident memory: idle {idle:.0f} MB, peak with a 10 MB batch {peak:.0f} MB")  # noqa: T201
    site.assert_exactly_once()
    assert idle < 150
    assert peak < 300


def _status_mb(pid: int, name: str) -> float:
    found = re.search(rf"^{name}:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1000
