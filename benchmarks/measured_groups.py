"""Spark as a source of groups that is measured: what comes back from it to the driver."""

import pickle
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from compaction.event_ids.copies import Layout
from compaction.shard_groups.port import Distribute, GroupValue, ReadWithIds, ShardGroups, Values
from compaction.spark.engine import SparkEngine
from compaction.tasks.task import Order

if TYPE_CHECKING:
    from compaction.job.context import FoundCopies, Shuffled


class Measured:
    """Spark, and what comes back from it: `back` are bytes to the driver, `tasks` are visits of groups."""

    is_local = True  # the store is computed, so it goes along with the works

    def __init__(self, engine: SparkEngine) -> None:
        self._engine = engine
        self.back = self.largest = self.tasks = 0
        self.seconds: dict[str, float] = {}

    def shuffle(self, orders: Sequence[Order]) -> "Shuffled":
        """Weigh the results."""
        found = self._engine.shuffle(orders)
        size = len(pickle.dumps(found.results))
        self.back += size
        self.largest = max(self.largest, size)
        return found

    def scatter(self, items: Sequence[Any]) -> "MeasuredGroups":
        """Return groups of one item each."""
        return MeasuredGroups(self, self._engine.scatter(items))


class MeasuredGroups:
    """Groups of Spark's that are measured when they are asked."""

    def __init__(self, measured: Measured, groups: ShardGroups) -> None:
        self._measured = measured
        self._groups = groups

    def repartition(
        self, work: Callable[[Values, Any], Iterable[GroupValue]], arguments: Mapping[int, Any], count: int
    ) -> "MeasuredGroups":
        """Pass on."""
        self._measured.tasks += len(arguments)
        return MeasuredGroups(self._measured, self._groups.repartition(work, arguments, count))

    def collect(self, work: Callable[[Values, Any], Any], arguments: Mapping[int, Any]) -> dict[int, Any]:
        """Pass on, and weigh what came back."""
        begin = time.perf_counter()
        found = self._groups.collect(work, arguments)
        name = work.__name__
        self._measured.seconds[name] = self._measured.seconds.get(name, 0.0) + time.perf_counter() - begin
        self.weigh(found)
        self._measured.tasks += len(arguments)
        return found

    def weigh(self, found: Mapping[int, Any]) -> None:
        """Count what came back."""
        size = sum(len(pickle.dumps(one)) for one in found.values())
        self._measured.back += size
        self._measured.largest = max(self._measured.largest, size)

    def read(
        self, order: Callable[[Values, Any], Any], show: Distribute, arguments: Mapping[int, Any], count: int
    ) -> "MeasuredGroups":
        """Pass on."""
        return MeasuredGroups(self._measured, self._groups.read(order, show, arguments, count))

    def union(self, other: "MeasuredGroups", count: int) -> "MeasuredGroups":
        """Pass on."""
        return MeasuredGroups(self._measured, self._groups.union(other._groups, count))  # noqa: SLF001 - of this class

    def read_with_ids(
        self,
        order: Callable[[Values, Any], Any],
        show: Distribute,
        arguments: Mapping[int, Any],
        count: int,
        partitions: int,
    ) -> "MeasuredReading":
        """Pass on."""
        self._measured.tasks += len(arguments)
        collected = self._groups.read_with_ids(order, show, arguments, count, partitions)
        return MeasuredReading(MeasuredGroups(self._measured, collected.seen), collected)


class MeasuredReading(NamedTuple):
    """Ids that wait, beside measured groups."""

    seen: MeasuredGroups
    collected: ReadWithIds

    def find(self, layout: Layout, again: None, count: int) -> "FoundCopies":
        """Pass on, and weigh the tallies."""
        found: FoundCopies = self.collected.find(layout, again, count)
        self.seen.weigh(found.shards)
        return found
