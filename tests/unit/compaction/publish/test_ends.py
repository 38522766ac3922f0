"""What a published day says of its shards' last segments, and what becomes of a word that is false or missing."""

from pathlib import Path
from typing import NoReturn

import pytest

from compaction.inventory.neighbours import NeighbourQuery, find_neighbours
from compaction.publish.ends import PublishedEnds
from minutebook.errors import StoreError, StoreRefused, StoreUnavailable
from minutebook.index.last_segments import LastSegment
from tests.corpus.model import PREFIX
from tests.fakes.archive_scene import end_marker
from tests.unit.compaction.inventory.quiet_scene import BUSY, FIRST, OUT, QUIET, Nights


def test_a_published_day_that_names_another_segment_is_not_believed(tmp_path: Path) -> None:
    """It names the position that the day stands on, and the segment before the one that ends there."""
    nights = Nights(tmp_path, 1)
    one, two = nights.tail, nights.scene.segment(QUIET, nights.day(1).first_minute + 30)
    lie = LastSegment(one.key, two.metadata.last, one.metadata.minute, one.metadata.after)
    need = NeighbourQuery(None, None, before=True, after=False, stands_on=two.metadata.last)
    asked = nights.context().archive, PREFIX, nights.day(3), {QUIET: need}
    found = find_neighbours(*asked, published=lambda _: {QUIET: lie})
    assert [link.key for link in found.links[QUIET]] == [two.key]


@pytest.mark.parametrize("error", [StoreRefused, StoreUnavailable])
def test_an_output_out_of_reach_costs_requests_and_nothing_else(error: type[StoreError]) -> None:
    """An audit may have no right to read it: it is asked once, and names are listed."""
    asked: list[int] = []

    def open_output() -> NoReturn:
        asked.append(1)
        raise error("out of reach", next_step="none")

    ends = PublishedEnds(open_output, OUT)
    assert [ends(FIRST), ends(FIRST.shift(1)), ends(FIRST)] == [None, None, None]
    assert len(asked) == 1


def test_a_shard_that_was_closed_is_told_as_closed(tmp_path: Path) -> None:
    """On the day on which it ended."""
    nights = Nights(tmp_path, 2)
    last = nights.day(1)
    nights.scene.put_end(end_marker(QUIET, nights.tail.metadata.last, written_at=f"{last}T12:00:00.000Z"))
    nights.compact(last)
    ends = nights.ends()(last)
    assert ends is not None
    assert {shard: end.is_closed for shard, end in ends.items()} == {QUIET: True, BUSY: False}
