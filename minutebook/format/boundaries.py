"""The JSON objects about boundaries: until when the archive is complete.

    _until/<boundary>/<run>-<ms>.json ........... what one worker knows of its shards' times ("rows")
    _complete/since.json ........................ the first boundary
    _complete/since-<boundary>.json ............. the first one after nobody had published since that boundary
    _complete/<boundary>.json ................... what arrived before the boundary is archived, but for its gaps
    _complete/<boundary>-withdrawn-<id>.json ........ what was found wrong with that boundary later
    _complete/<date>/<hour>/_SUCCESS ............ an hour that was complete without a gap

A boundary is written as `2026-11-21T1015Z`, because a colon is not safe in keys. All are written with
`If-None-Match: *` and never changed. Unknown fields are ignored: a later version may add some. Times are epoch
milliseconds of the service's clock in rows, which programs alone read, and ISO 8601 in the others.
"""

import functools
import hashlib
import re
from collections.abc import Callable, Iterable
from typing import Final, Literal, NamedTuple, Self

import msgspec

from minutebook.errors import FormatError, SettingsError
from minutebook.format.day import Day, hour_of_ms
from minutebook.format.document import FORMAT, decode_document
from minutebook.format.keys import check_shard_id
from minutebook.format.minute import MINUTE_MS, iso_time, minute_of, minute_text, parse_iso_time, parse_minute_text
from minutebook.format.position import Position

UNTIL: Final = "_until/"
COMPLETE: Final = "_complete/"
SUCCESS: Final = "_SUCCESS"
_SINCE: Final = "since.json"
_LISTED: Final = 4096
"""Keys that are kept parsed: each attempt to publish lists those of the last day."""
_ROWS: Final = re.compile(
    r"(?P<boundary>[0-9T-]{15}Z)/(?P<run>[a-zA-Z0-9_.]{1,128})-(?P<ms>[0-9]{1,15})\.json", re.ASCII
)
_MARKER: Final = re.compile(r"(?P<boundary>[0-9T-]{15}Z)(?:-withdrawn-(?P<id>[a-f0-9]{8,64}))?\.json", re.ASCII)
_REWRITE: Final = "no worker writes it so: delete it. What it said is said again by the next one"


class ShardRow(msgspec.Struct, frozen=True, array_like=True):
    """What a worker knows of one shard.

    Everything that arrived after `from_ms` up to `until_ms` is archived, at or before `position` (None: no record
    is). Equal times prove nothing, and begin a new interval. The shard was surely open at `open_ms` (0: not known).
    `end`: the shard has ended; whether the proof of its end covers what lies before it.
    """

    from_ms: int
    until_ms: int
    open_ms: int
    position: str | None
    end: Literal["proven", "unproven"] | None = None


class RowsObject(msgspec.Struct, frozen=True, kw_only=True):
    """`_until/`: the news of one supervisor's `run`, by shard, in the order of their times."""

    worker: str
    run: str
    rows: dict[str, list[ShardRow]]
    format: int = FORMAT


class ShardState(msgspec.Struct, frozen=True, array_like=True):
    """One shard at a boundary; the first three as in a row, but everything before `until_ms` counts."""

    until_ms: int
    open_ms: int
    position: str | None
    state: Literal["open", "ended"]


