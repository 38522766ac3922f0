"""The neighbours of a day: the segments before and after it that its chains join.

A chain continues over midnight, over days without a record, and back over midnight where arrival times step back.
Keys hold the first position, so neighbours are chosen by key, outward from the day, and only they are read by HEAD.
For quiet shards the search goes on day by day, through days that hold objects.

Published days name the last segments of quiet shards: one HEAD replaces a LIST for every thousand keys back in time.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from compaction.inventory.segments import ListedSegment, decode_if_ours, expected_key, make_row
from minutebook.format.arrival import STEP_BACK_MINUTES
from minutebook.format.day import MINUTES_A_DAY, MINUTES_AN_HOUR, Day
from minutebook.format.keys import SegmentKey, minute_prefix
from minutebook.format.metadata import SegmentMetadata
from minutebook.format.position import Position
from minutebook.index.last_segments import LastSegment, LastSegments, none_published
from minutebook.index.names import ArchiveIndex
from minutebook.store.objects import ListedObject
from minutebook.store.parallel import in_parallel
from minutebook.store.retrying import RetryingStorage

LOOKBACK_DAYS: Final = 14
"""How many days that hold objects are searched on each side."""
_FOLDERS_AT_ONCE: Final = 4
"""Hours that are listed at once: each is held in memory until it is filtered."""


class ChainLink(NamedTuple):
    """A segment in a chain. The `minute` of its metadata decides whether it belongs to the day or is a neighbour."""

    key: str
    metadata: SegmentMetadata


class SearchReach(NamedTuple):
    """Whether the archive was searched to its beginning, and to its end."""

    to_the_beginning: bool
    to_the_end: bool


class NeighbourQuery(NamedTuple):
    """The lowest and highest `first` of a shard's day (None: no segment), and the sides that need a neighbour.

    `before` False: the day's first segment starts the chain. `after` False: the end is proven otherwise.
    `stands_on` is where the chain stood before the day, by the day's first segment or else by the last that evidence
    names; None: unknown.
    """

    low: Position | None
    high: Position | None
    before: bool
    after: bool
    stands_on: Position | None = None


class Neighbours(NamedTuple):
    """The links outside the day, and how far the archive was searched, by shard."""

    links: Mapping[str, list[ChainLink]]
    reach: Mapping[str, SearchReach]


Find = Callable[[LastSegment], ChainLink | None]
"""Returns a segment as it is stored; None when it is gone or is another one."""


class QuietShards:
    """The shards that are looked up in published days. `predecessors` is where each chain stood before the day.

    Day by day, backwards. A published day that can be trusted names the last segment of each shard:

        a segment of that day ..................... one HEAD reads it
        an earlier segment ........................ nothing of the shard is on that day: its names are not listed
        another segment than a later day named .... something came in between: all names are listed
        no such shard, or an untrusted day ........ its names are listed

    A late object that nobody noticed shows on no day: so the segment counts only when the judged day follows its end,
    by links or by evidence, and when it is still stored. `links` are the segments that were found.
    `must_be_searched`: days that were skipped must be listed after all.
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


