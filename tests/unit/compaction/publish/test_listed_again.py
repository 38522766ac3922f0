"""Spark's files are lost between two jobs, and a part of the day is listed, numbered and read once more."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from compaction.job.context import AuditOptions
from compaction.parquet.plan import TaskSizes
from compaction.shard_groups.local import LocalCollected, LocalDealer, LocalDealt
from compaction.shard_groups.port import Given, Show, Values
from minutebook.errors import ObjectVanished
from minutebook.store.places import open_storage
from tests.corpus.auditing import in_process, shuffle_in_process
from tests.corpus.desk import DAY, Mill
from tests.corpus.event_defects import repeated_later
from tests.corpus.model import Corpus, make_segment

Remake = Callable[[], LocalDealt]


class LosingDealer(LocalDealer):
    """Ids are collected once more from the listing on, after `meanwhile`: what was shown before is still there."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        super().__init__(in_process, shuffle_in_process)
        self.meanwhile = meanwhile

    def spread(self, items: Values) -> LocalDealt:
        """Return buckets that know how to be made again."""
        return Lost(self, super().spread(items), lambda: LocalDealer.spread(self, items))


class Lost(LocalDealt):
    """Buckets, and how to make them again."""

    def __init__(self, dealer: LosingDealer, made: LocalDealt, again: Remake) -> None:
        self.dealer, self.made, self.again = dealer, made, again
        super().__init__(in_process, made._values, shuffle_in_process)

    def deal(
        self, work: Callable[[Values, Any], Iterable[Given]], arguments: Mapping[int, Any], count: int
    ) -> "LocalDealt":
        """Deal values on, now and again."""
        dealt = self.made.deal(work, arguments, count)
        return Lost(self.dealer, dealt, lambda: self.again().deal(work, arguments, count))

    def plus(self, other: LocalDealt, count: int) -> LocalDealt:
        """Put both together, now and again."""
        assert isinstance(other, Lost)
        both = self.made.plus(other.made, count)
        return Lost(self.dealer, both, lambda: self.again().plus(other.again(), count))

    def collect(
        self,
        order: Callable[[Values, Any], Any],
        show: Show,
        arguments: Mapping[int, Any],
        count: int,
        partitions: int,
    ) -> LocalCollected:
        """Read twice: what is shown is the first, and the ids are the second."""
        first = self.made.collect(order, show, arguments, count, partitions)
        self.dealer.meanwhile()
        second = self.again().collect(order, show, arguments, count, partitions)
        return LocalCollected(first.seen, second.shuffled)


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

    dealer = LosingDealer(meanwhile)
    audit = AuditOptions(event_id="n", published=mill.out, drop_producer_duplicates=True)
    with pytest.raises(ObjectVanished, match="listed again"):
        mill.compact(audit=audit, dealers=lambda _: dealer, sizes=TaskSizes(shards=2))
    assert mill.published_rows() == []
