"""The JSON objects beside the segments: the application record and the markers of a shard's start and end.

All are written with `If-None-Match: *` and never changed. Reading is strict about what it knows: a field that is
missing or of the wrong type is an error that names the object. Unknown fields are passed over: a later version may
add some, and older processors go on.
"""

from typing import Final, Literal, Self, TypeVar

import msgspec

from minutebook.compression import Compression
from minutebook.format.document import FORMAT, decode_document, encode_document
from minutebook.format.metadata import ChainStart
from minutebook.format.position import Position

JSON_TYPE: Final = "application/json"


_COMPRESSED: Final = 2
"""The format of an application record that names a compression: versions that write gzip alone refuse it."""


class ApplicationRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`<prefix>_application.json`: the stream that owns the prefix, and where its shards start.

    `start` is the setting as the user wrote it; `start_at_ms` what it was resolved to, in epoch milliseconds,
    None for TRIM_HORIZON. `stream_created_ms` tells a stream from one re-created under its name. `compression` is
    that of every segment below the prefix: it is a part of their names, so writers that differed would each have a
    slot of their own for the same records. The field is left out where it is gzip, as in archives from before it.
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
        """Refuse a compression under the format that versions without it read, and none under that which names it."""
        if (self.format == FORMAT) != (self.compression is Compression.GZIP):
            raise ValueError(f"compression {self.compression} in format {self.format}")

    def compressed(self, compression: Compression) -> Self:
        """Return the same record with this compression, in the format that it needs."""
        number = FORMAT if compression is Compression.GZIP else _COMPRESSED
        return msgspec.structs.replace(self, format=number, compression=compression)

    @property
    def begin_ms(self) -> int:
        """When the application began: its start, or the stream's creation where that is the oldest record."""
        return self.stream_created_ms if self.start_at_ms is None else self.start_at_ms


class StartMarker(msgspec.Struct, frozen=True, kw_only=True):
    """`start.json`: written before a shard's first segment.

    `sentinel` is the text of a `ChainStart`, `first` the position of the first record, the hash keys are decimal
    text as in ListShards, `written_at` is UTC in ISO 8601.
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

    `last` is the last archived position, None for a shard without a record. `proof` is "read" when the shard was
    read to its null iterator, "expired" when the stream no longer lists it or the reader may have missed records that
    were trimmed. `undelivered` are the sequence numbers of the records behind `last` that KCL would not deliver; the
    field is left out when there are none, for readers from before it.
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
    """Read an object's body; raises FormatError that names `key`."""
    formats = (FORMAT, _COMPRESSED) if kind is ApplicationRecord else (FORMAT,)
    return decode_document(body, kind, key, formats=formats)
