"""Shards that were quiet before a day: published days say where their chains stood, and no names need be listed.

Day by day, outward from the judged one. A published day that can be believed names the last segment of each shard:

    a segment of that very day ........ it is asked for, by one HEAD
    an earlier one .................... nothing of the shard lies on that day: its names are passed over
    another one than a later day said . something came in between: all names are looked at
    the day is not to be believed, or
    does not know the shard ........... its names are looked at

So days that agree are as good as their names were when each of them was judged, and a day that was published anew
because of a late object breaks their agreement. What came late and nobody noticed, no day tells. Therefore the
segment counts only when the judged day itself stands on its end, by links or by evidence, and when it is still there.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from minutebook.format.day import MINUTES_A_DAY, Day
from minutebook.format.position import Position
from minutebook.index.last_segments import LastSegment, LastSegments
from minutebook.store.parallel import in_parallel

if TYPE_CHECKING:
    from compaction.inventory.neighbours import ChainLink

Find = Callable[[LastSegment], "ChainLink | None"]
"""Returns a segment as it is stored; None when it is gone, or is not the one that is named."""


class QuietShards:
    """The shards of which published days are asked. `stood_on` is where each chain stood, as the judged day says."""

    def __init__(self, published: LastSegments, stood_on: Mapping[str, Position], find: Find) -> None:
        self._published = published
        self._stood_on = dict(stood_on)
        self._find = find
        self._claims: dict[str, LastSegment] = {}
        self.found: list[ChainLink] = []
        self.must_be_searched = False

    def pass_day(self, day: Day, missing: Iterable[str]) -> set[str]:
        """Ask a day for the shards that are still missing; returns those whose names of the day must be looked at."""
        waiting = [shard for shard in missing if shard in self._stood_on]
        said = self._published(day) if waiting else None
        unsure = {shard for shard in missing if shard not in self._stood_on}
        for shard in waiting:
            end = None if said is None else said.get(shard)
            if end is None:
                unsure.add(shard)
            elif end.last != self._stood_on[shard] or self._claims.setdefault(shard, end)[:2] != end[:2]:
                self._refuse(shard)
                unsure.add(shard)
        self._ask(shard for shard in waiting if shard in self._claims and self._is_of(shard, day))
        return unsure

    def ask_for_the_rest(self) -> None:
        """Ask for the segments of which no day came that holds them: they lie further back than days are searched."""
        self._ask(list(self._claims))

    def _is_of(self, shard: str, day: Day) -> bool:
        return day.number <= self._claims[shard].minute // MINUTES_A_DAY

    def _ask(self, shards: Iterable[str]) -> None:
        asked = list(shards)
        for shard, link in zip(asked, in_parallel(lambda one: self._find(self._claims[one]), asked), strict=True):
            if link is None or link.metadata.shard_id != shard:
                self._refuse(shard)
                continue
            self.found.append(link)
            del self._stood_on[shard], self._claims[shard]

    def _refuse(self, shard: str) -> None:
        """Believe no published day of a shard; days that were passed over must be searched after all."""
        self.must_be_searched |= self._claims.pop(shard, None) is not None
        del self._stood_on[shard]
