"""The neighbours of a day: the segments before and after it that its chains join.

A chain goes on over midnight, over days without a record, and back over midnight where arrival times step back. Names
hold the first position, so the neighbours are chosen by name, outward from the day, and only they are asked for their
metadata. Quiet shards need more: the search goes on day by day, only through days that hold something.

Days that were published say where the chains of quiet shards stood (`compaction.inventory.quiet_shards`): one HEAD
then, instead of a LIST for every thousand names back in time.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from compaction.inventory.inventory import ListedSegment, make_row
from compaction.inventory.quiet_shards import QuietShards
from compaction.inventory.segments import decode_if_ours, expected_key
from minutebook.format.arrival import STEP_BACK_MINUTES
from minutebook.format.day import MINUTES_AN_HOUR, Day, Hour
from minutebook.format.keys import SegmentKey, minute_prefix
from minutebook.format.metadata import SegmentMetadata
from minutebook.format.position import Position
from minutebook.index.last_segments import LastSegment, LastSegments, none_published
from minutebook.index.names import ArchiveIndex
from minutebook.store.objects import ListedObject
from minutebook.store.parallel import in_parallel
from minutebook.store.retrying import RetryingStorage

LOOKBACK_DAYS: Final = 14
"""How many days that hold something are searched on each side."""
_FOLDERS_AT_ONCE: Final = 4
"""Hours that are listed side by side: each one is held until it is sifted."""


class ChainLink(NamedTuple):
    """A segment as its chain sees it. `minute` decides whether it belongs to the day or is a neighbour."""

    key: str
    metadata: SegmentMetadata


class SearchReach(NamedTuple):
    """How far the neighbours were looked for: whether the archive was searched to its beginning, to its end."""

    to_the_beginning: bool
    to_the_end: bool


class NeighbourQuery(NamedTuple):
    """What a shard needs: its first and last `first` of the day (None: no segment), and on which sides.

    `before` False: the day's first segment is the start of the chain. `after` False: the end is proven otherwise.
    `stands_on` is where the chain stood before the day, by what the day's first segment says or, where there is none,
    by the last that evidence names; None: nothing says so.
    """

    low: Position | None
    high: Position | None
    before: bool
    after: bool
    stands_on: Position | None = None


class Neighbours(NamedTuple):
    """The links outside the day by shard, and how far each shard was searched for."""

    links: Mapping[str, list[ChainLink]]
    reach: Mapping[str, SearchReach]


class OutwardScan:
    """The rows of one side that may be neighbours: those inside the day's range, and the nearest one beyond.

    `sign` is -1 before the day, 1 behind it.
    """

    def __init__(self, needs: Mapping[str, NeighbourQuery], sign: int) -> None:
        self._needs = needs
        self._wanted = {shard for shard, need in needs.items() if (need.before if sign < 0 else need.after)}
        self.sign = sign
        self._inside: dict[str, list[ListedSegment]] = defaultdict(list)
        self._nearest: dict[str, ListedSegment] = {}
        self._published: dict[str, ChainLink] = {}

    def add(self, rows: Iterable[ListedSegment]) -> None:
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

    def of_folder(self, storage: RetryingStorage, prefix: str, folder: str) -> list[ListedSegment]:
        """List a folder; return what of it may be a neighbour, however much it holds."""
        side = OutwardScan(self._needs, self.sign)
        side.add(make_row(prefix, listed) for listed in storage.list_objects(folder))
        return side.rows()

    def take(self, links: Iterable[ChainLink]) -> None:
        """Take neighbours that published days have named."""
        self._published |= {link.metadata.shard_id: link for link in links}

    @property
    def missing(self) -> set[str]:
        """The shards that still need a neighbour."""
        return {shard_id for shard_id in self._wanted if not self.found(shard_id)}

    def found(self, shard_id: str) -> bool:
        """Tell whether a segment beyond the day's range is known."""
        return shard_id in self._nearest or shard_id in self._published

    @property
    def nearest(self) -> dict[str, SegmentKey]:
        """The nearest segment beyond the day's range of each shard, by its name."""
        return {shard_id: row.parsed for shard_id, row in self._nearest.items() if row.parsed is not None}

    @property
    def published(self) -> list[ChainLink]:
        """The neighbours that published days have named; where one was found by its name, that counts."""
        return [link for shard_id, link in self._published.items() if shard_id not in self._nearest]

    def rows(self) -> list[ListedSegment]:
        """Return what may be a neighbour."""
        return [*(row for rows in self._inside.values() for row in rows), *self._nearest.values()]

    def _is_nearer(self, row: ListedSegment, than: ListedSegment) -> bool:
        if row.parsed is None or than.parsed is None:
            return False
        return row.parsed.first > than.parsed.first if self.sign < 0 else row.parsed.first < than.parsed.first


class SearchArea(NamedTuple):
    """Where neighbours are looked for, beside which day or hour, and on how many days of each side."""

    storage: RetryingStorage
    prefix: str
    period: Day | Hour
    days: int
    archive: ArchiveIndex

    @property
    def day(self) -> Day:
        """The day, or that of the hour."""
        return self.period.day if isinstance(self.period, Hour) else self.period


