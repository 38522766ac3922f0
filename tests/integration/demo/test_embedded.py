"""The embedded AWS: starts, answers on loopback only, loses nothing of S3, and leaves no process behind."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from demo.child import Child
from demo.embedded import EmbeddedAws
from minutebook.clock import SystemClock
from minutebook.errors import MinutebookError
from tests.witness.waiting import PATIENCE_SECONDS, wait_until

_OWNER = """
import sys
from pathlib import Path
from demo.embedded import EmbeddedAws

with EmbeddedAws(Path(sys.argv[1])) as aws:
    print(*(child.pid for child in aws._children.values()), flush=True)
    sys.stdin.read()
"""


def test_s3_keeps_what_it_acknowledged_over_its_own_sigkill(tmp_path: Path) -> None:
    """Kill and restart: the object and its metadata are there, at the same endpoint."""
    with EmbeddedAws(tmp_path) as aws:
        client = aws.s3_client()
        client.create_bucket(Bucket="kept")
        client.put_object(Bucket="kept", Key="a", Body=b"bytes", Metadata={"writer": "w"}, IfNoneMatch="*")
        aws.kill_s3()
        aws.restart_s3()
        stored = client.get_object(Bucket="kept", Key="a")
        assert (stored["Body"].read(), stored["Metadata"]) == (b"bytes", {"writer": "w"})


def test_servers_listen_on_loopback_only(embedded_aws: EmbeddedAws) -> None:
    """No endpoint answers on an address that other machines could reach."""
    ports = [int(url.rsplit(":", 1)[1]) for url in _endpoints(embedded_aws)]
    listening = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:] if " 0A " in line]
    everywhere = {int(address.split(":")[1], 16) for address in listening if address.startswith("00000000:")}
    assert not everywhere & set(ports)


def test_no_server_outlives_an_owner_that_is_killed(tmp_path: Path) -> None:
    """SIGKILL of the process that started them ends all three servers, though nobody could stop them."""
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    assert owner.stdin is not None
    with owner.stdin, owner.stdout:
        pids = [int(word) for word in owner.stdout.readline().split()]
        owner.kill()
        owner.wait()
    assert len(pids) == 3
    wait_until(lambda: not any(map(_is_running, pids)), "all three have ended")


def test_a_server_that_dies_at_its_start_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    """The message holds the end of the log, and the next step names the file."""
    log = tmp_path / "broken.log"
    child = Child(
        "broken", ["sh", "-c", "echo no certificate >&2; exit 7"], log=log, clock=SystemClock(), environment={}
    )
    with pytest.raises(MinutebookError, match=r"exit code 7.*no certificate") as caught:
        child.wait_until(lambda: False, seconds=PATIENCE_SECONDS)
    assert str(log) in caught.value.next_step


def test_stop_insists_when_a_child_ignores_sigterm(tmp_path: Path) -> None:
    """SIGTERM, then SIGKILL, and the child is reaped."""
    log = tmp_path / "stubborn.log"
    command = ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"]
    child = Child("stubborn", command, log=log, clock=SystemClock(), environment={"PATH": os.environ["PATH"]})
    child.wait_until(lambda: b"ready" in log.read_bytes(), seconds=PATIENCE_SECONDS)
    assert child.stop(grace_seconds=0.2) == -signal.SIGKILL


def _endpoints(aws: EmbeddedAws) -> list[str]:
    return [aws.kinesis_endpoint, aws.s3_endpoint, aws.dynamodb_endpoint]


def _is_running(pid: int) -> bool:
    """Tell whether a process runs; one that waits to be reaped by init does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_a_port_is_refused_after_the_stop(tmp_path: Path) -> None:
    """Leaving the `with` block ends every server."""
    with EmbeddedAws(tmp_path) as aws:
        ports = [int(url.rsplit(":", 1)[1]) for url in _endpoints(aws)]
    for port in ports:
        with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), timeout=5):
            pass
