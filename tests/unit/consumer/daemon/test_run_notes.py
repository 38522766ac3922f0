"""Why a run of the daemon ended, from what it told."""

from consumer.child_logs.kcl_log import KclError
from consumer.child_logs.processor_log import Killed, ProcessorEvent
from consumer.daemon.run_notes import RunNotes
from tests.fakes.clock import ManualClock

CLOCK = ManualClock()
DENIED = KclError("not authorized", denied=True)
DESERTED = ProcessorEvent(event="daemon_deserted", error="deserted")


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
