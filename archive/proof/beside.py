"""Where stamps step back over the edge of what was listed: the segments that lie on its other side.

The stamps of one shard step back by a minute at most. So what a segment stands on may carry a later minute than it,
on the day after. The other way round, a search that goes back day by day comes to it by itself.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from archive.coverage.evidence import STEP_BACK_MINUTES
from archive.format.position import Position
from archive.proof.names import Named, SegmentNames


def stood_on(names: SegmentNames, chosen: Sequence[Named], ends: Mapping[str, AbstractSet[Position]]) -> list[Named]:
    """Return what chosen segments stand on, by shard not among `ends`, and what lies in later minutes than theirs."""
    found: dict[Named, None] = {}
    while chosen:
        later = (
            name
            for lone in chosen
            if _stands_on_unknown(names, lone, ends.get(lone.shard_id, frozenset()))
            for step in STEP_BACK_MINUTES
            for name in names.at(lone.minute + step, lone.shard_id)
            if name.first < lone.first
        )
        chosen = [name for name in dict.fromkeys(later) if name not in found]
        found |= dict.fromkeys(chosen)
    return list(found)


def _stands_on_unknown(names: SegmentNames, name: Named, ends: AbstractSet[Position]) -> bool:
    afters = (link.after for _, link in names.links([name]))
    return any(isinstance(after, Position) and after not in ends for after in afters)
