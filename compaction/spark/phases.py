"""What a Spark job is for, in words: Spark's UI, the progress bar and the log show it."""

from collections.abc import Sequence

from archive.format.day import MINUTES_A_DAY, Day
from compaction.tasks.task import Order


def phase_of(orders: Sequence[Order]) -> str:
    """Say what tasks of a kind do, and for which day."""
    writes = any(order.out is not None for order in orders)
    merges = any(group.merge for order in orders for group in order.task.groups)
    verb = "merge" if merges else "read and write" if writes else "read"
    if orders[0].ids is not None:
        verb += " with event ids"
    minutes = [order.task.groups[0].objects[0].minute for order in orders if order.task.groups]
    return f"{verb} {Day(max(minutes) // MINUTES_A_DAY)}" if minutes else verb
