"""The tombstone of a day whose raw segments were expired: `<prefix>_expired/yyyy-mm-dd.json`.

Written with `If-None-Match: *` before the first segment is deleted, and never changed: from then on the day counts as
expired, also while segments still exist. It has the positions that the day's segments covered, so that the chain of a
neighbouring day whose predecessor is one of them counts as complete.
"""

import datetime as dt
from typing import Final

import msgspec

from minutebook.errors import FormatError
from minutebook.format.day import Day
from minutebook.format.document import RESTORE, decode_document, encode_document
from minutebook.format.metadata import Predecessor, parse_predecessor
from minutebook.format.position import Position, SequenceRange

FOLDER: Final = "_expired/"


class ExpiredRun(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a shard's chain within the day without a break: `segments` objects, from `first` to `last`.

    `after` is the predecessor of the first one, as in a segment's metadata. A chain that steps back over midnight has
    several runs in a day. `until_ms` and `writer` are those of the last segment, for the evidence that follows the
    run. Tombstones of earlier versions have neither (0 and "").

    For the day before: `from_ms` is since when the run is proven, standing on `after`; None: it is not. No record of
    it arrived before `arrival_min_ms`. Tombstones of earlier versions have neither (None and 0).
    """

    after: str
    first: str
    last: str
    segments: int
    until_ms: int = 0
    writer: str = ""
    from_ms: int | None = None
    arrival_min_ms: int = 0

    @property
    def span(self) -> SequenceRange:
        """The positions that the run covers; raises FormatError if they are none."""
        return SequenceRange(Position.parse(self.first), Position.parse(self.last))

    @property
    def predecessor(self) -> Predecessor:
        """What the run follows; raises FormatError if it is none."""
        return parse_predecessor(self.after)


class ExpiredShard(msgspec.Struct, frozen=True, kw_only=True):
    """One shard's day: its runs in order, and the keys of segments that stay (the last one of a chain).

    `proven` are the intervals (from, until) of the shard that were proven when the day was expired.
    """

    runs: list[ExpiredRun]
    kept: list[str]
    proven: list[tuple[int, int]] = []

    def check(self) -> None:
        """Raise FormatError for an invalid position or interval."""
        for run in self.runs:
            _ = run.span, run.predecessor
        if any(not 0 <= begin <= end for begin, end in self.proven):
            raise FormatError("an interval of it ends before it begins")


class Tombstone(msgspec.Struct, frozen=True, kw_only=True):
    """The tombstone. `generation` is the published one that the day's verdict belongs to.

    `segments` and `bytes` count all the day's segments, those that stay included. `manifest` is the key of the
    published manifest, below the output's root: a generation can have several, with other objects or another verdict.
    Tombstones of earlier versions have none ("").
    """

    format: int
    day: str
    generation: str
    segments: int
    bytes: int
    shards: dict[str, ExpiredShard]
    writer: str
    written_at: str
    manifest: str = ""

    def kept_keys(self) -> set[str]:
        """Return the keys that must never be deleted."""
        return {key for shard in self.shards.values() for key in shard.kept}

    def covers(self, shard_id: str, position: Position) -> bool:
        """Return whether the day held the record at `position`: a segment after it is not an orphan."""
        shard = self.shards.get(shard_id)
        return any(position in run.span for run in (shard.runs if shard else ()))


def tombstone_key(prefix: str, day: Day | dt.date) -> str:
    """Return the key of a day's tombstone."""
    return f"{prefix}{FOLDER}{day}.json"


def encode_tombstone(tombstone: Tombstone) -> bytes:
    """Return the object's body."""
    return encode_document(tombstone)


def decode_tombstone(body: bytes, key: str) -> Tombstone:
    """Parse an object's body, positions and intervals included; raises FormatError that names `key`."""
    tombstone = decode_document(body, Tombstone, key)
    try:
        for shard in tombstone.shards.values():
            shard.check()
    except FormatError as exc:
        raise FormatError(f"{key}: {exc}", next_step=RESTORE) from exc
    return tombstone
