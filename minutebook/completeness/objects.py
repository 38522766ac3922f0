"""The markers and rows on S3: list, read and write them."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from minutebook.errors import FormatError
from minutebook.format.boundaries import (
    COMPLETE,
    SUCCESS,
    CompleteMarker,
    RowsObject,
    Since,
    Withdrawal,
    decode_complete,
    decode_rows,
    decode_since,
    decode_withdrawal,
    encode_boundary,
    marker_key,
    markers_prefix,
    parse_marker_key,
    parse_rows_key,
    rows_prefix,
    since_key,
    success_key,
    withdrawal_key,
)
from minutebook.format.day import Day, day_of_ms
from minutebook.format.minute import HOUR_MS, iso_time, parse_iso_time
from minutebook.store.objects import ListedObject, PutOutcome
from minutebook.store.retrying import RetryingStore

LOOK_BACK_MS: Final = 26 * HOUR_MS
"""How old the newest marker may be to go on from it."""


class StoredRows(NamedTuple):
    """The rows of one object, and its LastModified."""

    document: RowsObject
    stored_ms: int


class ListedWithdrawal(NamedTuple):
    """A withdrawal by its key: its id, and the boundary that it amends."""

    identity: str
    key: str
    boundary_ms: int


class ListedMarkers(NamedTuple):
    """What lies under some days: boundaries with a marker, withdrawals, and finished hours."""

    boundaries: tuple[int, ...] = ()
    withdrawals: tuple[ListedWithdrawal, ...] = ()
    finished: frozenset[str] = frozenset()


class BoundaryObjects:
    """The objects of one archive. What it has read is kept in memory: none ever changes.

    Every method raises as the store does, and FormatError for an object that does not parse.
    """

    def __init__(self, store: RetryingStore, prefix: str) -> None:
        self.store = store
        self.prefix = prefix
        self._rows: set[str] = set()
        self._markers: dict[int, CompleteMarker] = {}
        self._withdrawals: dict[str, Withdrawal] = {}

    # Markers

    def list_markers(self, begin_ms: int, end_ms: int) -> ListedMarkers:
        """List the markers of the days from one time to another: one LIST a day."""
        days = [Day(number) for number in range(day_of_ms(begin_ms).number, day_of_ms(end_ms).number + 1)]
        rows = [row for day in days for row in self.store.list_objects(markers_prefix(self.prefix, day))]
        return self._sorted(row.key for row in rows)

    def list_all(self) -> ListedMarkers:
        """List the markers of all days: one LIST for a thousand, some three days."""
        return self._sorted(self.store.keys(f"{self.prefix}{COMPLETE}"))

    def _sorted(self, keys: Iterable[str]) -> ListedMarkers:
        boundaries, withdrawals, finished = list[int](), list[ListedWithdrawal](), set[str]()
        for key in keys:
            parsed = parse_marker_key(self.prefix, key)
            if parsed is None:
                finished |= {key} if key.endswith(f"/{SUCCESS}") else set()
            elif parsed.withdrawal is None:
                boundaries.append(parsed.boundary_ms)
            else:
                withdrawals.append(ListedWithdrawal(parsed.withdrawal, key, parsed.boundary_ms))
        return ListedMarkers(tuple(sorted(boundaries)), tuple(withdrawals), frozenset(finished))

    def newest(self, boundaries: Iterable[int], now_ms: int) -> CompleteMarker:
        """Return the newest of the listed markers; raises FormatError for one that is ahead of its time."""
        boundary_ms = max(boundaries)
        if boundary_ms > now_ms + HOUR_MS:
            raise ahead(marker_key(self.prefix, boundary_ms), boundary_ms)
        return self.marker(boundary_ms)

    def marker(self, boundary_ms: int) -> CompleteMarker:
        """Return a listed marker; raises FormatError if it is another boundary's."""
        if boundary_ms not in self._markers:
            key = marker_key(self.prefix, boundary_ms)
            marker = self.store.read(key, lambda stored: decode_complete(stored.body, key), must_exist=True)
            if marker is None:
                raise FormatError(f"{key} was listed and is gone", next_step="find out who deletes objects there")
            _check_boundary(key, boundary_ms, marker.boundary_ms)
            self._markers = {boundary_ms: marker}
        return self._markers[boundary_ms]

    def withdrawal(self, key: str) -> Withdrawal | None:
        """Return a listed withdrawal; None if it is gone."""
        if key not in self._withdrawals:
            found = self.store.read(key, lambda stored: decode_withdrawal(stored.body, key), must_exist=True)
            if found is None:
                return None
            parsed = parse_marker_key(self.prefix, key)
            _check_boundary(key, None if parsed is None else parsed.boundary_ms, parse_iso_time(found.boundary))
            self._withdrawals[key] = found
        return self._withdrawals[key]

    def since(self, after_ms: int | None = None) -> Since | None:
        """Return the first boundary, or the first one of those that began anew after a time; or None."""
        key = since_key(self.prefix, after_ms)
        return self.store.read(key, lambda stored: decode_since(stored.body, key))

    def begin(self, since: Since, after_ms: int | None = None) -> Since:
        """Store the first boundary, or the first one after a time, unless there is one; return the stored one."""
        key = since_key(self.prefix, after_ms)
        stored = self.store.put_or_read(key, encode_boundary(since))
        return since if stored is None else decode_since(stored.body, key)

    def publish(self, marker: CompleteMarker) -> bool:
        """Store a marker; return False if another one is there."""
        return self.store.put_or_read(marker_key(self.prefix, marker.boundary_ms), encode_boundary(marker)) is None

    def withdraw(self, withdrawal: Withdrawal) -> bool:
        """Store a withdrawal; return whether it is new."""
        key = withdrawal_key(self.prefix, withdrawal)
        return self.store.put_if_absent(key, encode_boundary(withdrawal)) is PutOutcome.CREATED

    def finish_hour(self, hour_ms: int) -> None:
        """Store the empty object that says that an hour is complete."""
        self.store.put_if_absent(success_key(self.prefix, hour_ms), b"")

    # Rows

    def new_rows(self, begin_ms: int, end_ms: int) -> list[StoredRows]:
        """Return the rows of the hours from one time to another that were not returned before."""
        listed = self._list_rows(begin_ms, end_ms)
        new = [row for row in listed if row.key not in self._rows]
        documents = self.store.read_many(self._read_rows, new)
        self._rows = {row.key for row in listed}
        pairs = zip(new, documents, strict=True)
        return [StoredRows(document, row.last_modified_ms) for row, document in pairs if document is not None]

    def newest_rows_ms(self, begin_ms: int, end_ms: int) -> int | None:
        """Return the LastModified of the newest rows of some hours; None without any."""
        return max((row.last_modified_ms for row in self._list_rows(begin_ms, end_ms)), default=None)

    def _list_rows(self, begin_ms: int, end_ms: int) -> list[ListedObject]:
        """List the rows of some hours: one LIST an hour."""
        return [
            row
            for hour_ms in range(begin_ms // HOUR_MS * HOUR_MS, end_ms + 1, HOUR_MS)
            for row in self.store.list_objects(rows_prefix(self.prefix, hour_ms))
            if parse_rows_key(self.prefix, row.key) is not None
        ]

    def _read_rows(self, row: ListedObject) -> RowsObject | None:
        """Return rows; None if they do not parse: what they say is then judged by the archive."""
        try:
            return self.store.read(row.key, lambda stored: decode_rows(stored.body, row.key), must_exist=True)
        except FormatError:
            return None


def ahead(key: str, boundary_ms: int) -> FormatError:
    """Return the error for an object whose boundary has not come yet."""
    return FormatError(
        f"{key} is about {iso_time(boundary_ms)}, which lies ahead",
        next_step="correct this host's clock, or delete the object: nobody can have written it",
    )


def _check_boundary(key: str, named_ms: int | None, said_ms: int) -> None:
    if named_ms != said_ms:
        raise FormatError(
            f"{key} is about {iso_time(said_ms)}: it is another boundary's",
            next_step="delete the object, and whatever else was copied with it",
        )