class NamedGap(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A time of one shard that is not proven, with the reasons of `minutebook.coverage`."""

    shard: str
    begin: str = msgspec.field(name="from")
    until: str
    reasons: tuple[str, ...]

    @classmethod
    def of(cls, shard: str, from_ms: int, until_ms: int, reasons: Iterable[str]) -> Self:
        """Return the gap of a time in epoch milliseconds."""
        return cls(shard=shard, begin=iso_time(from_ms), until=iso_time(until_ms), reasons=tuple(map(str, reasons)))

    @property
    def times_ms(self) -> tuple[int, int]:
        """Its begin and its end in epoch milliseconds."""
        return parse_iso_time(self.begin), parse_iso_time(self.until)


class CompleteMarker(msgspec.Struct, frozen=True, kw_only=True):
    """`_complete/<boundary>.json`: every record that arrived in [since, boundary) is archived once, but for `gaps`.

    `shards` are those that the next boundary depends on. `folded` are the ids of recent withdrawals that the gaps
    contain, or that were healed; the writers of recent markers of skipped batches, too.
    """

    since: str
    boundary: str
    shards: dict[str, ShardState]
    gaps: tuple[NamedGap, ...]
    writer: str
    folded: tuple[str, ...] = ()
    format: int = FORMAT

    @property
    def boundary_ms(self) -> int:
        """The boundary in epoch milliseconds."""
        return parse_iso_time(self.boundary)

    @property
    def since_ms(self) -> int:
        """The first time that is claimed, in epoch milliseconds."""
        return parse_iso_time(self.since)


class Since(msgspec.Struct, frozen=True, kw_only=True):
    """`_complete/since.json`."""

    since: str
    writer: str
    format: int = FORMAT

    @property
    def since_ms(self) -> int:
        """The first boundary in epoch milliseconds."""
        return parse_iso_time(self.since)


class Withdrawal(msgspec.Struct, frozen=True, kw_only=True):
    """`_complete/<boundary>-withdrawn-<id>.json`: gaps of that boundary's claim that were found after it was made."""

    boundary: str
    gaps: tuple[NamedGap, ...]
    why: str
    format: int = FORMAT


class MarkerKey(NamedTuple):
    """A parsed key of a marker, or of a withdrawal with its id."""

    boundary_ms: int
    withdrawal: str | None


Document = RowsObject | CompleteMarker | Since | Withdrawal


def boundary_name(boundary_ms: int) -> str:
    """Return the text of a boundary in keys."""
    return minute_text(boundary_ms // MINUTE_MS).replace(":", "")


def parse_boundary_name(text: str) -> int:
    """Parse a boundary's text to epoch milliseconds; raises FormatError."""
    return parse_minute_text(f"{text[:13]}:{text[13:]}") * MINUTE_MS


def rows_key(prefix: str, boundary_ms: int, run: str, now_ms: int) -> str:
    """Return the key of rows; `now_ms` makes it unique in its run."""
    return f"{prefix}{UNTIL}{boundary_name(boundary_ms)}/{run}-{now_ms}.json"


def rows_prefix(prefix: str, hour_ms: int) -> str:
    """Return what the keys of all rows of an hour begin with."""
    return f"{prefix}{UNTIL}{boundary_name(hour_ms)[:13]}"


@functools.lru_cache(maxsize=_LISTED)
def parse_rows_key(prefix: str, key: str) -> tuple[int, str, int] | None:
    """Return boundary, run and time of a key made by `rows_key`; None as `parse_marker_key`."""
    match = _ROWS.fullmatch(key.removeprefix(prefix + UNTIL)) if key.startswith(prefix + UNTIL) else None
    if match is None:
        return None
    try:
        return parse_boundary_name(match["boundary"]), match["run"], int(match["ms"])
    except FormatError:
        return None


def since_key(prefix: str, after_ms: int | None = None) -> str:
    """Return the key of the first boundary; with a time, of the first one of those that begin anew after it."""
    name = _SINCE if after_ms is None else f"since-{boundary_name(after_ms)}.json"
    return f"{prefix}{COMPLETE}{name}"


def marker_key(prefix: str, boundary_ms: int) -> str:
    """Return the key of a boundary's marker."""
    return f"{prefix}{COMPLETE}{boundary_name(boundary_ms)}.json"


def markers_prefix(prefix: str, day: Day) -> str:
    """Return what the keys of a day's markers, withdrawals and finished hours begin with."""
    return f"{prefix}{COMPLETE}{day}"


def withdrawal_key(prefix: str, withdrawal: Withdrawal) -> str:
    """Return the key of a withdrawal, a function of what it says.

    The id depends on the boundary, too: a marker has folded this withdrawal, and not a later one of the same gaps.
    """
    identity = hashlib.sha256(msgspec.json.encode([withdrawal.boundary, withdrawal.gaps])).hexdigest()[:16]
    return f"{prefix}{COMPLETE}{boundary_name(parse_iso_time(withdrawal.boundary))}-withdrawn-{identity}.json"


@functools.lru_cache(maxsize=_LISTED)
def parse_marker_key(prefix: str, key: str) -> MarkerKey | None:
    """Parse the key of a marker or a withdrawal; None for any other, also for one of a later version."""
    match = _MARKER.fullmatch(key.removeprefix(prefix + COMPLETE)) if key.startswith(prefix + COMPLETE) else None
    if match is None:
        return None
    try:
        return MarkerKey(parse_boundary_name(match["boundary"]), match["id"])
    except FormatError:
        return None


def success_key(prefix: str, hour_ms: int) -> str:
    """Return the key of an hour that was complete without a gap."""
    hour = hour_of_ms(hour_ms)
    return f"{prefix}{COMPLETE}{hour.day}/{hour.number:02d}/{SUCCESS}"


def encode_boundary(document: Document) -> bytes:
    """Return the object's body, on one line: a stream of a thousand shards writes one each five minutes."""
    return msgspec.json.encode(document) + b"\n"


def decode_rows(body: bytes, key: str) -> RowsObject:
    """Parse rows; raises FormatError that names `key`."""
    document = decode_document(body, RowsObject, key, next_step=_REWRITE)
    _checked(key, lambda: _check_rows(document))
    return document


def decode_complete(body: bytes, key: str) -> CompleteMarker:
    """Parse a marker; raises FormatError that names `key`."""
    marker = decode_document(body, CompleteMarker, key, next_step=_REWRITE)
    _checked(key, lambda: [marker.boundary_ms, marker.since_ms, *(gap.times_ms for gap in marker.gaps)])
    _checked(key, lambda: _check_states(marker))
    _checked(key, lambda: _check_times(marker.gaps, marker.since_ms, marker.boundary_ms))
    return marker


def decode_since(body: bytes, key: str) -> Since:
    """Parse `since.json`; raises FormatError that names `key`."""
    since = decode_document(body, Since, key, next_step=_REWRITE)
    _checked(key, lambda: minute_of(since.since_ms))
    return since


def decode_withdrawal(body: bytes, key: str) -> Withdrawal:
    """Parse a withdrawal; raises FormatError that names `key`."""
    withdrawal = decode_document(body, Withdrawal, key, next_step=_REWRITE)
    _checked(key, lambda: _check_times(withdrawal.gaps, 0, parse_iso_time(withdrawal.boundary)))
    return withdrawal


def _checked(key: str, check: Callable[[], object]) -> None:
    try:
        check()
    except (FormatError, SettingsError) as exc:
        raise FormatError(f"{key}: {exc}", next_step=_REWRITE) from exc


def _check_rows(document: RowsObject) -> None:
    for shard, rows in document.rows.items():
        check_shard_id(shard)
        for row in rows:
            if not 0 <= row.from_ms <= row.until_ms:
                raise FormatError(f"a row of {shard} ends before it begins")
            if row.position is not None:
                Position.parse(row.position)


def _check_states(marker: CompleteMarker) -> None:
    for shard, state in marker.shards.items():
        check_shard_id(shard)
        for time_ms in (state.until_ms, state.open_ms):
            minute_of(time_ms)
        if state.position is not None:
            Position.parse(state.position)


def _check_times(gaps: Iterable[NamedGap], since_ms: int, boundary_ms: int) -> None:
    if since_ms > boundary_ms:
        raise FormatError("it ends before it begins")
    for time_ms in (since_ms, boundary_ms):
        minute_of(time_ms)
    for gap in gaps:
        check_shard_id(gap.shard)
        from_ms, until_ms = gap.times_ms
        for time_ms in (from_ms, until_ms):
            minute_of(time_ms)
        if from_ms >= until_ms:
            raise FormatError(f"a gap of {gap.shard} ends before it begins")
