"""The application record, and the markers of a shard's start and end.

All are written with `If-None-Match: *` and never changed. A field that is missing or of the wrong type is an error;
unknown fields are ignored: a later version may add some.
"""

from typing import Final, Literal, Self, TypeVar

import msgspec

from minutebook.compression import Compression
from minutebook.format.document import FORMAT, decode_document, encode_document
from minutebook.format.metadata import ChainStart
from minutebook.format.position import Position

JSON_TYPE: Final = "application/json"
_COMPRESSED: Final = 2
"""The format of an application record with a compression: versions that only write gzip refuse it."""


class ApplicationRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`<prefix>_application.json`: the stream that owns the prefix, and where its shards start.

    `start` is the setting as the user wrote it; `start_at_ms` its epoch milliseconds, None for TRIM_HORIZON.
    `stream_created_ms` distinguishes a stream from one re-created under its name. `compression` applies to every
    segment below the prefix: it is part of their keys, so writers with different ones would fill two slots with the
    same records. gzip is left out, as in archives from before the field.
    """

    format: int
    stream_arn: str
    stream_created_ms: int
    application: str
    start: str
    start_at_ms: int | None
    writer: str
    written_at_ms: int
    compression: Compression = Compression.GZIP

    def __post_init__(self) -> None:
        """Require format 1 for gzip and format 2 for any other compression."""
        if (self.format == FORMAT) != (self.compression is Compression.GZIP):
            raise ValueError(f"compression {self.compression} in format {self.format}")

    def compressed(self, compression: Compression) -> Self:
        """Return the record with this compression, in the format for it."""
        number = FORMAT if compression is Compression.GZIP else _COMPRESSED
        return msgspec.structs.replace(self, format=number, compression=compression)

    @property
    def begin_ms(self) -> int:
        """The application's start in epoch milliseconds: for TRIM_HORIZON, the stream's creation."""
        return self.stream_created_ms if self.start_at_ms is None else self.start_at_ms


class StartMarker(msgspec.Struct, frozen=True, kw_only=True):
    """`start.json`: written before a shard's first segment.

    `sentinel` is a `ChainStart` as text, `first` the position of the first record. The hash keys are decimal text as
    in ListShards; `written_at` is UTC in ISO 8601.
    """

    format: int
    shard: str
    sentinel: str
    first: str
    starting_hash_key: str
    ending_hash_key: str
    parents: list[str]
    writer: str
    written_at: str

    def chain_start(self) -> ChainStart:
        """Return where the shard was started from; raises FormatError."""
        return ChainStart.parse(self.sentinel)

    def first_position(self) -> Position:
        """Return the position of the first record; raises FormatError."""
        return Position.parse(self.first)


class EndMarker(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`end.json`: written once the end of a shard is proven.

    `last` is the last archived position, None for a shard without a record. `proof` is "read" if the shard was read
    to its null iterator, "expired" if the stream no longer lists it or records may have been trimmed before they were
    read. `undelivered` are the sequence numbers after `last` that KCL did not deliver; an empty list is left out.
    """

    format: int
    shard: str
    last: str | None
    children: list[str]
    proof: Literal["read", "expired"]
    writer: str
    written_at: str
    undelivered: list[str] = []

    def last_position(self) -> Position | None:
        """Return the last archived position; raises FormatError."""
        return None if self.last is None else Position.parse(self.last)


M = TypeVar("M", ApplicationRecord, StartMarker, EndMarker)


def encode_marker(marker: ApplicationRecord | StartMarker | EndMarker) -> bytes:
    """Return the object's body."""
    return encode_document(marker)


def decode_marker(body: bytes, kind: type[M], key: str) -> M:
    """Parse an object's body; raises FormatError that names `key`."""
    formats = (FORMAT, _COMPRESSED) if kind is ApplicationRecord else (FORMAT,)
    return decode_document(body, kind, key, formats=formats)
