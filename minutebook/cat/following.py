"""Segments as they are committed (`minutebook cat --follow`): one LIST a poll, with StartAfter.

Keys begin with their minute, so a LIST that starts after the first minute of a window returns what the window holds
of all shards, 1,000 keys a page. The window reaches back LATE_MINUTES, because a shard that lags commits its minutes
late; what is committed later than that is not shown.

A shard commits a segment after its predecessor, so an archive holds all that is before a listed segment. A LIST of
several pages may yet miss a predecessor, which is committed behind the page of its minute. So a segment is shown when
the **next** LIST has returned: that one began after the segment was there, and has all that is before it.
"""

import os.path
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from minutebook.cat.request import LATE_MINUTES, SKEW_MS, CatRequest
from minutebook.clock import Clock
from minutebook.format.minute import minute_of, minute_path
from minutebook.format.position import Position
from minutebook.segments.ahead import NothingYet, Upcoming
from minutebook.segments.listing import SegmentToRead, linked, of_shard, parse_listing, position_order
from minutebook.segments.merging import Problems
from minutebook.store.retrying import RetryingStorage

_POLL_SECONDS: Final = 5
_MOST_OF_THE_TIME: Final = 5
"""How many times as long as its LIST a poll waits: those of thousands of shards take seconds."""


class Pace:
    """When to look again, and when to end."""

    def __init__(self, clock: Clock, stop: threading.Event, check_reader: Callable[[], None]) -> None:
        self.clock = clock
        self._stop = stop
        self._check_reader = check_reader

    @property
    def is_over(self) -> bool:
        """Whether to end."""
        return self._stop.is_set()

    def wait(self, seconds: float) -> None:
        """Wait for the next poll or the end; raises BrokenPipeError if nobody reads the output any more."""
        self._stop.wait(seconds)
        self._check_reader()


class FollowedSegments:
    """An `Upcoming` of the segments of the past, then of those that are committed, until the pace is over."""

    def __init__(
        self,
        storage: RetryingStorage,
        prefix: str,
        request: CatRequest,
        past: Upcoming[SegmentToRead],
        problems: Problems,
        pace: Pace,
    ) -> None:
        self._storage = storage
        self._prefix = prefix
        self._request = request
        self._past: Upcoming[SegmentToRead] | None = past
        self._problems = problems
        self._pace = pace
        self._first_minute = request.followed_from
        self._known = set[str]()
        self._seen: dict[str, Position] = {}
        self._shown: dict[str, Position] = {}
        self._ready = deque[SegmentToRead]()
        self._polls = 0
        self._seconds = 0.0

    def take(self, *, wait: bool) -> SegmentToRead | NothingYet:
        """Return the next segment; END once the pace is over."""
        while not self._pace.is_over:
            if self._past is not None:
                if (segment := self._past.take(wait=wait)) is not NothingYet.END:
                    return segment
                self._past = None
            elif self._ready:
                return self._ready.popleft()
            elif not wait:
                return NothingYet.NOT_YET
            else:
                self._poll()
        return NothingYet.END

    def _poll(self) -> None:
        if self._polls > 1:  # the second one shows what the first one has seen
            self._pace.wait(self._seconds)
            if self._pace.is_over:
                return
        begun_ms, begun = self._pace.clock.now_ms(), self._pace.clock.monotonic()
        segments = self._listed(begun_ms)
        self._seconds = max(_POLL_SECONDS, _MOST_OF_THE_TIME * (self._pace.clock.monotonic() - begun))
        self._polls += 1
        is_past = self._polls == 1 and self._request.is_from_now
        ready = [segment for segment in segments if is_past or self._has_been_seen(segment)]
        self._known.update(segment.key for segment in ready)
        unseen = [segment.parsed for segment in segments if segment.key not in self._known]
        self._seen = {}
        for parsed in unseen:
            self._seen[parsed.shard_id] = max(parsed.first, self._seen.get(parsed.shard_id, parsed.first))
        # The next LIST must have what is to be shown then, however long the pause before it.
        window = max(self._first_minute, minute_of(begun_ms) - LATE_MINUTES)
        self._first_minute = min([window, *(parsed.minute for parsed in unseen)])
        if is_past:
            return
        ready.sort(key=position_order)
        self._ready.extend(linked(ready, of_shard))
        for segment in ready:
            self._note_order(segment)

    def _listed(self, now_ms: int) -> list[SegmentToRead]:
        """Return the requested segments of the window that are not known yet, and report foreign objects once."""
        first = minute_path(self._first_minute)
        last = minute_path(minute_of(now_ms + SKEW_MS))
        both = os.path.commonprefix([first, last])  # noqa: RUF071 - of texts: a LIST takes any prefix
        start_after = f"{self._prefix}{first}/"
        segments, foreign = parse_listing(
            self._prefix, self._storage.list_after(f"{self._prefix}{both}", start_after)
        )
        self._known = {key for key in self._known if key > start_after}
        for key in sorted({*foreign} - self._known):
            self._problems.foreign(key)
        self._known.update(foreign)
        shard = self._request.shard
        return [
            segment
            for segment in segments
            if segment.key not in self._known and shard in {None, segment.parsed.shard_id}
        ]

    def _has_been_seen(self, segment: SegmentToRead) -> bool:
        seen = self._seen.get(segment.parsed.shard_id)
        return seen is not None and segment.parsed.first <= seen

    def _note_order(self, segment: SegmentToRead) -> None:
        shard_id, first = segment.parsed.shard_id, segment.parsed.first
        if first <= self._shown.get(shard_id, Position(-1)):
            self._problems.defect(segment.key, "committed after a segment that is behind it: its records come late")
        self._shown[shard_id] = max(first, self._shown.get(shard_id, first))
