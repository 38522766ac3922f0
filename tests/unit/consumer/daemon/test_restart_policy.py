"""Why a run of the daemon ended, from what it told, and what the supervisor decides then."""

import pytest

from consumer.child_logs.kcl_log import KclError
from consumer.child_logs.processor_log import Killed, ProcessorEvent
from consumer.daemon.restart_policy import DaemonExit, EndSupervisor, Restart, RestartLimits, RestartPolicy
from consumer.daemon.run_notes import RunNotes
from tests.fakes.clock import ManualClock

LIMITS = RestartLimits(healthy_seconds=100, crashes_in_a_row=4, longest_wait_seconds=3)
CRASHED = "the daemon crashed (code 1)"
WAIT = "nothing yet: it is started again, and consume gives up after 4 crashes in a row"
CLOCK = ManualClock()
DENIED = KclError("not authorized", denied=True)
DESERTED = ProcessorEvent(event="daemon_deserted", error="deserted")


def crash(code: int = 1, *, ran_seconds: float = 5, child_code: int | None = None) -> DaemonExit:
    """Return an exit that nobody asked for; `child_code` is what a processor said."""
    failure = None if child_code is None else ProcessorEvent(
        event="processor_failed", exit_code=child_code, error="why", next_step="what to do"
    )  # fmt: skip
    return DaemonExit(code=code, ran_seconds=ran_seconds, stop_requested=False, failure=failure)


@pytest.mark.parametrize(
    ("code", "left_in_order", "exit_code"),
    [(0, False, 0), (143, False, 0), (-15, False, 0), (-9, True, 0), (-9, False, 1)],
)
def test_a_stop_as_asked_is_success(code: int, left_in_order: bool, exit_code: int) -> None:  # noqa: FBT001 - a case
    """SIGTERM's 143 of a Java program, too, but not a stop by force.

    Unless the daemon was killed because it waited for a dead processor: what that one held is read again.
    """
    decision = RestartPolicy(LIMITS).after(
        DaemonExit(code=code, ran_seconds=1, stop_requested=True, left_in_order=left_in_order)
    )

    assert isinstance(decision, EndSupervisor)
    assert decision.exit_code == exit_code


def test_a_processor_that_fails_while_stopping_is_told() -> None:
    """A stop during which a commit failed must not look like success."""
    failure = ProcessorEvent(event="processor_failed", exit_code=5, error="S3 is away", next_step="look")
    decision = RestartPolicy(LIMITS).after(DaemonExit(code=143, ran_seconds=1, stop_requested=True, failure=failure))

    assert decision == EndSupervisor(5, "S3 is away", "look")


@pytest.mark.parametrize("code", [0, 143, -9])
def test_a_stop_that_lost_a_processor_is_a_failure(code: int) -> None:
    """It was killed when it had been asked to commit, and the daemon knows nothing of that."""
    lost = ProcessorEvent(event="processor_killed", error="somebody killed it", next_step="look who")
    decision = RestartPolicy(LIMITS).after(
        DaemonExit(code=code, ran_seconds=1, stop_requested=True, killed_stopping=lost)
    )

    assert decision == EndSupervisor(1, "somebody killed it, when it had been asked to commit", "look who")


def test_waits_double_up_to_the_ceiling() -> None:
    """Restarts come at once, then 2 and 3 (the ceiling) seconds after crashes in a row; then it gives up."""
    policy = RestartPolicy(LIMITS)

    decisions = [policy.after(crash()) for _ in range(3)]
    assert [decision.reason for decision in decisions] == [CRASHED] * 3
    assert [
        (decision.wait_seconds, decision.crashes_in_a_row) for decision in decisions if isinstance(decision, Restart)
    ] == [
        (0, 1),
        (2, 2),
        (3, 3),
    ]
    assert isinstance(policy.after(crash()), EndSupervisor)


def test_a_healthy_run_starts_the_counting_again() -> None:
    """A crash a day is not a crash loop."""
    policy = RestartPolicy(LIMITS)

    assert [policy.after(crash(ran_seconds=100)) for _ in range(20)] == [Restart(0, 1, CRASHED, WAIT)] * 20


