"""A cut through an archive: for each shard the last position before it (`minutebook cut`).

    {"format": 1, "stream_arn": ..., "stream_created_ms": ..., "judged_from": "2026-11-21T09:16:00.000Z",
     "at": "2026-11-21T10:16:00.000Z", "through": "2026-11-21T10:17:00.000Z",
     "shards": {"shardId-000000000000": "4968...:0", "shardId-000000000001": "END", "shardId-000000000002": "NONE"}}

Times cannot divide a stream exactly, because a shard's records need not arrive in the order of their stamps;
positions can. A record lies before the cut if its position is at or before its shard's: all of a shard at END, none
of a shard at NONE or without an entry. `at` is the time that was asked for. Every record before the cut arrived
before `through`. What arrived from `judged_from` to `at` was proven to be archived when the cut was made; of earlier
times that was not asked. Cuts of earlier versions do not have it.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec

from minutebook.errors import FormatError, SafetyRefusal, SettingsError
from minutebook.format.document import FORMAT, decode_document, encode_document
from minutebook.format.keys import check_shard_id
from minutebook.format.markers import ApplicationRecord
from minutebook.format.minute import parse_iso_time
from minutebook.format.position import Position

END: Final = "END"
NONE: Final = "NONE"
_MAKE: Final = "make it with minutebook cut"


class Cut(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One cut. `shards` maps a shard to `<sequence>:<sub>`, END or NONE."""

    stream_arn: str
    stream_created_ms: int
    at: str
    through: str
    shards: dict[str, str]
    judged_from: str | None = None
    format: int = FORMAT

    @property
    def at_ms(self) -> int:
        """The time that was asked for, in epoch milliseconds."""
        return parse_iso_time(self.at)

    @property
    def through_ms(self) -> int:
        """A time that no record before the cut had reached, in epoch milliseconds."""
        return parse_iso_time(self.through)

    @cached_property
    def positions(self) -> Mapping[str, Position]:
        """The positions of the shards that the cut divides: those that are neither END nor NONE."""
        return {name: Position.parse(text) for name, text in self.shards.items() if text not in {END, NONE}}

    def has_ended(self, shard_id: str) -> bool:
        """Return whether all of a shard lies before the cut."""
        return self.shards.get(shard_id) == END

    def is_before(self, shard_id: str, position: Position) -> bool:
        """Return whether a record lies before the cut."""
        last = self.positions.get(shard_id)
        return self.has_ended(shard_id) if last is None else position <= last


def check_cut(cut: Cut, record: ApplicationRecord | None) -> None:
    """Raise SafetyRefusal unless cut and archive are of the same stream: positions of another one mean nothing."""
    if record is not None and (cut.stream_arn, cut.stream_created_ms) != (
        record.stream_arn,
        record.stream_created_ms,
    ):
        raise SafetyRefusal(
            f"the cut is one of the stream {cut.stream_arn}, created at {cut.stream_created_ms} ms, the archive "
            f"holds {record.stream_arn}, created at {record.stream_created_ms} ms",
            next_step="make the cut of this archive: minutebook cut",
        )


def encode_cut(cut: Cut) -> bytes:
    """Return the file's content."""
    return encode_document(cut)


def decode_cut(body: bytes, name: str) -> Cut:
    """Parse a file's content; raises FormatError that names the file."""
    cut = decode_document(body, Cut, name, next_step=_MAKE)
    try:
        times, _ = (cut.at_ms, cut.through_ms), cut.positions
        if cut.judged_from is not None:
            parse_iso_time(cut.judged_from)
        for shard_id in cut.shards:
            check_shard_id(shard_id)
    except (FormatError, SettingsError) as exc:
        raise FormatError(f"{name} is not a cut: {exc}", next_step=_MAKE) from exc
    if times != tuple(sorted(times)):
        raise FormatError(f"{name} is not a cut: `at` lies after `through`", next_step=_MAKE)
    return cut


def read_cut(path: Path) -> Cut:
    """Read a cut's file; raises SettingsError if it cannot be read or does not parse."""
    try:
        body = path.read_bytes()
    except OSError as exc:
        raise SettingsError(f"{path} cannot be read: {exc.strerror}", next_step=_MAKE) from exc
    try:
        return decode_cut(body, str(path))
    except FormatError as exc:
        raise SettingsError(str(exc), next_step=exc.next_step) from exc
