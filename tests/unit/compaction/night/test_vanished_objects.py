"""Objects that go between the reading of a day and the second writing of what must not stay as it is."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from compaction.event_ids.copies import Layout
from compaction.job.context import AuditOptions, FoundCopies
from compaction.tasks.task import Order, TaskResult
from minutebook.errors import ObjectVanished
from minutebook.store.places import open_storage
from tests.corpus.auditing import InProcess, in_process, shuffle_in_process
from tests.corpus.desk import DAY, Mill, repeated
from tests.corpus.object_defects import swapped_lines


class Between(NamedTuple):
    """Ids that were collected, and what happens before anything is written."""

    shuffled: InProcess
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
        mill.compact(audit=audit, shuffle=shuffle, engine=engine, accept_defects=True)
    assert mill.published_rows() == []
