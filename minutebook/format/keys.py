"""Object keys of the archive: make and parse them.

A segment's key is a function of its **first** record alone. Two writers that start at the same record and cut
differently therefore use one key, and the store's conditional write lets one of them win
(docs/decisions/0002-object-naming.md). The extension names the compression, which is the same below a whole prefix
(docs/decisions/0027-zstd.md).
"""

import functools
import re
from typing import NamedTuple

from minutebook.compression import Compression, compression_of
from minutebook.errors import FormatError
from minutebook.format.minute import minute_path, parse_minute_path
from minutebook.format.position import Position

SEQUENCE_DIGITS = 56
SUB_DIGITS = 8
DUPLICATES = "_duplicates/"
WATERMARKS = "_watermarks/"

# Kinesis: ShardId is [a-zA-Z0-9_.-]{1,128}. A dot-only name would be a path step for other tools.
_SHARD_ID = re.compile(r"[a-zA-Z0-9_.-]{1,128}", re.ASCII)
_SEGMENT = re.compile(
    r"(?P<minute>[0-9]{4}/[0-9]{2}/[0-9]{2}/[0-9]{2}/[0-9]{2})/(?P<shard>[a-zA-Z0-9_.-]{1,128})/"
    r"(?P<sequence>[0-9]{56,129})-(?P<sub>[0-9]{8,19})\.jsonl(?P<extension>\.gz|\.zst)",
    re.ASCII,
)
_BESIDE = re.compile(
    r"(?P<slot>[0-9]{4}/[0-9]{2}/[0-9]{2}/[0-9]{2}/[0-9]{2}/[a-zA-Z0-9_.-]{1,128}/[0-9]{56,129}-[0-9]{8,19})-[^/]+"
    r"\.json(l\.gz|l\.zst)?",
    re.ASCII,
)


class SegmentKey(NamedTuple):
    """A parsed segment key; `minute` is in whole minutes since the epoch."""

    minute: int
    shard_id: str
    first: Position
    compression: Compression = Compression.GZIP


@functools.lru_cache(maxsize=4096)
def check_shard_id(shard_id: str) -> str:
    """Return `shard_id`; raises FormatError if it is not a shard id of Kinesis."""
    if _SHARD_ID.fullmatch(shard_id) is None or not shard_id.strip("."):
        raise FormatError(f"not a shard id: {shard_id!r}")
    return shard_id


def segment_key(
    prefix: str, shard_id: str, minute: int, first: Position, compression: Compression = Compression.GZIP
) -> str:
    """Return the slot of the segment that begins with the record at `first` in `minute`."""
    return f"{minute_prefix(prefix, shard_id, minute)}{_name(first)}{_suffix(compression)}"


def _name(first: Position) -> str:
    return f"{first.sequence:0{SEQUENCE_DIGITS}d}-{first.sub:0{SUB_DIGITS}d}"


def _suffix(compression: Compression) -> str:
    return f".jsonl{compression.extension}"


def minute_prefix(prefix: str, shard_id: str, minute: int) -> str:
    """Return the folder that holds one shard's segments of one minute; ends in `/`."""
    return f"{prefix}{minute_path(minute)}/{check_shard_id(shard_id)}/"


def slot_folder(key: str) -> str:
    """Return the folder of a segment's minute and shard: only segments of one folder may share records."""
    return key.rpartition("/")[0]


def parse_segment_key(prefix: str, key: str) -> SegmentKey:
    """Parse a key made by `segment_key`; raises FormatError for any other, also for other padding."""
    match = _SEGMENT.fullmatch(key.removeprefix(prefix)) if key.startswith(prefix) else None
    if match is None:
        raise FormatError(f"not a segment key: {key!r}")
    minute, shard_id, sequence, sub, extension = match.groups()
    is_plain = len(sequence) == SEQUENCE_DIGITS and len(sub) == SUB_DIGITS
    if not is_plain and (_is_overpadded(sequence, SEQUENCE_DIGITS) or _is_overpadded(sub, SUB_DIGITS)):
        raise FormatError(f"not a segment key: {key!r}", next_step="its numbers are padded differently from ours")
    first = Position(int(sequence), int(sub))
    return SegmentKey(parse_minute_path(minute), check_shard_id(shard_id), first, compression_of(extension))


def _is_overpadded(digits: str, width: int) -> bool:
    return len(digits) > width and digits[0] == "0"


def segment_sort_key(parsed: SegmentKey) -> tuple[int, str, Position]:
    """Order segments by minute, shard and position, as numbers: their text may exceed the padding."""
    return parsed.minute, parsed.shard_id, parsed.first


def start_marker_key(prefix: str, shard_id: str) -> str:
    """Return the key of the marker written before a shard's first segment."""
    return f"{prefix}_shards/{check_shard_id(shard_id)}/start.json"


def end_marker_key(prefix: str, shard_id: str) -> str:
    """Return the key of the marker written once the end of a shard is proven."""
    return f"{prefix}_shards/{check_shard_id(shard_id)}/end.json"


def application_key(prefix: str) -> str:
    """Return the key of the application record, which ties this prefix to one stream and one start."""
    return f"{prefix}_application.json"


def duplicates_key(
    prefix: str, shard_id: str, minute: int, first: Position, writer: str, compression: Compression = Compression.GZIP
) -> str:
    """Return the key at which a segment's dropped producer duplicates are kept."""
    folder = f"{prefix}{DUPLICATES}{minute_path(minute)}/{check_shard_id(shard_id)}/"
    return f"{folder}{_name(first)}-{writer}{_suffix(compression)}"


def watermarks_key(prefix: str, shard_id: str, minute: int, first: Position, writer: str) -> str:
    """Return the key of the producer watermarks that do not fit into a segment's metadata."""
    folder = f"{prefix}{WATERMARKS}{minute_path(minute)}/{check_shard_id(shard_id)}/"
    return f"{folder}{_name(first)}-{writer}.json"


def slot_beside(prefix: str, folder: str, key: str) -> str | None:
    """Return the slot of the segment that an object of `_duplicates/` or `_watermarks/` belongs to; see `slot_of`.

    None for a key that `duplicates_key` or `watermarks_key` does not make. The slot may be empty, or hold a segment
    of another writer.
    """
    match = _BESIDE.fullmatch(key.removeprefix(prefix + folder)) if key.startswith(prefix + folder) else None
    return None if match is None else f"{prefix}{match['slot']}"


def slot_of(key: str) -> str:
    """Return a segment's key without its extension: two keys of one slot begin with the same record."""
    return key.removesuffix(_suffix(Compression.GZIP)).removesuffix(_suffix(Compression.ZSTD))
