"""The supervisor and its fork server: each run has one of its own, and none is left behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.daemon_double import Lease
from tests.fakes.shard import FakeShard
from tests.integration.archive_site import Site
from tests.integration.supervised import Supervised, end, has_gone
from tests.witness.waiting import PATIENCE_SECONDS, wait_until

Start = Callable[..., Supervised]
_HANGING = """
import os, signal, socket, subprocess, sys
from pathlib import Path
from consumer.daemon.fork_server import open_door
from consumer.forks.child import die_with
from consumer.forks.server import ForkServer
from consumer.forks.stub import REQUEST, connect

path, server, parent = Path(sys.argv[1]), os.getpid(), subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE)
door = open_door(path)
stub = socket.socket(fileno=connect(bytes(path)).detach())
socket.send_fds(stub, [REQUEST], [0, 1, 2])

def hang(*_):
    die_with(server)
    path.with_name("pid").write_text(str(os.getpid()))
    os.kill(parent.pid, signal.SIGKILL)
    signal.pause()

ForkServer(door, hang, os.pidfd_open(parent.pid), farewell_seconds=0.2).run()
"""
_ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_EC2_METADATA_DISABLED": "true"}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return what starts a supervisor with a fork server and behaviours for its daemon."""
    running: list[Supervised] = []
    folder = tmp_path / "starts"
    folder.mkdir()

    def begin(*behaviours: str, **more: str) -> Supervised:
        values = {
            "streamName": "s",
            "applicationName": "app",
            "regionName": "us-east-1",
            "kinesisEndpoint": "http://127.0.0.1:1",
            "minutebook.bucket": "archive",
            "minutebook.s3Endpoint": "http://127.0.0.1:1",
            **more,
        }
        file = tmp_path / "forks.properties"
        file.write_text("".join(f"{name} = {value}\n" for name, value in values.items()))
        running.append(Supervised(folder, behaviours, TEST_FORKS=str(file), **_ENVIRONMENT))
        return running[-1]

    yield begin
    for supervised in running:
        with supervised.process as process:
            process.kill()
        for path in folder.iterdir():
            end(int(path.read_text()))


def test_a_daemon_whose_fork_server_is_gone_is_started_again(start: Start) -> None:
    """With a fork server of its own: nothing can come of a daemon whose processors are dead."""
    supervised = start("run")
    first = supervised.wait_for("daemon_started")["fork_server_pid"]
    supervised.wait_for("fork_server_ready")
    os.kill(first, signal.SIGKILL)
    ended = supervised.wait_for("fork_server_ended")
    restarting = supervised.wait_for("daemon_restarting")
    second = supervised.wait_for("daemon_started")["fork_server_pid"]
    supervised.wait_for("fork_server_ready")
    supervised.process.terminate()

    assert supervised.finish() == 0
    assert (ended["level"], restarting["error"], supervised.starts()) == ("error", ended["error"], 2)
    assert first != second
    assert has_gone(second)


def test_a_stop_that_everybody_is_told_of_is_in_order(start: Start) -> None:
    """As by systemd's KillMode=control-group: the fork server goes on for shards that are being opened."""
    supervised = start("slow")
    server = supervised.wait_for("daemon_started")["fork_server_pid"]
    supervised.wait_for("fork_server_ready")
    os.kill(server, signal.SIGTERM)
    supervised.process.terminate()
    supervised.wait_for("stopping")
    os.kill(server, signal.SIGTERM)

    assert supervised.finish() == 0
    assert "fork_server_ended" not in supervised.names()
    assert has_gone(server)


def test_a_fork_server_that_is_killed_in_a_stop_ends_it(start: Start) -> None:
    """What its processors held is not committed: the daemon would wait for them in vain, and no stop is in order."""
    supervised = start("stubborn")
    server = supervised.wait_for("daemon_started")["fork_server_pid"]
    supervised.wait_for("fork_server_ready")
    supervised.process.terminate()
    supervised.wait_for("stopping")
    os.kill(server, signal.SIGKILL)

    assert supervised.finish() == 1
    assert "fork_server_ended" in supervised.names()


def test_forked_processors_do_not_outlive_their_daemon(start: Start) -> None:
    """The fork server of a daemon that crashed is ended, and what it forked with it, before the next one starts."""
    supervised = start("exit:1", "run")
    first = supervised.wait_for("daemon_started")["fork_server_pid"]
    second = supervised.wait_for("daemon_started")["fork_server_pid"]

    assert first != second
    assert not Path(f"/proc/{first}").exists()
    supervised.process.terminate()
    assert supervised.finish() == 0


def test_settings_that_a_processor_refuses_end_it_with_2(start: Start) -> None:
    """As if the processor had said so: with its error and its next step, and after two tries."""
    supervised = start("run", **{"minutebook.lingerSeconds": "soon"})

    assert supervised.finish() == 2
    assert supervised.names().count("daemon_started") == 2
    assert "lingerSeconds must be a number of seconds" in supervised.events[-1]["error"]
    assert supervised.events[-1]["next_step"].startswith("correct the lines named")


def test_the_fork_server_ends_when_the_supervisor_is_killed(start: Start) -> None:
    """By itself: when no processor is left."""
    supervised = start("run")
    server = supervised.wait_for("daemon_started")["fork_server_pid"]
    supervised.wait_for("fork_server_ready")
    supervised.process.kill()

    assert has_gone(server)


def test_a_fork_server_that_nobody_reads_waits_for_its_processors(site: Site) -> None:
    """The supervisor's SIGKILL also closes the pipe of its lines: what it says of one must not be the others' end."""
    site.put(3)
    with site.forks() as forks, forks.processor(site.lease) as processor:
        with forks.processor(Lease(FakeShard())) as second, forks.processor(Lease(FakeShard())) as third:
            for one in (processor, second, third):
                one.start()
            processor.deliver()
            forks.lose_supervisor()
            assert [second.close(), third.close()] == [0, 0]
            wait_until(lambda: len(forks.processors()) == 1, "two have ended")
        processor.request_shutdown()
        assert processor.close() == 0
        wait_until(forks.server.has_ended, "the fork server has ended")
        assert forks.reap() == 0
    site.assert_exactly_once()


def test_a_processor_that_hangs_does_not_outlive_its_supervisor(tmp_path: Path) -> None:
    """Whoever waits for it waits no longer than the daemon did; it dies with the fork server."""
    command = [sys.executable, "-c", _HANGING, str(tmp_path / "door")]
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=PATIENCE_SECONDS, check=True)
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: has_gone(pid), "the processor is gone")
