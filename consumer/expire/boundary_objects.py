"""The boundaries of expired days: `expire` deletes them with the segments that they speak of.

    _until/<boundary>/<run>-<ms>.json .......... rows; those of more than a day ago are not read any more
    _complete/<boundary>.json .................. a marker; each newer one says the same, and names its gaps
    _complete/<boundary>-withdrawn-<id>.json ... gaps that newer markers name, unless they are healed
    _complete/<date>/<hour>/_SUCCESS ........... an hour whose segments are gone

What stays: the newest marker, with which readers and publishers begin; all of its day and of the 26 hours before it,
because a withdrawal of then may be in no marker yet; the objects of first boundaries (`since`); and those with other
names.
"""

import datetime as dt
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from minutebook.completeness.objects import LOOK_BACK_MS
from minutebook.errors import FormatError, SettingsError
from minutebook.format.boundaries import (
    COMPLETE,
    SUCCESS,
    UNTIL,
    markers_prefix,
    parse_marker_key,
    parse_rows_key,
)
from minutebook.format.day import Day, day_of_ms
from minutebook.store.retrying import RetryingStore
from minutebook.store.tombstones import read_tombstone


class OldBoundaries(NamedTuple):
    """The boundaries of one archive."""

    store: RetryingStore
    prefix: str

    def of_expired_days(self, newest: dt.date) -> Iterator[str]:
        """Yield the keys that may be deleted, of expired days up to `newest`.

        A LIST for a thousand boundaries, two for each day that has some and is expired.
        """
        until, complete = f"{self.prefix}{UNTIL}", f"{self.prefix}{COMPLETE}"
        markers = self.store.list_level(complete)
        names = [row.key for row in markers.objects]
        kept_from = self._kept_from(names)
        below = [key.removeprefix(complete) for key in [*markers.folders, *names]]
        below += [folder.removeprefix(until) for folder in self.store.list_level(until).folders]
        for day in sorted({day for name in below if (day := _day_of(name)) is not None}):
            if day.date <= newest and (kept_from is None or day < kept_from) and self._is_expired(day):
                yield from filter(self._is_rows, self.store.keys(f"{until}{day}"))
                yield from filter(self._is_ours, self.store.keys(markers_prefix(self.prefix, day)))

    def _kept_from(self, names: Iterable[str]) -> Day | None:
        """Return the first day of which all stays; None without a marker."""
        parsed = [parse_marker_key(self.prefix, name) for name in names]
        boundaries = [key.boundary_ms for key in parsed if key is not None and key.withdrawal is None]
        return day_of_ms(max(0, max(boundaries) - LOOK_BACK_MS)) if boundaries else None

    def _is_expired(self, day: Day) -> bool:
        try:
            return read_tombstone(self.store, self.prefix, day) is not None
        except FormatError:
            return False  # the day is refused, and named

    def _is_rows(self, key: str) -> bool:
        return parse_rows_key(self.prefix, key) is not None

    def _is_ours(self, key: str) -> bool:
        return parse_marker_key(self.prefix, key) is not None or key.endswith(f"/{SUCCESS}")


def _day_of(name: str) -> Day | None:
    try:
        return Day.parse(name[:10])
    except SettingsError:
        return None  # since.json, or somebody's
