"""A stop behind a processor's death: nobody waits for the dead."""

import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from consumer.daemon.restart_policy import RestartLimits
from consumer.daemon.stream_run import StreamPlan
from consumer.daemon.supervisor import DaemonPlan, Supervisor
from consumer.leases.hand_over import Leaving
from consumer.leases.rows import Lease
from consumer.monitoring.watch import Watch
from minutebook.clock import SystemClock
from minutebook.format.position import Position
from tests.fakes.lease_table import MemoryLeaseTable
from tests.integration.supervised import ROOT, Supervised, end


@contextmanager
def _supervised(folder: Path, behaviour: str) -> Iterator[Supervised]:
    """Run a supervisor, and end it and its daemon."""
    supervised = Supervised(folder, (behaviour,))
    try:
        yield supervised
    finally:
        with supervised.process as process:
            process.kill()
        end(supervised.pid("start-0"))


def test_a_stop_right_behind_a_death_is_in_order(tmp_path: Path) -> None:
    """The other processor leaves as asked; the daemon would wait out its grace for the one that was killed."""
    with _supervised(tmp_path, "bereft") as supervised:
        supervised.wait_for("child_gone")
        supervised.process.send_signal(signal.SIGTERM)
        assert supervised.finish() == 0
    names = supervised.names()
    assert "processor_killed" in names
    assert not {"daemon_killed", "daemon_deserted"} & set(names)
    assert (names[-1], supervised.starts()) == ("supervisor_stopped", 1)


def test_a_death_behind_the_request_is_told_however_the_daemon_ends(tmp_path: Path) -> None:
    """It was to commit; the daemon has lost it, ends as asked, and says nothing of it."""
    with _supervised(tmp_path, "halved") as supervised:
        supervised.wait_for("both_started")
        supervised.process.send_signal(signal.SIGTERM)
        assert supervised.finish() == 1
    assert supervised.names()[-3:] == ["processor_killed", "daemon_ended", "gave_up"]


def test_a_stop_between_two_daemons_gives_the_leases_away(tmp_path: Path) -> None:
    """The daemon crashed, and no other one runs yet: who takes the shards need not wait until the leases expire."""
    supervised = Supervised(tmp_path, ("exit:1",), TEST_LEASE="1", TEST_WAIT_SECONDS="60")
    try:
        for _ in range(2):
            supervised.wait_for("daemon_restarting")
        supervised.process.send_signal(signal.SIGTERM)
        assert supervised.finish() == 0
    finally:
        with supervised.process as process:
            process.kill()
    assert supervised.names()[-2:] == ["leases_released", "supervisor_stopped"]


def test_a_stop_while_a_deserted_daemon_is_killed_is_in_order(tmp_path: Path) -> None:
    """Nobody of ours lives by then: no daemon is started for it, and the leases are given away."""

    class Stopping(Watch):
        """Asks to stop when the daemon has been killed, before its run is judged."""

        def daemon_ended(self) -> None:
            super().daemon_ended()
            os.kill(os.getpid(), signal.SIGTERM)

    clock, table = SystemClock(), MemoryLeaseTable(Lease("shardId-000000000000", Position(1), 7, "w1"))
    leaving = Leaving(table, "w1", clock)
    command = [sys.executable, str(ROOT / "tests" / "fakes" / "daemon_program.py"), str(tmp_path), "deserted"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    plan = DaemonPlan(command=command, environment=environment, stream=StreamPlan(leaving=leaving))
    supervisor = Supervisor(
        plan, clock, limits=RestartLimits(), watch=Stopping(clock), stdout=io.BytesIO(), stderr=io.BytesIO()
    )
    assert supervisor.run() == 0
    rows = table.read()
    assert rows is not None
    assert [lease.owner for lease in rows.leases.values()] == [None]
    assert len(list(tmp_path.glob("start-*"))) == 1
