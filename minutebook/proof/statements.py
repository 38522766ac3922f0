"""The objects beside the segments: markers of shards, read marks, skipped batches, tombstones.

They are read **before** segments are listed. A segment is committed before a mark or marker that refers to it, so it
is missing from the listing only if it is gone.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar, cast

from minutebook.coverage.shard_coverage import Skip
from minutebook.coverage.topology import hash_range_of
from minutebook.errors import FormatError, SettingsError, StoreRefused
from minutebook.format.coverage_markers import (
    ADOPTED_NAME,
    FIRST_NAME,
    OPENED_NAME,
    SHARDS,
    SKIPPED,
    AdoptedMarker,
    FirstShard,
    FirstShards,
    OpenedMarker,
    parse_skipped_key,
)
from minutebook.format.day import Day
from minutebook.format.keys import check_shard_id
from minutebook.format.markers import EndMarker, StartMarker
from minutebook.format.read_mark import ReadMark, parse_read_mark_key, read_mark_folder
from minutebook.format.tombstone import FOLDER, Tombstone, tombstone_key
from minutebook.store.markers import read_marker
from minutebook.store.objects import ListedObject
from minutebook.store.retrying import RetryingStore
from minutebook.store.tombstones import list_tombstones, read_tombstone

T = TypeVar("T")


class DamagedObject(NamedTuple):
    """An object that cannot be used; `is_foreign` if it does not belong there; `expired` is a tombstone's day."""

    key: str
    shard_id: str | None
    why: str
    is_foreign: bool = False
    expired: Day | None = None

    @property
    def name(self) -> str:
        """The last part of its key."""
        return self.key.rpartition("/")[2]


class StoredMark(NamedTuple):
    """A read mark and its LastModified."""

    mark: ReadMark
    stored_ms: int


class ShardStatements(NamedTuple):
    """The markers of one shard, with their LastModified. `skips` are batches that KCL skipped."""

    start: StartMarker | None = None
    opened: OpenedMarker | None = None
    adopted: AdoptedMarker | None = None
    end: EndMarker | None = None
    opened_stored_ms: int | None = None
    adopted_stored_ms: int = 0
    end_stored_ms: int | None = None
    skips: tuple[Skip, ...] = ()


class Statements(NamedTuple):
    """The markers by shard, `_shards/first.json`, the tombstones, and marks by day.

    `rows` are the objects that they were read from, without the marks.
    """

    shards: Mapping[str, ShardStatements]
    first: FirstShards | None
    tombstones: Mapping[Day, Tombstone]
    marks: Mapping[Day, tuple[StoredMark, ...]]
    rows: tuple[ListedObject, ...]
    problems: tuple[DamagedObject, ...]

    @property
    def unread_days(self) -> tuple[Day, ...]:
        """The expired days whose tombstone is damaged, or is refused: their segments are unknown."""
        return tuple(problem.expired for problem in self.problems if problem.expired is not None)

    def expired_ms(self) -> dict[Day, int]:
        """Return when each tombstone was stored."""
        names = {f"{FOLDER}{day}.json": day for day in self.tombstones}
        rows = ((row, names.get("/".join(row.key.rsplit("/", 2)[-2:]))) for row in self.rows if names)
        return {day: row.last_modified_ms for row, day in rows if day is not None}

    def of(self, shard_id: str) -> ShardStatements:
        """Return the markers of a shard, or empty ones."""
        return self.shards.get(shard_id, ShardStatements())


class StatementCache:
    """The markers and tombstones that one reader has read, by key and ETag: they never change."""

    def __init__(self) -> None:
        self._read: dict[tuple[str, str], object] = {}

    def read_many(self, store: RetryingStore, rows: Sequence[ListedObject], read: Callable[[str], T]) -> list[T]:
        """Return what `read` makes of each key; those read before come from memory, damaged ones are read again."""
        unread = [row for row in rows if (row.key, row.etag) not in self._read]
        outcomes = dict(zip(unread, store.read_many(lambda row: read(row.key), unread), strict=True))
        self._read |= {
            (row.key, row.etag): outcome
            for row, outcome in outcomes.items()
            if not isinstance(outcome, DamagedObject)
        }
        return [outcomes[row] if row in outcomes else cast("T", self._read[row.key, row.etag]) for row in rows]


def read_statements(
    store: RetryingStore, prefix: str, days: Iterable[Day], cache: StatementCache | None = None
) -> Statements:
    """Read all markers below the prefix, and the marks of some days. `cache` is that of a reader that reads often."""
    cache = cache or StatementCache()
    problems: list[DamagedObject] = []
    marks = {day: read_marks(store, prefix, day, problems) for day in days}
    skipped = list(store.list_objects(f"{prefix}{SKIPPED}"))
    expired = list_tombstones(store, prefix)
    markers = list(store.list_objects(f"{prefix}{SHARDS}"))
    shards: dict[str, dict[str, object]] = defaultdict(dict)
    first: FirstShards | None = None
    outcomes = cache.read_many(store, markers, lambda key: _marker(store, prefix, key))
    for row, outcome in zip(markers, outcomes, strict=True):
        if isinstance(outcome, DamagedObject):
            problems.append(outcome)
        elif isinstance(outcome, FirstShards):
            first = outcome
        else:
            shards[outcome.shard] |= _fields(outcome, row.last_modified_ms)
    for shard_id, skips in _skips(prefix, skipped, problems).items():
        shards[shard_id]["skips"] = tuple(skips)
    stones = {row.key: day for day, row in expired.items()}
    tombstones = cache.read_many(store, list(expired.values()), lambda key: _tombstone(store, prefix, stones[key]))
    problems += [outcome for outcome in tombstones if isinstance(outcome, DamagedObject)]
    return Statements(
        shards={shard_id: ShardStatements(**fields) for shard_id, fields in sorted(shards.items())},  # type: ignore[arg-type]  # by the names of the fields
        first=first,
        tombstones={Day.parse(stone.day): stone for stone in tombstones if isinstance(stone, Tombstone)},
        marks=marks,
        rows=(*markers, *skipped, *expired.values()),
        problems=tuple(problems),
    )