class OutwardScan:
    """The rows of one side that may be neighbours: those inside the day's range, and the nearest one beyond.

    `sign` is -1 before the day, 1 after it.
    """

    def __init__(self, queries: Mapping[str, NeighbourQuery], sign: int) -> None:
        self._queries = queries
        self._shards = {shard for shard, query in queries.items() if (query.before if sign < 0 else query.after)}
        self.sign = sign
        self._inside: dict[str, list[ListedSegment]] = defaultdict(list)
        self._nearest: dict[str, ListedSegment] = {}
        self._published: dict[str, ChainLink] = {}

    def add(self, rows: Iterable[ListedSegment]) -> None:
        """Keep the rows that may be neighbours."""
        for row in rows:
            if row.parsed is None or (query := self._queries.get(row.parsed.shard_id)) is None:
                continue
            shard_id, first = row.parsed.shard_id, row.parsed.first
            edge = query.low if self.sign < 0 else query.high
            beyond = edge is None or (first < edge if self.sign < 0 else first > edge)
            if not beyond:
                self._inside[shard_id].append(row)
            elif shard_id not in self._nearest or self._is_nearer(row, self._nearest[shard_id]):
                self._nearest[shard_id] = row

    def list_folder(self, storage: RetryingStorage, prefix: str, folder: str) -> list[ListedSegment]:
        """List a folder of any size and return its rows that may be neighbours."""
        scan = OutwardScan(self._queries, self.sign)
        scan.add(make_row(prefix, listed) for listed in storage.list_objects(folder))
        return scan.rows()

    def add_published(self, links: Iterable[ChainLink]) -> None:
        """Keep neighbours that published days have named."""
        self._published |= {link.metadata.shard_id: link for link in links}

    @property
    def missing(self) -> set[str]:
        """The shards that still need a neighbour."""
        return {shard_id for shard_id in self._shards if not self.has_beyond(shard_id)}

    def has_beyond(self, shard_id: str) -> bool:
        """Return whether a segment beyond the day's range is known."""
        return shard_id in self._nearest or shard_id in self._published

    @property
    def nearest(self) -> dict[str, SegmentKey]:
        """The nearest listed segment beyond the day's range, by shard."""
        return {shard_id: row.parsed for shard_id, row in self._nearest.items() if row.parsed is not None}

    @property
    def published(self) -> list[ChainLink]:
        """The neighbours that published days have named, of shards where listing has found none."""
        return [link for shard_id, link in self._published.items() if shard_id not in self._nearest]

    def rows(self) -> list[ListedSegment]:
        """Return the listed rows that may be neighbours."""
        return [*(row for rows in self._inside.values() for row in rows), *self._nearest.values()]

    def _is_nearer(self, row: ListedSegment, than: ListedSegment) -> bool:
        if row.parsed is None or than.parsed is None:
            return False
        return row.parsed.first > than.parsed.first if self.sign < 0 else row.parsed.first < than.parsed.first


class SearchArea(NamedTuple):
    """The archive to search, around a day, on at most `days` days of each side."""

    storage: RetryingStorage
    prefix: str
    day: Day
    days: int
    archive: ArchiveIndex


def find_neighbours(
    storage: RetryingStorage,
    prefix: str,
    day: Day,
    queries: Mapping[str, NeighbourQuery],
    later: Iterable[ListedSegment] = (),
    *,
    days: int = LOOKBACK_DAYS,
    published: LastSegments = none_published,
) -> Neighbours:
    """Search outward from the day until each shard has the neighbours it needs.

    `later` are rows of the rest of the day that may be neighbours, where the scope ends within the day. `published`
    is asked for quiet shards.
    """
    area = SearchArea(storage, prefix, day, days, ArchiveIndex(storage, prefix))
    after, before = OutwardScan(queries, 1), OutwardScan(queries, -1)
    after.add(later)
    to_the_end = _search(area, after, QuietShards(none_published, {}, partial(_find, area)))
    links = _links(area, after)
    quiet = QuietShards(published, _predecessors(queries, links, after), partial(_find, area))
    to_the_beginning = _search(area, before, quiet)
    for shard_id, earlier in _links(area, before).items():
        links[shard_id] += earlier
    return Neighbours(links, dict.fromkeys(queries, SearchReach(to_the_beginning, to_the_end)))


def _predecessors(
    queries: Mapping[str, NeighbourQuery], later: Mapping[str, Sequence[ChainLink]], scan: OutwardScan
) -> dict[str, Position]:
    """Return where chains stood before the day, by the segments that follow in them."""
    predecessors = {}
    for shard_id, query in queries.items():
        position: object = query.stands_on
        if query.low is None and scan.has_beyond(shard_id):
            following = min(later.get(shard_id, ()), key=lambda link: link.metadata.first, default=None)
            position = None if following is None else following.metadata.after
        if query.before and isinstance(position, Position):
            predecessors[shard_id] = position
    return predecessors


