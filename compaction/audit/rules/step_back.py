"""By how much arrival times of a shard step back, in the order of its positions. Pure.

A record's step back is the greatest arrival time before it less its own. AWS promises no bound, and every proof
assumes `ARRIVAL_STEP_BACK_MS`: a record that steps back further may have arrived in a time that was called complete.
Segments hold one minute, so greater steps lie between them: their metadata shows these at every level. Steps inside a
segment are known where its lines were read.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from compaction.inventory.neighbours import ChainLink
from compaction.inventory.segments import SegmentFacts
from compaction.verdict.findings import Code, Finding, finding
from minutebook.format.arrival import ARRIVAL_STEP_BACK_MS
from minutebook.format.minute import minute_text

STEP_BACK_WARNING_MS: Final = ARRIVAL_STEP_BACK_MS // 2


class StepBack(NamedTuple):
    """The greatest step back of one kind: that of a record in `link`, behind a record in `before`."""

    ms: int
    before: ChainLink
    link: ChainLink


def between_segments(links: Sequence[ChainLink], is_inside: Callable[[ChainLink], bool]) -> StepBack | None:
    """Return the greatest step back between two segments of which at least one lies in the scope.

    Segments that share positions are not compared with each other: they hold the same records.
    """
    ends = sorted(links, key=lambda link: link.metadata.last, reverse=True)
    latest: ChainLink | None = None
    latest_inside: ChainLink | None = None
    greatest: StepBack | None = None
    for link in sorted(links, key=lambda link: link.metadata.first):
        while ends and ends[-1].metadata.last < link.metadata.first:
            ended = ends.pop()
            latest = _later(latest, ended)
            latest_inside = _later(latest_inside, ended) if is_inside(ended) else latest_inside
        before = latest if is_inside(link) else latest_inside
        if before is not None:
            ms = before.metadata.arrival_max_ms - link.metadata.arrival_min_ms
            if ms > (0 if greatest is None else greatest.ms):
                greatest = StepBack(ms, before, link)
    return greatest


def inside_segments(links: Iterable[ChainLink], facts: Mapping[str, SegmentFacts]) -> StepBack | None:
    """Return the greatest step back inside a segment whose lines were read."""
    steps = ((facts[link.key].step_back_ms, link) for link in links if link.key in facts)
    ms, link = max(steps, key=lambda step: step[0], default=(0, None))
    return None if link is None or ms == 0 else StepBack(ms, link, link)


def step_back_findings(shard: str, steps: Iterable[StepBack]) -> list[Finding]:
    """Return findings about a shard's greatest steps: none up to 30 s, warnings up to 60 s, and unknowns beyond."""
    return [
        finding(
            Code.ARRIVAL_STEP_BACK,
            f"arrival times step back by {step.ms / 1000:.3f} s in the order of positions; what is proven of a time "
            f"assumes {ARRIVAL_STEP_BACK_MS // 1000} s at most",
            severity="unknown" if step.ms > ARRIVAL_STEP_BACK_MS else "warning",
            shard=shard,
            minute=minute_text(step.link.metadata.minute),
            keys=dict.fromkeys([step.link.key, step.before.key]),
            positions=[step.link.metadata.first],
        )
        for step in steps
        if step.ms > STEP_BACK_WARNING_MS
    ]


def _later(one: ChainLink | None, other: ChainLink) -> ChainLink:
    return other if one is None or other.metadata.arrival_max_ms > one.metadata.arrival_max_ms else one
