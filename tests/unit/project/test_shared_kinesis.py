"""The workers of a run use one Kinesis: the first one starts it, and stops it when the others have left."""

import subprocess
import sys
from pathlib import Path
from typing import IO

from tests.witness.waiting import wait_until

_ROOT = Path(__file__).parents[3]
_WORKER = """
import sys
from pathlib import Path
from tests.shared_kinesis import SharedKinesis

class Aws:
    kinesis_port = 4000

    def stop(self):
        print("stops", flush=True)

def start(port):
    print("joins", port, flush=True)
    return Aws()

shared = SharedKinesis(Path(sys.argv[1]))
aws = shared.join(start)
sys.stdin.readline()
shared.leave(aws)
"""


def _join(folder: Path) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-c", _WORKER, str(folder)], cwd=_ROOT, stdin=pipe, stdout=pipe, text=True
    )


def _said(worker: "subprocess.Popen[str]") -> str:
    return _stream(worker.stdout).readline().strip()


def _stream(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


def _waits(worker: "subprocess.Popen[str]") -> bool:
    rows = (line.split() for line in Path("/proc/locks").read_text().splitlines())
    return any(row[1] == "->" and row[5] == str(worker.pid) for row in rows)


def test_the_first_one_stops_it_when_the_others_have_left(tmp_path: Path) -> None:
    """Also when one of them was killed; whoever comes then starts another."""
    with _join(tmp_path) as first:
        assert _said(first) == "joins None"
        with _join(tmp_path) as second, _join(tmp_path) as third:
            assert (_said(second), _said(third)) == ("joins 4000", "joins 4000")
            first_ends = _stream(first.stdin)
            first_ends.write("\n")
            first_ends.flush()
            wait_until(lambda: _waits(first), "the first one waits for the others")
            second.kill()
            third.communicate("\n")
            assert third.returncode == 0
        assert _said(first) == "stops"
        assert first.wait() == 0
    with _join(tmp_path) as next_one:
        assert next_one.communicate("\n")[0].splitlines() == ["joins None", "stops"]
