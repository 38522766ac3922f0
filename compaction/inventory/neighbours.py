"""The neighbours of a day: the segments before and after it that its chains join.

A chain goes on over midnight, over days without a record, and back over midnight where arrival times step back. Names
hold the first position, so the neighbours are chosen by name, outward from the day, and only they are asked for their
metadata. Quiet shards need more: the search goes on day by day, only through days that hold something.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from archive.errors import SettingsError
from archive.format.day import Day, Hour
from archive.format.metadata import SegmentMetadata
from archive.format.position import Position
from archive.store.parallel import in_parallel
from archive.store.retrying import RetryingStorage
from compaction.inventory.inventory import Row, make_row
from compaction.inventory.segments import decode_if_ours, expected_key

LOOKBACK_DAYS: Final = 14
"""How many days that hold something are searched on each side."""
_FOLDERS_AT_ONCE: Final = 4
"""Hours that are listed side by side: each one is held until it is sifted."""


class Link(NamedTuple):
    """A segment as its chain sees it. `minute` decides whether it belongs to the day or is a neighbour."""

    key: str
    metadata: SegmentMetadata


class Reach(NamedTuple):
    """How far the neighbours were looked for: whether the archive was searched to its beginning, to its end."""

    to_the_beginning: bool
    to_the_end: bool


class Need(NamedTuple):
    """What a shard needs: its first and last `first` of the day (None: no segment), and on which sides.

    `before` False: the day's first segment is the start of the chain. `after` False: the end is proven otherwise.
    """

    low: Position | None
    high: Position | None
    before: bool
    after: bool


class Neighbours(NamedTuple):
    """The links outside the day by shard, and how far each shard was searched for."""

    links: Mapping[str, list[Link]]
    reach: Mapping[str, Reach]


class Side:
    """The rows of one side that may be neighbours: those inside the day's range, and the nearest one beyond.

    `sign` is -1 before the day, 1 behind it.
    """

    def __init__(self, needs: Mapping[str, Need], sign: int) -> None:
        self._needs = needs
        self.sign = sign
        self._inside: dict[str, list[Row]] = defaultdict(list)
        self._nearest: dict[str, Row] = {}

    def add(self, rows: Iterable[Row]) -> None:
        """Take what may be a neighbour."""
        for row in rows:
            if row.parsed is None or (need := self._needs.get(row.parsed.shard_id)) is None:
                continue
            shard_id, first = row.parsed.shard_id, row.parsed.first
            edge = need.low if self.sign < 0 else need.high
            beyond = edge is None or (first < edge if self.sign < 0 else first > edge)
            if not beyond:
                self._inside[shard_id].append(row)
            elif shard_id not in self._nearest or self._is_nearer(row, self._nearest[shard_id]):
                self._nearest[shard_id] = row

    def of_folder(self, storage: RetryingStorage, prefix: str, folder: str) -> list[Row]:
        """List a folder; return what of it may be a neighbour, however much it holds."""
        side = Side(self._needs, self.sign)
        side.add(make_row(prefix, listed) for listed in storage.list_objects(folder))
        return side.rows()

    def found(self, shard_id: str) -> bool:
        """Tell whether a segment beyond the day's range is known."""
        return shard_id in self._nearest

    def rows(self) -> list[Row]:
        """Return what may be a neighbour."""
        return [*(row for rows in self._inside.values() for row in rows), *self._nearest.values()]

    def _is_nearer(self, row: Row, than: Row) -> bool:
        if row.parsed is None or than.parsed is None:
            return False
        return row.parsed.first > than.parsed.first if self.sign < 0 else row.parsed.first < than.parsed.first


def archive_days(storage: RetryingStorage, prefix: str) -> list[Day]:
    """Return the days that hold something, in order: one request per year and month."""
    folders = [prefix]
    for width in (4, 2, 2):
        levels = in_parallel(storage.list_level, folders)
        folders = [
            folder
            for level in levels
            for folder in level.folders
            if _is_number(folder.rstrip("/").rpartition("/")[2], width)
        ]
    days = [_day(folder.removeprefix(prefix).strip("/").replace("/", "-")) for folder in folders]
    return sorted(day for day in days if day is not None)


def _day(text: str) -> Day | None:
    """Return the day; None when the folder only looks like one (`2026/13/01`)."""
    try:
        return Day.parse(text)
    except SettingsError:
        return None


def find_neighbours(
    storage: RetryingStorage,
    prefix: str,
    period: Day | Hour,
    needs: Mapping[str, Need],
    later: Iterable[Row] = (),
    *,
    days: int = LOOKBACK_DAYS,
) -> Neighbours:
    """Search outward from the day, or the hour, until each shard has what it needs; at most `days` on a side.

    Of a day so far, the rest of the day comes first: `later` are what of it may be a neighbour.
    """
    day = period.day if isinstance(period, Hour) else period
    own = {day} if isinstance(period, Hour) else set()
    stored = archive_days(storage, prefix)
    sides = []
    reached = []
    for sign in (-1, 1):
        wanted = {shard for shard, need in needs.items() if (need.before if sign < 0 else need.after)}
        side = Side(needs, sign)
        side.add(later if sign > 0 else ())
        beyond = (other for other in stored if (other.number - day.number) * sign > 0 or other in own)
        outward, is_beside = sorted(beyond, reverse=sign < 0), True
        for other in outward[:days]:
            # The hour beside is always looked at: arrival times may step back over midnight, and over full hours.
            touching = is_beside and abs(other.number - day.number) <= 1
            if not touching and all(side.found(shard) for shard in wanted):
                break
            folders = folders_outward(storage, prefix, other, period, sign)
            _search_hours(storage, prefix, folders, side, wanted)
            is_beside = is_beside and not folders
        sides.append(side)
        reached.append(len(outward) <= days)
    rows = [row for side in sides for row in side.rows()]
    links: dict[str, list[Link]] = defaultdict(list)
    for link in in_parallel(lambda row: _link(storage, prefix, row), rows):
        if link is not None:
            links[link.metadata.shard_id].append(link)
    return Neighbours(links, dict.fromkeys(needs, Reach(reached[0], reached[1])))


def folders_outward(storage: RetryingStorage, prefix: str, day: Day, period: Day | Hour, sign: int) -> list[str]:
    """Return the folders of a day's hours, the nearest to `period` first; of its own day those on that side alone."""
    folders = sorted(storage.list_level(day.path(prefix)).folders, reverse=sign < 0)
    if not isinstance(period, Hour) or day != period.day:
        return folders
    own = period.path(prefix)
    return [folder for folder in folders if (folder > own if sign > 0 else folder < own)]


def _search_hours(
    storage: RetryingStorage, prefix: str, nearest_first: Sequence[str], side: Side, wanted: set[str]
) -> None:
    """Look at the hour that lies nearest; at the others only when a shard is still without neighbour."""
    for batch in (nearest_first[:1], nearest_first[1:]):
        for rows in in_parallel(lambda folder: side.of_folder(storage, prefix, folder), batch, _FOLDERS_AT_ONCE):
            side.add(rows)
        if all(side.found(shard) for shard in wanted):
            return


def _link(storage: RetryingStorage, prefix: str, row: Row) -> Link | None:
    """Return the neighbour as a link; None when it is not a segment in its place: its own day's audit says so."""
    head = storage.head(row.key)
    metadata = decode_if_ours(None if head is None else head.metadata)
    if metadata is None or expected_key(prefix, row, metadata) != row.key:
        return None
    return Link(row.key, metadata)


def _is_number(text: str, width: int) -> bool:
    return len(text) == width and text.isascii() and text.isdecimal()
