"""The supervisor on a program in the daemon's place: crashes, restarts, signals, and what is left behind: nothing."""

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.supervised import ROOT, Supervised, end, has_gone

Start = Callable[..., Supervised]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return what starts a supervisor with behaviours for its daemon; everything is killed and reaped afterwards."""
    running: list[Supervised] = []

    def begin(*behaviours: str, **environ: str) -> Supervised:
        running.append(Supervised(tmp_path, behaviours, **environ))
        return running[-1]

    yield begin
    for supervised in running:
        with supervised.process as process:
            process.kill()
        for path in tmp_path.iterdir():
            end(int(path.read_text()))


def test_sigterm_reaches_the_daemon_and_ends_in_0(start: Start) -> None:
    """The daemon's 143 after our SIGTERM is a clean stop."""
    supervised = start("run")
    supervised.wait_for("fake_started")
    supervised.process.terminate()

    assert supervised.finish() == 0
    assert supervised.names()[-1] == "supervisor_stopped"
    assert supervised.starts() == 1


def test_ctrl_c_is_a_stop_too(start: Start) -> None:
    """SIGINT reaches the supervisor alone; the daemon gets SIGTERM."""
    supervised = start("run")
    supervised.wait_for("fake_started")
    supervised.process.send_signal(signal.SIGINT)

    assert supervised.finish() == 0


def test_a_crash_is_followed_by_a_restart(start: Start) -> None:
    """After a crash the daemon runs again; a stop then is a clean one."""
    supervised = start("exit:1", "run")
    supervised.wait_for("daemon_restarting")
    supervised.wait_for("fake_started")
    supervised.process.terminate()

    assert supervised.finish() == 0
    assert supervised.starts() == 2


def test_what_comes_before_a_start_comes_before_every_start(start: Start) -> None:
    """A restart as well: that is when the dead daemon's leader lock has to go."""
    supervised = start("exit:1", "run")
    supervised.wait_for("daemon_restarting")
    supervised.wait_for("fake_started")
    supervised.process.terminate()
    supervised.finish()
    order = [name for name in supervised.names() if name in {"before_start", "daemon_started"}]
    assert order == ["before_start", "daemon_started"] * 2


def test_a_daemon_that_waits_for_dead_processors_is_not_waited_for(start: Start) -> None:
    """A processor was killed and none is left: the daemon's grace time would pass for nothing."""
    supervised = start("deserted", "run")
    supervised.wait_for("daemon_deserted")
    supervised.wait_for("daemon_restarting")
    supervised.wait_for("fake_started")
    supervised.process.terminate()

    assert supervised.finish() == 0
    assert supervised.starts() == 2


def test_a_daemon_without_shards_is_left_alone(start: Start) -> None:
    """The last processor said good-bye, as when its lease went elsewhere: the daemon waits for the next one.

    What its processors say below the log's level is for the supervisor alone.
    """
    supervised = start("quiet")
    supervised.wait_for("child_gone")
    with pytest.raises(subprocess.TimeoutExpired):
        supervised.process.wait(timeout=4)
    supervised.process.terminate()

    assert supervised.finish() == 0
    assert not {"daemon_deserted", "progress"} & set(supervised.names())
    assert supervised.starts() == 1


def test_crashes_in_a_row_end_it(start: Start) -> None:
    """It gives up in the end, with a code and a next step."""
    supervised = start("exit:1")

    assert supervised.finish() == 1
    assert supervised.starts() == 3
    assert supervised.names()[-1] == "gave_up"
    assert supervised.events[-1]["next_step"]


def test_exit_0_unasked_is_no_success(start: Start) -> None:
    """KCL exits 0 when it cannot initialise."""
    supervised = start("exit:0")

    assert supervised.finish() == 1
    assert "could not initialise" in supervised.events[-1]["error"]