@pytest.mark.parametrize("child_code", [2, 6])
def test_a_refusal_is_tried_once_more(child_code: int) -> None:
    """Settings and safety do not mend themselves: the second refusal ends it, with its own code and next step."""
    policy = RestartPolicy(LIMITS)

    assert policy.after(crash(child_code=child_code)) == Restart(0, 1, "why", "what to do")
    assert policy.after(crash(child_code=child_code)) == EndSupervisor(child_code, "why", "what to do")


def test_refusals_count_only_in_a_row() -> None:
    """A crash of another kind between two refusals gives the second one its retry back."""
    policy = RestartPolicy(LIMITS)
    policy.after(crash(child_code=6))
    policy.after(crash())

    assert isinstance(policy.after(crash(child_code=6)), Restart)


def test_gives_up_with_the_last_childs_code() -> None:
    """An outage of S3 that lasts ends with 5."""
    policy = RestartPolicy(LIMITS)
    decisions = [policy.after(crash(child_code=5)) for _ in range(4)]

    assert decisions[-1] == EndSupervisor(5, "why", "what to do")


def test_an_exit_0_that_nobody_asked_for_is_a_crash() -> None:
    """KCL ends with 0 when it cannot initialise; it is tried again, and then it is a failure."""
    policy = RestartPolicy(LIMITS)
    decisions = [policy.after(crash(code=0)) for _ in range(4)]

    assert isinstance(decisions[0], Restart)
    assert isinstance(decisions[-1], EndSupervisor)
    assert decisions[-1].exit_code == 1
    assert "could not initialise" in decisions[-1].reason


def test_a_code_that_is_not_ours_becomes_1() -> None:
    """Whatever a log line says, the supervisor's own codes keep their meaning."""
    policy = RestartPolicy(LIMITS)
    decisions = [policy.after(crash(child_code=77)) for _ in range(4)]

    assert isinstance(decisions[-1], EndSupervisor)
    assert decisions[-1].exit_code == 1


def evidence(exit_code: int = 1) -> ProcessorEvent:
    """Return what the supervisor found out where no processor told."""
    return ProcessorEvent(event="found", exit_code=exit_code, error="found out", next_step="what to do then")


def test_a_restart_that_goes_on_says_what_to_do() -> None:
    """Nobody gets up for a crash or two; then the next step is that of giving up, never "nothing"."""
    policy = RestartPolicy(LIMITS)
    steps = [policy.after(crash()).next_step for _ in range(4)]

    assert steps[:2] == [WAIT, WAIT]
    assert steps[2] == steps[3] != ""
    assert "nothing" not in steps[2]


def test_what_was_found_out_counts_where_no_processor_told() -> None:
    """A permission that KCL lacks is a refusal, although KCL exits 0; a processor's own word comes first."""
    policy = RestartPolicy(LIMITS)
    ended = DaemonExit(code=0, ran_seconds=30, stop_requested=False, evidence=evidence(2))

    assert policy.after(ended) == Restart(0, 1, "found out", "what to do then")
    assert policy.after(ended) == EndSupervisor(2, "found out", "what to do then")
    failure = ProcessorEvent(event="processor_failed", exit_code=5, error="why", next_step="what to do")
    told = DaemonExit(code=1, ran_seconds=30, stop_requested=False, failure=failure, evidence=evidence(2))
    assert RestartPolicy(RestartLimits(crashes_in_a_row=1)).after(told) == EndSupervisor(5, "why", "what to do")


def test_what_was_found_out_long_ago_is_no_failure_of_a_stop() -> None:
    """The daemon stopped as asked, whatever it was refused before."""
    asked = DaemonExit(code=143, ran_seconds=1, stop_requested=True, evidence=evidence(2))

    assert RestartPolicy(LIMITS).after(asked) == EndSupervisor(0, "the daemon stopped as asked")


