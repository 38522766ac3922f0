"""What a partition of Spark gives to others, without Spark: its shuffle may be lost, and made again by halves."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Self

import pytest

from compaction.audit.shards import group_view, misplaced, objects
from compaction.inventory import day_objects
from compaction.shard_groups.port import GroupValue, Values
from compaction.spark.failures import Alarm, Failure
from compaction.spark.shuffle import Jobs
from compaction.spark.spark_groups import PHASES, SparkShardGroups, phase_of_work
from minutebook.errors import ObjectVanished


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
