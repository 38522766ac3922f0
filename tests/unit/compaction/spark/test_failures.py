"""What becomes of an error that ends a task: tried again, or the end of the job."""

import pytest

from compaction.spark.failures import Failure, TryAgain, failure_in, guarded
from compaction.spark.session import with_tries
from minutebook.errors import FormatError, MinutebookError, OutcomeUnknown, StoreRefused, StoreUnavailable


def _raising(error: Exception) -> object:
    raise error


@pytest.mark.parametrize("kind", [StoreUnavailable, OutcomeUnknown])
def test_what_may_have_passed_is_left_to_sparks_next_try(kind: type[MinutebookError]) -> None:
    """A returned value would be a success to Spark; nobody is told, because nothing is decided."""
    told: list[Failure] = []
    with pytest.raises(TryAgain, match="503 SlowDown") as raised:
        guarded(lambda: _raising(kind("503 SlowDown", next_step="wait")), told.extend)
    assert told == []
    failure = failure_in(f'Job aborted: Task 3 failed 4 times:\nTraceback\n  File "x"\n{raised.value}\n\tat java')
    assert failure == Failure(kind.__name__, "503 SlowDown", "wait")


@pytest.mark.parametrize("kind", [StoreRefused, FormatError])
def test_what_cannot_pass_is_told_at_once(kind: type[MinutebookError]) -> None:
    """No second try of a task whose access is denied."""
    told: list[Failure] = []
    result = guarded(lambda: _raising(kind("no", next_step="grant it")), told.extend)
    assert told == [result] == [Failure(kind.__name__, "no", "grant it")]


def test_an_error_comes_back_as_its_kind() -> None:
    """With its exit code and its next step; one that this version does not know is an error all the same."""
    error = Failure("StoreRefused", "no", "grant it").error()
    assert (type(error), error.exit_code, error.next_step) == (StoreRefused, 2, "grant it")
    assert type(Failure("Unheard", "of", "").error()) is MinutebookError


def test_an_error_that_is_not_ours_is_sparks() -> None:
    """A lost worker or a full disk: the task is tried again, and the last error is Spark's to tell."""
    with pytest.raises(OSError, match="disk"):
        guarded(lambda: _raising(OSError("disk full")), [].extend)
    assert failure_in("Job aborted: ExecutorLostFailure (executor 3 exited)") is None


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,1]", "local[2,1]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_a_local_master_tries_a_task_again(given: str, used: str) -> None:
    """As clusters do; what a person asked for stays."""
    assert with_tries(given) == used