def _search(area: SearchArea, scan: OutwardScan, quiet: QuietShards) -> bool:
    """Search one side; return whether the archive was searched to its end there."""
    next_day, sign = area.day.shift(scan.sign), scan.sign
    outward = list(islice(area.archive.days(next_day, sign), area.days + 1))
    for other in outward[: area.days]:
        # The nearest hour of the next day is always listed: arrival times may step back over midnight.
        is_adjacent = other == next_day
        if is_adjacent:
            _list(area, _hours(area, other, sign)[:1], scan)
        unsure = quiet.pass_day(other, scan.missing)
        scan.add_published(quiet.links)
        if not scan.missing:
            break
        for hours in (slice(1, None),) if is_adjacent else (slice(1), slice(1, None)):
            if unsure & scan.missing:
                _list(area, _hours(area, other, sign)[hours], scan)
    quiet.read_rest()
    scan.add_published(quiet.links)
    _list_beyond_edges(area, scan)
    if quiet.must_be_searched and scan.missing:
        return _search(area, scan, QuietShards(none_published, {}, partial(_find, area)))
    return len(outward) <= area.days


def _list_beyond_edges(area: SearchArea, scan: OutwardScan) -> None:
    """List, for each shard, the minutes over the edge of the hour in which its nearest segment was found.

    Arrival times step back over the edge: the next segment of the chain may be in the hour that was not listed.
    """
    minutes = [
        (shard_id, minute)
        for shard_id, nearest in scan.nearest.items()
        for minute in (nearest.minute + scan.sign * step for step in STEP_BACK_MINUTES)
        if minute // MINUTES_AN_HOUR != nearest.minute // MINUTES_AN_HOUR
    ]
    _list(area, [minute_prefix(area.prefix, shard_id, minute) for shard_id, minute in minutes], scan)


def _hours(area: SearchArea, day: Day, sign: int) -> list[str]:
    """Return the hour folders of a day, the nearest first."""
    return [hour.path(area.prefix) for hour in area.archive.hours(day, sign)]


def _list(area: SearchArea, folders: Sequence[str], scan: OutwardScan) -> None:
    for rows in in_parallel(
        lambda folder: scan.list_folder(area.storage, area.prefix, folder), folders, _FOLDERS_AT_ONCE
    ):
        scan.add(rows)


def _find(area: SearchArea, end: LastSegment) -> ChainLink | None:
    """Return the segment that a published day names, as it is stored; None when it is gone or is another one."""
    row = make_row(area.prefix, ListedObject(end.key, 0, "", 0))
    link = None if row.parsed is None else _link(area, row)
    if link is None or link.metadata.minute >= area.day.first_minute:
        return None
    is_same = (link.metadata.last, link.metadata.minute, link.metadata.after) == (end.last, end.minute, end.after)
    return link if is_same else None


def _links(area: SearchArea, scan: OutwardScan) -> dict[str, list[ChainLink]]:
    """Return the neighbours of one side by shard, with their metadata."""
    links: dict[str, list[ChainLink]] = defaultdict(list)
    for link in [*scan.published, *in_parallel(lambda row: _link(area, row), scan.rows())]:
        if link is not None:
            links[link.metadata.shard_id].append(link)
    return links


def _link(area: SearchArea, row: ListedSegment) -> ChainLink | None:
    """Return the neighbour as a link; None when it is no segment in its place: its own day's audit reports that."""
    head = area.storage.head(row.key)
    metadata = decode_if_ours(None if head is None else head.metadata)
    if metadata is None or expected_key(area.prefix, row, metadata) != row.key:
        return None
    return ChainLink(row.key, metadata)
