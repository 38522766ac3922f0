"""What is told of tasks while they run."""

from collections.abc import Callable, Sequence
from typing import Final

from compaction.tasks.task import Order
from minutebook.format.day import MINUTES_A_DAY, Day

Progress = Callable[[str, int, int], None]
"""Called with (phase, tasks done, tasks in all) while a job runs."""
FINDING: Final = "find repeated events"
WRITING: Final = "write without repeated events"


def no_progress(what: str, done: int, total: int) -> None:
    """Show nothing."""


def phase_of(orders: Sequence[Order]) -> str:
    """Return what tasks do, and for which day: the label of a job in Spark's UI, the progress bar and the log."""
    writes = any(order.out is not None for order in orders)
    merges = any(group.merge for order in orders for group in order.task.groups)
    verb = "merge" if merges else "read and write" if writes else "read"
    if orders[0].ids is not None:
        verb += " with event ids"
    minutes = [order.task.groups[0].objects[0].minute for order in orders if order.task.groups]
    return f"{verb} {Day(max(minutes) // MINUTES_A_DAY)}" if minutes else verb
