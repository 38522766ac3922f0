"""Which raw segments of a day may be deleted: the rules of `minutebook expire`, without any I/O.

A day is expired as a whole. It is refused, with the reason, unless all of this holds:

- it is published, and the verdict of its current generation is clean, about the whole day, and given by the present
  rules; a day with an older verdict must be compacted again first;
- each of its published files exists with its size, because only they remain of the day;
- the objects of the day are exactly those that the verdict was given for: none is new, changed or missing. Once the
  tombstone is written, objects may be missing: an interrupted run deleted them.

The last segment of each chain stays if no later one is known: `restore` starts there, and the next segment must name
it.
"""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from consumer.expire.published_day import JudgedGeneration
from minutebook.errors import FormatError
from minutebook.format.keys import SegmentKey, parse_segment_key
from minutebook.format.position import Position
from minutebook.format.tombstone import Tombstone
from minutebook.index.names import SegmentName
from minutebook.published.verdict import CLEAN, RULES
from minutebook.store.objects import ListedObject


class ExpiryPlan(NamedTuple):
    """The plan for one day; with a `refusal`, nothing is deleted. `tombstone` is the stored one.

    `segments` are all segments of the day by key; `kept` are the keys that stay. `manifest` is the published
    manifest's key; empty where none was read.
    """

    day: dt.date
    generation: str
    segments: Mapping[str, SegmentKey]
    kept: frozenset[str]
    bytes: int
    tombstone: Tombstone | None
    refusal: str | None = None
    manifest: str = ""

    @property
    def deletions(self) -> list[str]:
        """The keys to delete, in order."""
        return [] if self.refusal else sorted(self.segments.keys() - self.kept)


def plan_expiry(
    day: dt.date,
    prefix: str,
    listed: Sequence[ListedObject],
    published: JudgedGeneration | None,
    tombstone: Tombstone | None,
    later: Mapping[str, Position],
) -> ExpiryPlan:
    """Plan one day. `later` holds the greatest first position of each shard in the days after it."""
    segments, foreign = _segments(prefix, listed)
    refusal = _refusal(day, listed, published, tombstone)
    if foreign:
        refusal = f"{foreign[0]} is not a segment: move it away"
    kept = frozenset(tombstone.kept_keys()) if tombstone else _last_of_chains(segments, later)
    return ExpiryPlan(
        day=day,
        generation=published.generation if published else "",
        segments=segments,
        kept=kept,
        bytes=sum(row.size for row in listed),
        tombstone=tombstone,
        refusal=refusal,
        manifest=published.manifest if published else "",
    )


def greatest_firsts(
    segments: Iterable[SegmentKey | SegmentName], known: Mapping[str, Position]
) -> dict[str, Position]:
    """Return the greatest first position of each shard, among `segments` and the `known` ones."""
    greatest = dict(known)
    for segment in segments:
        greatest[segment.shard_id] = max(segment.first, greatest.get(segment.shard_id, segment.first))
    return greatest


def _segments(prefix: str, listed: Sequence[ListedObject]) -> tuple[dict[str, SegmentKey], list[str]]:
    segments: dict[str, SegmentKey] = {}
    foreign: list[str] = []
    for row in listed:
        try:
            segments[row.key] = parse_segment_key(prefix, row.key)
        except FormatError:
            foreign.append(row.key)
    return segments, foreign


def _last_of_chains(segments: Mapping[str, SegmentKey], later: Mapping[str, Position]) -> frozenset[str]:
    greatest = greatest_firsts(segments.values(), later)
    return frozenset(key for key, segment in segments.items() if segment.first == greatest[segment.shard_id])


def _refusal(
    day: dt.date, listed: Sequence[ListedObject], published: JudgedGeneration | None, tombstone: Tombstone | None
) -> str | None:
    if published is None:
        return f"not published: run minutebook compact --date {day}"
    refusal = _unfit(day, published, tombstone)
    if refusal is None and tombstone is not None and tombstone.generation != published.generation:
        return f"published anew after it was expired (generation {published.generation}): look at who did"
    return refusal or _difference(day, {row.key: (row.etag, row.size) for row in listed}, published, tombstone)


def _unfit(day: dt.date, published: JudgedGeneration, tombstone: Tombstone | None) -> str | None:
    """Return why the published files may not replace the segments."""
    if published.verdict != CLEAN:
        return f"the audit's verdict is {published.verdict}: run minutebook audit --date {day}"
    if published.rules != RULES and tombstone is not None:
        return "an earlier version began to expire it, on a verdict by older rules: what is left of it stays"
    remedy = "restore it from a version" if tombstone else f"run minutebook compact --date {day} again"
    missing_file = published.missing_file
    reasons = {
        "its verdict was given by older rules": published.rules != RULES,
        f"its verdict is about the day so far, up to {published.until}": published.until is not None,
        f"{missing_file} was published and is not there as it was written": missing_file is not None,
    }
    return next((f"{reason}: {remedy}" for reason, holds in reasons.items() if holds), None)


def _difference(
    day: dt.date, now: Mapping[str, tuple[str, int]], published: JudgedGeneration, tombstone: Tombstone | None
) -> str | None:
    """Compare the present objects (ETag and size by key) with those that the verdict was given for."""
    fresh = sorted(key for key, version in now.items() if published.inventory.get(key) != version)
    if fresh:
        remedy = "look at who wrote it" if tombstone else f"run minutebook compact --date {day} again"
        return f"{fresh[0]} is newer than what was published: {remedy}"
    gone = sorted(published.inventory.keys() - now.keys())
    if gone and tombstone is None:
        return f"{gone[0]} was published and is gone: run minutebook audit --date {day}"
    missing = sorted(tombstone.kept_keys() - now.keys()) if tombstone else []
    return f"{missing[0]} was to stay and is gone: find out who deletes objects" if missing else None