def read_marks(
    store: RetryingStore, prefix: str, day: Day, problems: list[DamagedObject], shard_id: str | None = None
) -> tuple[StoredMark, ...]:
    """Return the marks under one day by their keys, of one shard or of all; other objects are added to `problems`."""
    folder = read_mark_folder(prefix, day)
    marks = []
    for row in store.list_objects(folder if shard_id is None else f"{folder}{shard_id}/"):
        try:
            marks.append(StoredMark(parse_read_mark_key(prefix, row.key)[1], row.last_modified_ms))
        except FormatError as exc:
            problems.append(DamagedObject(row.key, None, str(exc), is_foreign=True))
    return tuple(marks)


_ShardMarker = StartMarker | OpenedMarker | AdoptedMarker | EndMarker


def _fields(marker: _ShardMarker, stored_ms: int) -> dict[str, object]:
    if isinstance(marker, StartMarker):
        return {"start": marker}
    if isinstance(marker, OpenedMarker):
        return {"opened": marker, "opened_stored_ms": stored_ms}
    if isinstance(marker, AdoptedMarker):
        return {"adopted": marker, "adopted_stored_ms": stored_ms}
    return {"end": marker, "end_stored_ms": stored_ms}


_KINDS: Mapping[str, type[_ShardMarker]] = {
    "start.json": StartMarker,
    OPENED_NAME: OpenedMarker,
    ADOPTED_NAME: AdoptedMarker,
    "end.json": EndMarker,
}


def _marker(store: RetryingStore, prefix: str, key: str) -> _ShardMarker | FirstShards | DamagedObject:
    shard_id, _, name = key.removeprefix(f"{prefix}{SHARDS}").partition("/")
    is_first = (shard_id, name) == (FIRST_NAME, "")
    if not is_first and name not in _KINDS:
        return DamagedObject(key, None, "it is not a marker of a shard", is_foreign=True)
    about = None if is_first else shard_id
    try:
        marker = read_marker(store, key, FirstShards if is_first else _KINDS[name], must_exist=True)
        if marker is None:
            return DamagedObject(key, about, "it was listed and is gone")
        _check(marker)
        if isinstance(marker, FirstShards):
            return marker
        check_shard_id(shard_id)
    except FormatError as exc:
        return DamagedObject(key, about, str(exc))
    return marker if marker.shard == shard_id else DamagedObject(key, about, f"it is the marker of {marker.shard}")


def _check(marker: _ShardMarker | FirstShards) -> None:
    """Raise FormatError for invalid positions, hash keys, parents or children of a parsed marker."""
    if isinstance(marker, StartMarker):
        marker.first_position(), marker.chain_start()
    if isinstance(marker, EndMarker):
        marker.last_position()
        _check_relatives(marker.shard, marker.children)
    for shard in marker.shards if isinstance(marker, FirstShards) else [marker]:
        if isinstance(shard, StartMarker | OpenedMarker | FirstShard):
            _check_relatives(shard.shard, shard.parents)
            hash_range_of(shard.starting_hash_key, shard.ending_hash_key)


def _check_relatives(shard_id: str, relatives: Iterable[str]) -> None:
    if shard_id in relatives:
        raise FormatError(f"{shard_id} is named as its own parent or child")


def _skips(prefix: str, rows: Iterable[ListedObject], problems: list[DamagedObject]) -> dict[str, list[Skip]]:
    skips: dict[str, list[Skip]] = defaultdict(list)
    for row in rows:
        try:
            parsed = parse_skipped_key(prefix, row.key)
        except FormatError as exc:
            problems.append(DamagedObject(row.key, None, str(exc), is_foreign=True))
        else:
            skips[parsed.shard_id].append(Skip(parsed.logged_ms, row.last_modified_ms))
    return skips


def _tombstone(store: RetryingStore, prefix: str, day: Day) -> Tombstone | DamagedObject:
    key = tombstone_key(prefix, day)
    try:
        tombstone = read_tombstone(store, prefix, day, must_exist=True)
        if tombstone is None:
            return DamagedObject(key, None, "it was listed and is gone", expired=day)
        is_its_own = day == Day.parse(tombstone.day)
    except (FormatError, SettingsError) as exc:
        return DamagedObject(key, None, str(exc), expired=day)
    except StoreRefused:
        # Without the store's own words, which may differ each time: verdicts rest on these.
        return DamagedObject(key, None, "the store refuses to give it", expired=day)
    return (
        tombstone if is_its_own else DamagedObject(key, None, f"it is the tombstone of {tombstone.day}", expired=day)
    )