@pytest.mark.parametrize(("code", "starts"), [(2, 2), (6, 2), (5, 3), (1, 3)])
def test_the_childs_code_survives_the_daemon(start: Start, code: int, starts: int) -> None:
    """The daemon exits 1 whatever its child said; the supervisor ends with the child's code, error and next step."""
    supervised = start(f"fail:{code}")

    assert supervised.finish() == code
    assert supervised.starts() == starts
    gave_up = supervised.events[-1]
    assert (gave_up["error"], gave_up["next_step"]) == (f"reason {code}", "do something")


def test_both_streams_pass_through(start: Start) -> None:
    """What daemon and children print arrives, and the daemon sees the name of its file."""
    supervised = start("exit:1")
    supervised.finish()
    printed = [json.loads(line) for line in supervised.stdout.splitlines()]
    assert [(line["event"], line["message"]) for line in printed] == [("printed", "line on stdout")] * 3
    told = [event for event in supervised.events if event["event"] == "fake_started"]
    assert (told[0]["number"], told[0]["properties"]) == (0, "x.properties")


def test_a_stubborn_daemon_is_killed_after_its_grace(start: Start) -> None:
    """A stop takes no longer than the grace, and is not a success then."""
    supervised = start("stubborn", TEST_GRACE_SECONDS="0.2")
    supervised.wait_for("fake_started")
    supervised.process.terminate()

    assert supervised.finish() == 1
    assert "daemon_killed" in supervised.names()
    assert has_gone(supervised.pid("start-0"))


def test_a_second_ctrl_c_kills(start: Start) -> None:
    """Whoever cannot wait presses twice."""
    supervised = start("stubborn")
    supervised.wait_for("fake_started")
    supervised.process.send_signal(signal.SIGINT)
    supervised.wait_for("stopping")
    supervised.process.send_signal(signal.SIGINT)

    assert supervised.finish() == 1
    assert has_gone(supervised.pid("start-0"))


def test_a_stop_while_waiting_to_restart(start: Start) -> None:
    """A stop does not wait for the next restart."""
    supervised = start("exit:1", TEST_WAIT_SECONDS="60")
    for _ in range(2):
        supervised.wait_for("daemon_restarting")
    supervised.process.terminate()

    assert supervised.finish() == 0
    assert supervised.starts() == 2


def test_children_of_a_killed_daemon_do_not_live_on(start: Start) -> None:
    """A processor whose daemon was SIGKILLed is a zombie writer: it is ended before the daemon is started again."""
    supervised = start("orphan", "run")
    supervised.wait_for("daemon_restarting")
    child = supervised.pid("child")

    assert has_gone(child)
    supervised.process.terminate()
    assert supervised.finish() == 0


def test_the_daemon_stops_when_the_supervisor_is_killed(start: Start) -> None:
    """After a SIGKILL of the supervisor its daemon ends by itself, in order."""
    supervised = start("run")
    supervised.wait_for("fake_started")
    supervised.process.kill()

    assert has_gone(supervised.pid("start-0"))


LINES = ROOT / "tests" / "data" / "kcl-log"


def test_a_daemon_that_skips_a_batch_is_killed_and_started_again(start: Start) -> None:
    """Before it delivers the next batch: a processor would chain that one to what came before the skipped one."""
    supervised = start("log:batch.json", "run")
    skipped = supervised.wait_for("kcl_skipped")
    ended = supervised.wait_for("daemon_ended")
    supervised.wait_for("daemon_restarting")
    supervised.wait_for("fake_started")
    supervised.process.terminate()

    assert supervised.finish() == 0
    assert (skipped["level"], skipped["skipped"], skipped["shard"]) == ("error", "batch", "shardId-000000000000")
    assert ended["code"] == -signal.SIGKILL


def test_a_batch_that_is_skipped_again_and_again_is_the_reason_in_the_end(start: Start) -> None:
    """Doubt stops the worker: going on would lose the batch."""
    supervised = start("log:batch.json")

    assert supervised.finish() == 1
    gave_up = supervised.events[-1]
    assert gave_up["event"] == "gave_up"
    assert gave_up["error"].startswith("KCL skipped a batch of shardId-000000000000: java.lang.NoClassDefFoundError")


