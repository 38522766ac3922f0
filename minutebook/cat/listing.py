"""The segments of a span of minutes, in order: one LIST per minute at first, then one per whole hour.

For a single shard, it is one LIST per minute, whose keys continue with the shard. A LIST returns 1,000 keys a page.
"""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from minutebook.format.day import MINUTES_A_DAY, MINUTES_AN_HOUR, Day
from minutebook.format.keys import minute_prefix, segment_sort_key
from minutebook.format.minute import minute_path
from minutebook.segments.ahead import Ahead, NothingYet, Ready, Requests
from minutebook.segments.listing import SegmentToRead, linked, of_minute_and_shard, parse_listing
from minutebook.store.retrying import RetryingStorage
from minutebook.store.tombstones import is_expired

_AHEAD: Final = Ahead(4, 0)


class ListedMinutes(NamedTuple):
    """The result of a LIST: segments by minute, shard and position, other keys, and the day if it is expired."""

    segments: tuple[SegmentToRead, ...]
    foreign: tuple[str, ...]
    expired: Day | None


class _Folder(NamedTuple):
    prefix: str
    begins: Day | None
    """The day that begins with the folder: its tombstone is looked up, too."""


class Segments:
    """An `Upcoming` of the segments of the minutes; `report` gets each listing before its segments are returned."""

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        storage: RetryingStorage,
        prefix: str,
        minutes: range,
        shard: str | None,
        report: Callable[[ListedMinutes], None],
    ) -> None:
        folders = Ready(_folders(prefix, minutes, shard))
        self._lists = Requests(pool, folders, lambda folder: _list(storage, prefix, folder), _AHEAD)
        self._report = report
        self._segments: deque[SegmentToRead] = deque()

    def take(self, *, wait: bool) -> SegmentToRead | NothingYet:
        """Return the next segment."""
        while not self._segments:
            answer = self._lists.take(wait=wait)
            if isinstance(answer, NothingYet):
                return answer
            _, listed = answer
            self._report(listed)
            self._segments.extend(listed.segments)
        return self._segments.popleft()


def _folders(prefix: str, minutes: range, shard: str | None) -> Iterator[_Folder]:
    minute = minutes.start
    while minute < minutes.stop:
        is_first = minute == minutes.start or minute % MINUTES_A_DAY == 0
        begins = Day(minute // MINUTES_A_DAY) if is_first else None
        is_hour = minute % MINUTES_AN_HOUR == 0 and minutes.start < minute <= minutes.stop - MINUTES_AN_HOUR
        if shard is not None:
            yield _Folder(minute_prefix(prefix, shard, minute), begins)
            minute += 1
        elif is_hour:
            yield _Folder(f"{prefix}{minute_path(minute).removesuffix('00')}", begins)
            minute += MINUTES_AN_HOUR
        else:
            yield _Folder(f"{prefix}{minute_path(minute)}/", begins)
            minute += 1


def _list(storage: RetryingStorage, prefix: str, folder: _Folder) -> ListedMinutes:
    segments, foreign = parse_listing(prefix, storage.list_objects(folder.prefix))
    segments.sort(key=lambda segment: segment_sort_key(segment.parsed))
    expired = folder.begins is not None and is_expired(storage, prefix, folder.begins)
    in_order = linked(segments, of_minute_and_shard)
    return ListedMinutes(tuple(in_order), tuple(foreign), folder.begins if expired else None)