def find_neighbours(
    storage: RetryingStorage,
    prefix: str,
    period: Day | Hour,
    needs: Mapping[str, NeighbourQuery],
    later: Iterable[ListedSegment] = (),
    *,
    days: int = LOOKBACK_DAYS,
    published: LastSegments = none_published,
) -> Neighbours:
    """Search outward from the day, or the hour, until each shard has what it needs; at most `days` on a side.

    Of a day so far, the rest of the day comes first: `later` are what of it may be a neighbour. `published` is asked
    for quiet shards.
    """
    place = SearchArea(storage, prefix, period, days, ArchiveIndex(storage, prefix))
    behind, before = OutwardScan(needs, 1), OutwardScan(needs, -1)
    behind.add(later)
    to_the_end = _search(place, behind, QuietShards(none_published, {}, partial(_find, place)))
    links = _links(place, behind)
    quiet = QuietShards(published, _predecessors(needs, links, behind), partial(_find, place))
    to_the_beginning = _search(place, before, quiet)
    for shard_id, found in _links(place, before).items():
        links[shard_id] += found
    return Neighbours(links, dict.fromkeys(needs, SearchReach(to_the_beginning, to_the_end)))


def _predecessors(
    needs: Mapping[str, NeighbourQuery], behind: Mapping[str, Sequence[ChainLink]], side: OutwardScan
) -> dict[str, Position]:
    """Return where chains stood before the day, by what comes next in them."""
    found = {}
    for shard_id, need in needs.items():
        position: object = need.stands_on
        if need.low is None and side.found(shard_id):
            later = min(behind.get(shard_id, ()), key=lambda link: link.metadata.first, default=None)
            position = None if later is None else later.metadata.after
        if need.before and isinstance(position, Position):
            found[shard_id] = position
    return found


def _search(place: SearchArea, side: OutwardScan, quiet: QuietShards) -> bool:
    """Search one side; tells whether the archive was searched to its end there."""
    day, sign = place.day, side.sign
    outward, is_next = list(islice(place.archive.days(first_outward(place.period, sign), sign), place.days + 1)), True
    for other in outward[: place.days]:
        # The hour beside is always looked at: arrival times may step back over midnight, and over full hours.
        is_beside = is_next and abs(other.number - day.number) <= 1
        if is_beside:
            nearest = _hours(place, other, sign)[:1]
            _list(place, nearest, side)
            is_next = not nearest
        unsure = quiet.pass_day(other, side.missing)
        side.take(quiet.found)
        if not side.missing:
            break
        for some in (slice(1, None),) if is_beside else (slice(1), slice(1, None)):
            if unsure & side.missing:
                _list(place, _hours(place, other, sign)[some], side)
    quiet.ask_for_the_rest()
    side.take(quiet.found)
    _look_beyond_edges(place, side)
    if quiet.must_be_searched and side.missing:
        return _search(place, side, QuietShards(none_published, {}, partial(_find, place)))
    return len(outward) <= place.days


def _look_beyond_edges(place: SearchArea, side: OutwardScan) -> None:
    """List, for each shard, the minutes behind the edge of the hour in which its nearest segment was found.

    Arrival times step back over the edge: what comes next in the chain may lie in the folder that was not listed.
    """
    minutes = [
        (shard_id, minute)
        for shard_id, found in side.nearest.items()
        for minute in (found.minute + side.sign * step for step in STEP_BACK_MINUTES)
        if minute // MINUTES_AN_HOUR != found.minute // MINUTES_AN_HOUR
    ]
    _list(place, [minute_prefix(place.prefix, *one) for one in minutes], side)


def _hours(place: SearchArea, day: Day, sign: int) -> list[str]:
    """Return the folders of a day, the one that lies nearest first."""
    return [hour.path(place.prefix) for hour in place.archive.hours(day, sign, place.period)]


def first_outward(period: Day | Hour, sign: int) -> Day:
    """Return the day with which a search outward begins: the next one, or that of an hour."""
    return period.day if isinstance(period, Hour) else period.shift(sign)


def _list(place: SearchArea, folders: Sequence[str], side: OutwardScan) -> None:
    for rows in in_parallel(
        lambda folder: side.of_folder(place.storage, place.prefix, folder), folders, _FOLDERS_AT_ONCE
    ):
        side.add(rows)


def _find(place: SearchArea, end: LastSegment) -> ChainLink | None:
    """Return the segment that a published day names, as it is stored; None when it is gone, or is another one."""
    row = make_row(place.prefix, ListedObject(end.key, 0, "", 0))
    link = None if row.parsed is None else _link(place.storage, place.prefix, row)
    if link is None or link.metadata.minute >= place.period.first_minute:
        return None
    said = (end.last, end.minute, end.after)
    return link if (link.metadata.last, link.metadata.minute, link.metadata.after) == said else None


def _links(place: SearchArea, side: OutwardScan) -> dict[str, list[ChainLink]]:
    """Return what a side has found, by shard."""
    links: dict[str, list[ChainLink]] = defaultdict(list)
    asked = in_parallel(lambda row: _link(place.storage, place.prefix, row), side.rows())
    for link in [*side.published, *asked]:
        if link is not None:
            links[link.metadata.shard_id].append(link)
    return links


def _link(storage: RetryingStorage, prefix: str, row: ListedSegment) -> ChainLink | None:
    """Return the neighbour as a link; None when it is not a segment in its place: its own day's audit says so."""
    head = storage.head(row.key)
    metadata = decode_if_ours(None if head is None else head.metadata)
    if metadata is None or expected_key(prefix, row, metadata) != row.key:
        return None
    return ChainLink(row.key, metadata)
