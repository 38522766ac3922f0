"""Spark's UI, the progress bar and the log name each job by what it is for."""

from collections.abc import Callable
from typing import Any

import pytest
from compaction.spark.phases import phase_of_work

from compaction.audit.shards import group_view, misplaced, objects
from compaction.inventory.day_objects import list_piece


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (list_piece, "list the day"),
        (objects.ask_heads, "ask for metadata"),
        (objects.measure_tasks, "measure tasks"),
        (objects.distribute_tasks, "cut tasks"),
        (misplaced.mark_writers, "look for copies"),
        (misplaced.repeated_writers, "look for copies"),
        (misplaced.suspects, "look for copies"),
        (group_view.neighbour_queries, "look for neighbours"),
        (group_view.judge_group, "judge shards"),
        (group_view.groups_to_redo, "choose what is written again"),
    ],
)
def test_a_work_on_groups_is_named(work: Callable[..., Any], words: str) -> None:
    """By the name of its function: a function that is renamed takes its words along."""
    assert phase_of_work(work, "") == words