def test_a_daemon_that_the_supervisor_killed_did_not_crash() -> None:
    """It says why it was killed, and a SIGKILL of somebody else's is named as that."""
    late = DaemonExit(code=-9, ran_seconds=1, stop_requested=True, evidence=evidence())
    foreign = DaemonExit(code=-9, ran_seconds=1, stop_requested=False)

    assert RestartPolicy(LIMITS).after(late).reason == "found out, and not in order"
    assert RestartPolicy(LIMITS).after(foreign).reason == (
        "the daemon crashed (SIGKILL that the supervisor did not send)"
    )


def test_kcls_own_error_is_named() -> None:
    """Where nobody else says why."""
    ended = DaemonExit(code=0, ran_seconds=30, stop_requested=False, last_error="java.lang.X: y")

    assert RestartPolicy(LIMITS).after(ended).reason.endswith("KCL's last error: java.lang.X: y")


def test_a_shard_that_stays_without_a_reader_ends_it() -> None:
    """Two restarts did not help: a third would not. A healthy run in between begins the counting again."""
    unread = ProcessorEvent(event="shard_without_reader", error="nobody reads s", next_step="look at it")
    ended = DaemonExit(code=-9, ran_seconds=50, stop_requested=False, evidence=unread)
    policy = RestartPolicy(LIMITS)

    assert [isinstance(policy.after(ended), Restart) for _ in range(2)] == [True, True]
    assert policy.after(ended) == EndSupervisor(1, "nobody reads s", "look at it")
    policy = RestartPolicy(LIMITS)
    healthy = DaemonExit(code=-9, ran_seconds=100, stop_requested=False, evidence=unread)
    assert all(isinstance(policy.after(healthy), Restart) for _ in range(10))


def notes(*kills: int) -> RunNotes:
    """Return notes of a run that begins now; `kills` is what the kernel's counter says, look after look."""
    looks = iter(kills or (0, 0, 0))
    return RunNotes(CLOCK.monotonic, lambda: next(looks))


def test_the_first_processor_that_told_is_the_one() -> None:
    """The others fail because it did."""
    noted = notes()
    noted.note(ProcessorEvent(event="shard_opened"))
    noted.note(ProcessorEvent(event="processor_failed", error="first"))
    noted.note(ProcessorEvent(event="processor_failed", error="second"))

    assert noted.failure is not None
    assert noted.failure.error == "first"


def test_a_missing_permission_comes_before_what_followed_from_it() -> None:
    """KCL's own error names the action; exit 2, for a person must grant it."""
    noted = notes()
    noted.note_killed(Killed(7, "s"))
    noted.kill_reason = DESERTED
    noted.note_error(DENIED)

    found = noted.evidence()
    assert found is not None
    assert (found.event, found.exit_code) == ("kcl_denied", 2)


def test_an_old_refusal_is_not_why_it_ended() -> None:
    """KCL went on without that permission; nor is an old error."""
    noted = notes()
    noted.note_error(DENIED)
    CLOCK.advance(121)

    assert noted.evidence() is None
    assert noted.last_error() == ""


def test_a_processor_that_is_gone_comes_before_what_the_supervisor_did_about_it() -> None:
    """The daemon was killed because it was deserted, and deserted because of that processor."""
    noted = notes()
    noted.kill_reason = DESERTED
    assert noted.evidence() == DESERTED
    assert noted.evidence() != noted.note_killed(Killed(7, "shardId-000000000001"))
    found = noted.evidence()
    assert found is not None
    assert found.error.startswith("the processor of shardId-000000000001 (pid 7) ended without a last word")


def test_the_kernels_own_count_tells_want_of_memory() -> None:
    """More memory is the way out then, and only then."""
    assert "want of memory" in notes(3, 4).note_killed(Killed(7, "")).error
    assert "memory" not in notes(3, 3).note_killed(Killed(7, "")).next_step


def test_how_long_a_permission_is_known_to_be_missing() -> None:
    """From the first refusal on."""
    noted = notes()
    assert noted.denied_seconds() is None
    noted.note_error(KclError("other"))
    assert noted.denied_seconds() is None
    noted.note_error(DENIED)
    CLOCK.advance(30)
    noted.note_error(DENIED)
    assert noted.denied_seconds() == 30
    assert noted.last_error() == "not authorized"
