"""What is lost or deleted between two jobs of a run: a part of the day is read once more, or the run ends."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from compaction.event_ids.copies import Layout
from compaction.job.context import AuditOptions, FoundCopies
from compaction.local.shuffle import ShuffledHere
from compaction.parquet.plan import TaskSizes
from compaction.shard_groups.local import LocalGroupSource, LocalReadWithIds, LocalShardGroups
from compaction.shard_groups.port import Distribute, GroupValue, Values
from compaction.tasks.task import Order, TaskResult
from minutebook.errors import ObjectVanished
from minutebook.store.places import open_storage
from tests.corpus.auditing import in_process, shuffle_in_process
from tests.corpus.desk import DAY, Mill, repeated
from tests.corpus.event_defects import repeated_later
from tests.corpus.model import Corpus, make_segment
from tests.corpus.object_defects import swapped_lines

Remake = Callable[[], LocalShardGroups]


class LosingSource(LocalGroupSource):
    """Ids are collected once more from the listing on, after `meanwhile`: what was shown before is still there."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        super().__init__(in_process, shuffle_in_process)
        self.meanwhile = meanwhile

    def scatter(self, items: Values) -> LocalShardGroups:
        """Return groups that can be made again."""
        return Lost(self, super().scatter(items), lambda: LocalGroupSource.scatter(self, items))


class Lost(LocalShardGroups):
    """Groups, and how to make them again."""

    def __init__(self, source: LosingSource, made: LocalShardGroups, again: Remake) -> None:
        self.source, self.made, self.again = source, made, again
        super().__init__(in_process, made._values, shuffle_in_process)

    def repartition(
        self, work: Callable[[Values, Any], Iterable[GroupValue]], arguments: Mapping[int, Any], count: int
    ) -> "LocalShardGroups":
        """Repartition the values, now and again."""
        groups = self.made.repartition(work, arguments, count)
        return Lost(self.source, groups, lambda: self.again().repartition(work, arguments, count))

    def union(self, other: LocalShardGroups, count: int) -> LocalShardGroups:
        """Put both together, now and again."""
        assert isinstance(other, Lost)
        both = self.made.union(other.made, count)
        return Lost(self.source, both, lambda: self.again().union(other.again(), count))

    def read_with_ids(
        self,
        order: Callable[[Values, Any], Any],
        show: Distribute,
        arguments: Mapping[int, Any],
        count: int,
        partitions: int,
    ) -> LocalReadWithIds:
        """Read twice: what is shown is the first, and the ids are the second."""
        first = self.made.read_with_ids(order, show, arguments, count, partitions)
        self.source.meanwhile()
        second = self.again().read_with_ids(order, show, arguments, count, partitions)
        return LocalReadWithIds(first.seen, second.shuffled)


@pytest.mark.parametrize("days_back", [0, 1])
def test_ids_of_another_listing_leave_nothing_out(tmp_path: Path, days_back: int) -> None:
    """An object that came meanwhile moves the numbers of others: lines that repeat nothing would be left out."""
    corpus = Corpus(DAY)
    shard = corpus.shards[0]
    repeated_later(corpus, shard, 3)
    mill = Mill(tmp_path, corpus)
    chosen = shard.segments[shard.in_day(DAY)[0] if days_back == 0 else 0]

    def meanwhile() -> None:
        number = str(chosen.metadata.first.sequence - 1)
        record = type(chosen.records[0])(number, 0, "p", chosen.records[0].arrival_ms, b'{"n":"late"}')
        late = make_segment(shard.shard_id, chosen.metadata.minute, [record], chosen.metadata.after, "late")
        open_storage(mill.archive).put_if_absent(late.key, late.body, late.fields, "application/gzip")

    source = LosingSource(meanwhile)
    audit = AuditOptions(event_id="n", published=mill.out, drop_producer_duplicates=True)
    with pytest.raises(ObjectVanished, match="listed again"):
        mill.compact(audit=audit, group_sources=lambda _: source, sizes=TaskSizes(shards=2))
    assert mill.published_rows() == []


class Between(NamedTuple):
    """Ids that were collected, and what happens before anything is written."""

    shuffled: ShuffledHere
    meanwhile: Callable[[], None]

    @property
    def results(self) -> list[TaskResult]:
        """Return the tasks' results."""
        return self.shuffled.results

    def find(self, layout: Layout, orders: Mapping[int, Order]) -> FoundCopies:
        """Find the copies."""
        self.meanwhile()
        return self.shuffled.find(layout, orders)


@pytest.mark.parametrize("drop", [True, False])
def test_an_object_that_goes_before_it_is_written_again_ends_the_run(tmp_path: Path, *, drop: bool) -> None:
    """It was read and judged: a day without its rows would lack them, and no finding would name it."""
    corpus, _ = repeated()
    shard = corpus.shards[0]
    first, *_, last = shard.in_day(DAY)
    if not drop:
        swapped_lines(corpus, shard, last)  # it is merged, and so what its task has read is written again
    mill = Mill(tmp_path, corpus)

    def meanwhile() -> None:
        open_storage(mill.archive).delete([shard.segments[first].key])

    def engine(orders: Sequence[Order]) -> list[TaskResult]:
        found = in_process(orders)
        meanwhile()
        return found

    def shuffle(orders: Sequence[Order]) -> Between:
        return Between(shuffle_in_process(orders), meanwhile)

    audit = AuditOptions(event_id="n" if drop else None, published=mill.out, drop_producer_duplicates=drop)
    with pytest.raises(ObjectVanished, match="changed while the day was rewritten"):
        mill.compact(audit=audit, shuffle=shuffle, engine=engine, accept="known")
    assert mill.published_rows() == []
