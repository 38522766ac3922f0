"""Boundaries under chaos: whatever one says was archived when it was stored, and they come in order.

A watch lists the markers first and the segments behind them, again and again, past the proxies. So a segment that it
has not seen in the round in which it sees a marker was not there when the marker was stored.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from demo.readback import StoredSegment
from minutebook.errors import MinutebookError
from minutebook.format.boundaries import COMPLETE, CompleteMarker, decode_complete, parse_marker_key
from minutebook.format.minute import iso_time
from minutebook.store.objects import ObjectStore
from tests.e2e.harness import PREFIX

EVERY_SECONDS: Final = 60


class SeenMarker(NamedTuple):
    """A boundary's marker, and the round in which it was seen first."""

    marker: CompleteMarker
    round: int


class BoundaryWatch:
    """What was there when. `store` is not disturbed by any act but the death of S3: such a round does not count."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._round = 0
        self._segments: dict[str, int] = {}
        self._markers: dict[str, SeenMarker] = {}

    def look(self) -> None:
        """Look once."""
        try:
            markers = {
                key: decode_complete(stored.body, key)
                for row in self._store.list_objects(f"{PREFIX}{COMPLETE}")
                if (key := row.key) not in self._markers and _is_boundary(key)
                if (stored := self._store.get(key)) is not None
            }
            segments = [row.key for row in self._store.list_objects(f"{PREFIX}2")]
        except MinutebookError:
            return
        self._round += 1
        for key in segments:
            self._segments.setdefault(key, self._round)
        for key, marker in markers.items():
            self._markers[key] = SeenMarker(marker, self._round)

    def published(self) -> list[CompleteMarker]:
        """Return the boundaries in order."""
        return sorted((seen.marker for seen in self._markers.values()), key=lambda marker: marker.boundary_ms)

    def judge(self, segments: Iterable[StoredSegment]) -> list[str]:
        """Return what was not true, in words; `segments` are all of the archive in the end."""
        wrong = [
            f"{after.boundary} comes after {before.boundary}"
            for before, after in pairwise(self.published())
            if after.boundary_ms - before.boundary_ms != EVERY_SECONDS * 1000 and after.since == before.since
        ]
        stored = sorted(segments, key=lambda segment: segment.key)
        return [*wrong, *(text for seen in self._markers.values() for text in self._missing(seen, stored))]

    def _missing(self, seen: SeenMarker, segments: Sequence[StoredSegment]) -> list[str]:
        """Return the records that a marker calls archived, in segments that came later."""
        marker = seen.marker
        late = [segment for segment in segments if self._segments.get(segment.key, seen.round + 1) > seen.round]
        return [
            f"{marker.boundary} calls {record.ref} archived, which arrived at {iso_time(record.arrival_ms)}"
            for segment in late
            for record in segment.records
            if marker.since_ms <= record.arrival_ms < marker.boundary_ms
            and not _is_named(marker, segment.metadata.shard_id, record.arrival_ms)
        ]


def _is_boundary(key: str) -> bool:
    parsed = parse_marker_key(PREFIX, key)
    return parsed is not None and parsed.withdrawal is None


def _is_named(marker: CompleteMarker, shard_id: str, arrival_ms: int) -> bool:
    spans = (gap.times_ms for gap in marker.gaps if gap.shard == shard_id)
    return any(begin_ms <= arrival_ms < end_ms for begin_ms, end_ms in spans)
