"""Spark without Spark: what a partition gives to others, what becomes of an error, and whose memory Arrow takes."""

import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Self

import pytest

from compaction.audit.shards import group_view, misplaced, objects
from compaction.inventory import day_objects
from compaction.shard_groups.port import GroupValue, Values
from compaction.spark.failures import Alarm, TryAgain, failure_in, guarded
from compaction.spark.session import with_tries
from compaction.spark.shuffle import Jobs
from compaction.spark.spark_groups import PHASES, SparkShardGroups, phase_of_work
from compaction.tasks.failures import Failure
from minutebook.errors import (
    FormatError,
    MinutebookError,
    ObjectVanished,
    OutcomeUnknown,
    StoreRefused,
    StoreUnavailable,
)


class Rows:
    """Partitions that are made one at a time."""

    def __init__(self) -> None:
        self.work: Callable[[int, Iterable[GroupValue]], Iterable[GroupValue]] = lambda _, rows: rows

    def mapPartitionsWithIndex(self, work: Callable[[int, Iterable[GroupValue]], Iterable[GroupValue]]) -> Self:  # noqa: N802 - Spark's name
        """Keep the work."""
        self.work = work
        return self

    def partitionBy(self, count: int, partition: object) -> Self:  # noqa: N802 - Spark's name
        """Stay as they are."""
        del count, partition
        return self


class Sent(NamedTuple):
    """What a task gets along."""

    value: Any


class Context:
    """The part of Spark's context that repartitioning uses."""

    def broadcast(self, value: object) -> Sent:
        """Return what tasks read."""
        return Sent(value)

    def accumulator(self, value: object, param: object) -> "Context":
        """Return what tasks add to."""
        del value, param
        return self

    def add(self, told: object) -> None:
        """Hear nothing."""


def never(what: str, rows: object, numbers: Sequence[int], work: object, alarm: Alarm) -> list[object]:
    """Run no job."""
    raise AssertionError((what, rows, numbers, work, alarm))


def test_values_for_a_group_that_does_not_exist_are_an_error() -> None:
    """As in one process; Spark would move them to another group, modulo the number of groups."""
    context, rows = Context(), Rows()

    def behind(values: Values, argument: int) -> list[GroupValue]:
        return [(argument, value) for value in values]

    alarm = Alarm(context, "tag")
    SparkShardGroups(Jobs(context, lambda: alarm, never), alarm, rows).repartition(behind, {0: 3, 1: 4}, 4)
    assert list(rows.work(0, [(0, "value")])) == [(3, "value")]
    with pytest.raises(ValueError, match="no group 4 of 4"):
        rows.work(1, [(1, "value")])


def test_a_failure_goes_wherever_values_were_to_go() -> None:
    """A group that is made again alone must not lack values, and count as whole."""
    context, rows = Context(), Rows()

    def gone(values: Values, argument: object) -> list[GroupValue]:
        raise ObjectVanished(f"{values} {argument}")

    alarm = Alarm(context, "tag")
    SparkShardGroups(Jobs(context, lambda: alarm, never), alarm, rows).repartition(gone, {2: "asked"}, 4)
    given = list(rows.work(2, [(2, "value")]))
    assert [group for group, _ in given] == [0, 1, 2, 3]
    assert {failure.kind for _, failure in given if isinstance(failure, Failure)} == {"ObjectVanished"}
    assert list(rows.work(1, [(1, "value")])) == []


def test_each_label_is_of_a_function_that_runs_on_groups() -> None:
    """A renamed function would silently lose its label."""
    functions = vars(day_objects) | vars(objects) | vars(group_view) | vars(misplaced)
    labels = {name: phase_of_work(functions[name]) for name in PHASES}
    assert labels == PHASES
    assert phase_of_work(len) == "read the day"


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


@pytest.mark.parametrize(
    ("environment", "pool"), [({}, "system"), ({"ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}, "mimalloc")]
)
def test_a_worker_takes_the_systems_memory_unless_told_otherwise(environment: dict[str, str], pool: str) -> None:
    """What a task needs is imported as a worker does it: our choice must come before Arrow."""
    code = "import compaction.spark, pyarrow; print(pyarrow.default_memory_pool().backend_name)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout.strip() == pool
