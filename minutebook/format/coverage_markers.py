"""The JSON objects about the existing shards and about undelivered records.

    _shards/first.json ................................. the shards that the application began with
    _shards/<shardId>/opened.json ...................... KCL assigned the shard to a processor
    _shards/<shardId>/adopted.json ..................... the chain begins after another application's checkpoint
    _skipped/<date>/<shardId>-<ms>-<writer>.json ....... KCL's daemon logged that it skipped records
    _undelivered/<date>/<shardId>/<sequence>.json ...... a record that KCL does not deliver, as the stream holds it

All are written with `If-None-Match: *` and never changed. Readers ignore unknown fields, which a later version may
add. The times in these objects come from a host's clock and prove nothing; an object's LastModified does.
"""

import re
from typing import Final, Literal, NamedTuple, TypeVar

import msgspec

from minutebook.errors import FormatError
from minutebook.format.day import day_of_ms
from minutebook.format.document import RESTORE, decode_document, encode_document
from minutebook.format.keys import SEQUENCE_DIGITS, check_shard_id
from minutebook.format.position import Position, is_sequence_number

SHARDS: Final = "_shards/"
SKIPPED: Final = "_skipped/"
UNDELIVERED: Final = "_undelivered/"
FIRST_NAME: Final = "first.json"
OPENED_NAME: Final = "opened.json"
ADOPTED_NAME: Final = "adopted.json"

_LAST_MS: Final = 253_402_300_800_000
_SKIPPED: Final = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})/(?P<shard>[a-zA-Z0-9_.-]{1,128})-(?P<at>0|[1-9][0-9]{0,14})-"
    r"(?P<writer>[a-zA-Z0-9_.]{1,128})\.json",
    re.ASCII,
)


class FirstShard(msgspec.Struct, frozen=True, kw_only=True):
    """One shard of ListShards; its hash keys are decimal text."""

    shard: str
    starting_hash_key: str
    ending_hash_key: str
    parents: list[str] = []


class FirstShards(msgspec.Struct, frozen=True, kw_only=True):
    """`_shards/first.json`: the shards of ListShards at the application's start."""

    format: int
    shards: list[FirstShard]
    writer: str
    written_at: str


class OpenedMarker(msgspec.Struct, frozen=True, kw_only=True):
    """`opened.json`: written once per shard at initialize."""

    format: int
    shard: str
    sentinel: str
    starting_hash_key: str
    ending_hash_key: str
    parents: list[str]
    writer: str
    opened_at: str


class AdoptedMarker(msgspec.Struct, frozen=True, kw_only=True):
    """`adopted.json`: written before anything else when a shard continues from another application's checkpoint.

    `held` says whether the stream still held the record at `position` after the checkpoint was read.
    """

    format: int
    shard: str
    position: str
    held: bool
    writer: str
    written_at: str

    def adopted_position(self) -> Position:
        """Return the checkpoint; raises FormatError."""
        return Position.parse(self.position)


class SkippedMarker(msgspec.Struct, frozen=True, kw_only=True):
    """`_skipped/`: the daemon logged skipped records at `logged_at_ms`, by the host's clock."""

    format: int
    shard: str
    logged_at_ms: int
    message: str
    writer: str
    written_at: str


class UndeliveredRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`_undelivered/`: one Kinesis record whose user records from `first_sub` on KCL does not deliver."""

    format: int
    shard: str
    sequence_number: str
    first_sub: int
    partition_key: str
    arrival_ms: int
    reason: Literal["empty", "malformed", "outside_hash_range"]
    data_base64: str
    writer: str
    written_at: str


class SkippedKey(NamedTuple):
    """The parsed key of a skipped marker."""

    shard_id: str
    logged_ms: int
    writer: str


CoverageMarker = FirstShards | OpenedMarker | AdoptedMarker | SkippedMarker | UndeliveredRecord
M = TypeVar("M", FirstShards, OpenedMarker, AdoptedMarker, SkippedMarker, UndeliveredRecord)


def first_shards_key(prefix: str) -> str:
    """Return the key of the list of first shards."""
    return f"{prefix}{SHARDS}{FIRST_NAME}"


def opened_marker_key(prefix: str, shard_id: str) -> str:
    """Return the key of the marker that KCL assigned the shard to a processor."""
    return f"{prefix}{SHARDS}{check_shard_id(shard_id)}/{OPENED_NAME}"


def adopted_marker_key(prefix: str, shard_id: str) -> str:
    """Return the key of the marker of an adopted checkpoint."""
    return f"{prefix}{SHARDS}{check_shard_id(shard_id)}/{ADOPTED_NAME}"


def skipped_key(prefix: str, shard_id: str, logged_ms: int, writer: str) -> str:
    """Return the key of a skipped marker, under the day of the log line; raises FormatError."""
    _check_ms(logged_ms)
    key = f"{prefix}{SKIPPED}{day_of_ms(logged_ms)}/{check_shard_id(shard_id)}-{logged_ms}-{writer}.json"
    parse_skipped_key(prefix, key)
    return key


def parse_skipped_key(prefix: str, key: str) -> SkippedKey:
    """Parse a key made by `skipped_key`; raises FormatError for any other. A writer's id contains no hyphen."""
    folder = prefix + SKIPPED
    match = _SKIPPED.fullmatch(key.removeprefix(folder)) if key.startswith(folder) else None
    if match is None:
        raise FormatError(f"not the key of a skipped marker: {key!r}")
    logged_ms = int(match["at"])
    _check_ms(logged_ms)
    if str(day_of_ms(logged_ms)) != match["date"]:
        raise FormatError(f"not the key of a skipped marker: {key!r}", next_step="it lies under another day")
    return SkippedKey(check_shard_id(match["shard"]), logged_ms, match["writer"])


def undelivered_key(prefix: str, shard_id: str, arrival_ms: int, sequence: int) -> str:
    """Return the key of an undelivered record, a function of the record alone; raises FormatError."""
    _check_ms(arrival_ms)
    folder = f"{prefix}{UNDELIVERED}{day_of_ms(arrival_ms)}/{check_shard_id(shard_id)}/"
    return f"{folder}{sequence:0{SEQUENCE_DIGITS}d}.json"


def encode_coverage_marker(marker: CoverageMarker) -> bytes:
    """Return the object's body: JSON, indented for human readers."""
    return encode_document(marker)


def decode_coverage_marker(body: bytes, kind: type[M], key: str) -> M:
    """Parse an object's body, shard ids and positions included; raises FormatError that names `key`."""
    marker = decode_document(body, kind, key)
    try:
        _check_fields(marker)
    except FormatError as exc:
        raise FormatError(f"{key}: {exc}", next_step=RESTORE) from exc
    return marker


def _check_fields(marker: CoverageMarker) -> None:
    shards = marker.shards if isinstance(marker, FirstShards) else [marker]
    for shard in shards:
        check_shard_id(shard.shard)
        if isinstance(shard, FirstShard | OpenedMarker):
            for parent in shard.parents:
                check_shard_id(parent)
    if isinstance(marker, AdoptedMarker):
        marker.adopted_position()
    if isinstance(marker, UndeliveredRecord) and not is_sequence_number(marker.sequence_number):
        raise FormatError(f"not a sequence number: {marker.sequence_number!r}")


def _check_ms(epoch_ms: int) -> None:
    if not 0 <= epoch_ms < _LAST_MS:
        raise FormatError(f"{epoch_ms} ms is outside the years 1970 to 9999")