@pytest.mark.parametrize("name", ["aggregate_rest.json", "out_of_memory.txt", "batch_again.json"])
def test_the_daemons_log_is_passed_on_in_the_schema_of_all_lines(start: Start, name: str) -> None:
    """Whatever the supervisor reads in it, and whole: a malformed aggregate can be found nowhere else."""
    supervised = start(f"log:{name}")
    supervised.wait_for("line_printed")
    supervised.process.terminate()
    assert supervised.finish() == (1 if name == "out_of_memory.txt" else 0)
    lines = [json.loads(line) for line in supervised.stdout.splitlines()]
    assert all(line.keys() >= {"timestamp", "level", "event", "message"} for line in lines)
    said = (LINES / name).read_text()
    message = json.loads(said)["message"] if said.startswith("{") else said.strip()
    assert ("ran_out_of_memory" in [event["event"] for event in supervised.events]) == (name == "out_of_memory.txt")
    assert message.partition("{}")[0] in lines[1]["message"]
    assert len(lines[1]["message"]) >= len(message)


def test_a_permission_that_is_missing_ends_it_with_2(start: Start) -> None:
    """KCL tries for half a minute and exits 0; its own error is named, not "read the log", and a person must act."""
    supervised = start("last-words:denied_create_table.json")

    assert supervised.finish() == 2
    assert supervised.starts() == 2
    gave_up = supervised.events[-1]
    assert "not authorized to perform: dynamodb:CreateTable" in gave_up["error"]
    assert "minutebook docs operations permissions" in gave_up["next_step"]
    assert supervised.names().count("kcl_denied") == 2
    restarting = next(event for event in supervised.events if event["event"] == "daemon_restarting")
    assert (restarting["error"], restarting["next_step"]) == (gave_up["error"], gave_up["next_step"])


def test_kcls_last_error_is_in_the_reason(start: Start) -> None:
    """An exit 0 of a daemon that could not initialise has a cause, and it is said."""
    supervised = start("last-words:other_error.json")

    assert supervised.finish() == 1
    assert "java.lang.IllegalArgumentException: z" in supervised.events[-1]["error"]


def test_a_processor_that_is_killed_is_named(start: Start) -> None:
    """The kernel leaves no line: the supervisor says which processor is gone, and why the daemon was killed."""
    supervised = start("deserted", "run")
    killed = supervised.wait_for("processor_killed")
    supervised.wait_for("daemon_deserted")
    restarting = supervised.wait_for("daemon_restarting")
    supervised.process.terminate()

    assert supervised.finish() == 0
    assert (killed["level"], killed["shard"]) == ("error", "shardId-000000000007")
    assert killed["next_step"]
    assert restarting["error"] == killed["error"]


@pytest.mark.parametrize(("behaviour", "said"), [("run", "fake_started"), ("quiet", "child_gone")])
def test_a_worker_that_stops_in_order_gives_its_leases_away(start: Start, behaviour: str, said: str) -> None:
    """Once: when all of its processors have ended, or when the daemon has."""
    supervised = start(behaviour, TEST_LEASE="1")
    supervised.wait_for(said)
    supervised.process.terminate()

    assert supervised.finish() == 0
    (released,) = [event for event in supervised.events if event["event"] == "leases_released"]
    assert released["heirs"] == {"shardId-000000000007": "w2"}
    names = supervised.names()
    assert (names.index("leases_released") < names.index("daemon_ended")) == (behaviour == "quiet")


@pytest.mark.parametrize(
    ("behaviour", "said"), [("stubborn", ["fake_started"]), ("fail:1", ["daemon_restarting"] * 2)]
)
def test_who_does_not_stop_in_order_keeps_its_leases(start: Start, behaviour: str, said: list[str]) -> None:
    """A daemon that is killed, or that is not asked to stop: the leases expire, or it takes them up again."""
    supervised = start(behaviour, TEST_LEASE="1", TEST_GRACE_SECONDS="0.3", TEST_WAIT_SECONDS="30")
    for event in said:
        supervised.wait_for(event)
    supervised.process.terminate()
    supervised.finish()

    assert "leases_released" not in supervised.names()
