"""The port that brings the event ids of many tasks together: Spark's shuffle, or a loop."""

from collections.abc import Callable, Sequence
from typing import Protocol

from compaction.tasks.event_ids import Layout
from compaction.tasks.task import Order, Outcome


class Exchanged(Protocol):
    """Tasks that were run, and their ids, dealt out in partitions."""

    @property
    def outcomes(self) -> list[Outcome]:
        """Return the tasks' outcomes, in order."""
        ...

    def copies(self, layout: Layout) -> list[bytes]:
        """Return the copies of each partition; see `compaction.tasks.event_ids.find_copies`."""
        ...


class NothingExchanged:
    """What no task has given; implements `Exchanged`."""

    @property
    def outcomes(self) -> list[Outcome]:
        """Return none."""
        return []

    def copies(self, layout: Layout) -> list[bytes]:
        """Return none."""
        del layout
        return []


Exchange = Callable[[Sequence[Order]], Exchanged]
"""Runs tasks that ask for ids, all for the same number of partitions."""
PARTITION_BYTES = 32 << 20
"""Compressed bytes of segments whose ids share a partition: a million records or two, 32 bytes each."""


def partitions_for(size: int) -> int:
    """Return how many partitions the ids of `size` compressed bytes take."""
    return max(1, -(-size // PARTITION_BYTES))
