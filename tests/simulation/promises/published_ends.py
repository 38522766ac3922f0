"""Where chains stood at the end of each day, as the nightly job writes it down in the night behind it, once.

What comes late, goes, or is restored afterwards makes it stale. Nothing that an audit says may depend on that.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from minutebook.errors import FormatError
from minutebook.format.day import Day
from minutebook.format.keys import parse_segment_key
from minutebook.format.metadata import SegmentMetadata
from minutebook.index.last_segments import LastSegment
from tests.simulation.services.bucket import PREFIX

if TYPE_CHECKING:
    from tests.simulation.promises.bucket_view import BucketView


class PublishedEnds:
    """Implements `minutebook.index.last_segments.LastSegments`; a quiet shard is carried on from day to day."""

    def __init__(self) -> None:
        self._days: dict[Day, Mapping[str, LastSegment]] = {}

    def __call__(self, day: Day) -> Mapping[str, LastSegment] | None:
        """Return what was written down of a day."""
        return self._days.get(day)

    def note(self, view: "BucketView", day: Day) -> None:
        """Write down where chains stand at the end of a day, once."""
        if day in self._days:
            return
        ends = dict(self._days.get(day.shift(-1), {}))
        for row in view.list_objects(day.path(PREFIX)):
            head = view.head(row.key)
            try:
                parse_segment_key(PREFIX, row.key)
                found = None if head is None else SegmentMetadata.decode(head.metadata)
            except FormatError:
                continue
            if found is not None and (found.shard_id not in ends or found.last > ends[found.shard_id].last):
                ends[found.shard_id] = LastSegment(row.key, found.last, found.minute, found.after)
        self._days[day] = ends
