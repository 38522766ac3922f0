"""Find the last segments of shards that were quiet before a day, by what published days say instead of by listing.

Day by day, backwards from the judged one. A published day that can be trusted names the last segment of each shard:

    a segment of that day ...................... one HEAD reads it
    an earlier segment ......................... nothing of the shard is on that day: its names are not listed
    another segment than a later day named ..... something came in between: all names are listed
    the day cannot be trusted, or does not
    know the shard ............................. its names are listed

A day that was republished because of a late object breaks the agreement of the days. No day shows a late object that
nobody noticed: therefore the segment counts only when the judged day follows its end, by links or by evidence, and
when it is still stored.
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
"""Returns a segment as it is stored; None when it is gone or is another one."""


class QuietShards:
    """The shards that are looked up in published days. `predecessors` is where each chain stood before the day.

    `links` are the segments that were found. `must_be_searched`: days that were skipped must be listed after all.
    """

    def __init__(self, published: LastSegments, predecessors: Mapping[str, Position], find: Find) -> None:
        self._published = published
        self._predecessors = dict(predecessors)
        self._find = find
        self._claims: dict[str, LastSegment] = {}
        self.links: list[ChainLink] = []
        self.must_be_searched = False

    def pass_day(self, day: Day, missing: Iterable[str]) -> set[str]:
        """Look up the missing shards in a day; returns the shards whose names of the day must be listed."""
        open_shards = [shard for shard in missing if shard in self._predecessors]
        ends = self._published(day) if open_shards else None
        unsure = {shard for shard in missing if shard not in self._predecessors}
        for shard in open_shards:
            end = None if ends is None else ends.get(shard)
            if end is None:
                unsure.add(shard)
            elif end.last != self._predecessors[shard] or self._claims.setdefault(shard, end)[:2] != end[:2]:
                self._distrust(shard)
                unsure.add(shard)
        named = [shard for shard in open_shards if shard in self._claims]
        self._read([shard for shard in named if day.number <= self._claims[shard].minute // MINUTES_A_DAY])
        return unsure

    def read_rest(self) -> None:
        """Read the named segments of days before those that were passed."""
        self._read(list(self._claims))

    def _read(self, shards: list[str]) -> None:
        links = in_parallel(lambda shard: self._find(self._claims[shard]), shards)
        for shard, link in zip(shards, links, strict=True):
            if link is None or link.metadata.shard_id != shard:
                self._distrust(shard)
                continue
            self.links.append(link)
            del self._predecessors[shard], self._claims[shard]

    def _distrust(self, shard: str) -> None:
        """Trust no published day about a shard; days that were skipped must be listed after all."""
        self.must_be_searched |= self._claims.pop(shard, None) is not None
        del self._predecessors[shard]
