"""What a Spark job is for, in words: Spark's UI, the progress bar and the log show it."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from compaction.tasks.task import Order
from minutebook.format.day import MINUTES_A_DAY, Day


def phase_of(orders: Sequence[Order]) -> str:
    """Say what tasks of a kind do, and for which day."""
    writes = any(order.out is not None for order in orders)
    merges = any(group.merge for order in orders for group in order.task.groups)
    verb = "merge" if merges else "read and write" if writes else "read"
    if orders[0].ids is not None:
        verb += " with event ids"
    minutes = [order.task.groups[0].objects[0].minute for order in orders if order.task.groups]
    return f"{verb} {Day(max(minutes) // MINUTES_A_DAY)}" if minutes else verb


_WORDS: Final = {
    "list_piece": "list the day",
    "ask_heads": "ask for metadata",
    "deal_tasks": "cut tasks",
    "mark_writers": "look for copies",
    "measure": "measure tasks",
    "repeated_writers": "look for copies",
    "suspects": "look for copies",
    "needs": "look for neighbours",
    "judge": "judge shards",
    "wanted_groups": "choose what is written again",
}


def phase_of_work(work: Callable[..., Any], otherwise: str = "read the day") -> str:
    """Say what a work on groups of shards is for."""
    return _WORDS.get(getattr(work, "__name__", ""), otherwise)
