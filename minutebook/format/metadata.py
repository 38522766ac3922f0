"""A segment's metadata: written in the same PUT as its body, read with one HEAD.

All values are ASCII, together below S3's limit of 2 KB. Parsing is strict: a required field that is missing, and any
that does not parse, raises an error that names it; `watermarks` alone is passed on as text. Unknown fields are
ignored.

A new field must be optional, else older archives cannot be read. Add it, with the default None, to `SegmentMetadata`,
to `encode`, to `_decode_any` and to docs/format.md. `_decode_plain` must read it, too, or return None where it is
present: else it is lost from nearly all segments.
"""

import enum
import re
from collections.abc import Mapping
from operator import itemgetter
from typing import Final, Literal, NamedTuple, Self

import msgspec

from minutebook.errors import FormatError
from minutebook.format.keys import check_shard_id
from minutebook.format.minute import minute_text, parse_minute_text
from minutebook.format.position import Position, SequenceRange

FORMAT: Final = "1"
FORMAT_FIELD: Final = "minutebook-format"
LIMIT_BYTES: Final = 2048

Sentinel = Literal["TRIM_HORIZON", "AT_TIMESTAMP"]
_AFTER_SEQUENCE: Final = "AFTER_SEQUENCE:"
_required_fields: Final = itemgetter(
    *(FORMAT_FIELD, "shard", "minute", "first", "last", "after", "records", "dropped"),
    *("payload-bytes", "arrival-min", "arrival-max", "writer"),
)
_BIRTH, _BIRTH_TEXT = 0, "birth"  # as in read marks
_LAST_MS: Final = 253_370_764_800_000  # the year 9999, as in read marks
_NUMBER: Final = "(0|[1-9][0-9]{0,18})"
_POSITION: Final = f"(0|[1-9][0-9]{{0,128}}):{_NUMBER}"
_PLAIN: Final = re.compile("\n".join([FORMAT, "(.+)", "(.+)", *[_POSITION] * 3, *[_NUMBER] * 5, "(.+)"]), re.ASCII)
"""The required fields of a segment that follows another one, as nearly all do. `.` matches no line break."""


class Continuity(enum.StrEnum):
    """Whether records may be missing between a piece of evidence and its predecessor."""

    PROVEN = "proven"
    UNPROVEN = "unproven"
    LOST = "lost"


class ChainStart(NamedTuple):
    """The `after` of a chain's first segment: where reading of the shard started.

    With the sentinel "AFTER_SEQUENCE", `adopted` is the checkpoint of another application that the user chose to
    continue from (`minutebook.adoptCheckpoint`).
    """

    sentinel: Literal["TRIM_HORIZON", "AT_TIMESTAMP", "AFTER_SEQUENCE"]
    adopted: Position | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `TRIM_HORIZON`, `AT_TIMESTAMP` or `AFTER_SEQUENCE:<position>`; raises FormatError."""
        if text == "TRIM_HORIZON":
            return cls("TRIM_HORIZON")
        if text == "AT_TIMESTAMP":
            return cls("AT_TIMESTAMP")
        if text.startswith(_AFTER_SEQUENCE):
            return cls("AFTER_SEQUENCE", Position.parse(text.removeprefix(_AFTER_SEQUENCE)))
        raise FormatError(f"not a start of a chain: {text!r}")

    def __str__(self) -> str:
        return self.sentinel if self.adopted is None else f"{_AFTER_SEQUENCE}{self.adopted}"


Predecessor = Position | ChainStart
"""The last position of the segment before, or the start of the chain."""


def parse_predecessor(text: str) -> Predecessor:
    """Read the value of `after`; raises FormatError."""
    return Position.parse(text) if text[:1].isdigit() else ChainStart.parse(text)


class SegmentMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of one segment.

    `first` and `last` are the ends of the span, dropped producer duplicates included. `records` counts the lines of
    the body, `dropped` the duplicates left out. Arrival times are epoch milliseconds.

    `continuity` says whether records may be missing between `after` and `first`. If it is None, none are missing
    after a segment of the same processor run (the same prefix of `writer`) that is young enough; after other
    segments, and in archives of earlier versions, it is unknown. A proven continuity comes with `evidence_ms`:
    everything that arrived from then on is archived; 0 (`birth`) stands for the creation of a child shard.
    """

    shard_id: str
    minute: int
    first: Position
    last: Position
    after: Predecessor
    records: int
    dropped: int
    payload_bytes: int
    arrival_min_ms: int
    arrival_max_ms: int
    writer: str
    continuity: Continuity | None = None
    evidence_ms: int | None = None
    watermarks: str | None = None

    @property
    def span(self) -> SequenceRange:
        """The closed interval of positions that this segment covers."""
        return SequenceRange(self.first, self.last)

    @property
    def is_doubtful(self) -> bool:
        """Return whether, by the writer, records are or may be missing between `after` and `first`."""
        return self.continuity in {Continuity.UNPROVEN, Continuity.LOST}

    def encode(self) -> dict[str, str]:
        """Return the user metadata (without `x-amz-meta-`); raises FormatError above 2 KB, or if not ASCII."""
        fields = {
            FORMAT_FIELD: FORMAT,
            "shard": self.shard_id,
            "minute": minute_text(self.minute),
            "first": str(self.first),
            "last": str(self.last),
            "after": str(self.after),
            "records": str(self.records),
            "dropped": str(self.dropped),
            "payload-bytes": str(self.payload_bytes),
            "arrival-min": str(self.arrival_min_ms),
            "arrival-max": str(self.arrival_max_ms),
            "writer": self.writer,
        }
        optional = {
            "continuity": self.continuity,
            "evidence": None if self.evidence_ms is None else _evidence_text(self.evidence_ms),
            "watermarks": self.watermarks,
        }
        fields |= {name: value for name, value in optional.items() if value is not None}
        size = sum(len(name) + len(value) for name, value in fields.items())
        if size >= LIMIT_BYTES or not all(value.isascii() for value in fields.values()):
            raise FormatError(
                f"metadata of segment {self.first} of {self.shard_id} takes {size} bytes or is not ASCII"
            )
        return fields

    @classmethod
    def decode(cls, fields: Mapping[str, str]) -> Self:
        """Parse an object's user metadata; raises FormatError, also if fields contradict each other."""
        metadata = cls._decode_plain(fields) or cls._decode_any(fields)
        metadata.check()
        return metadata

    @classmethod
    def _decode_plain(cls, fields: Mapping[str, str]) -> Self | None:
        """Parse the common metadata three times as fast as `_decode_any`; None for any other."""
        try:
            match = _PLAIN.fullmatch("\n".join(_required_fields(fields)))
        except KeyError:
            return None
        if match is None or "continuity" in fields or "evidence" in fields:
            return None
        shard_id, minute, *numbers, writer = match.groups()
        first, first_sub, last, last_sub, after, after_sub, *counts = map(int, numbers)
        return cls(
            shard_id=check_shard_id(shard_id),
            minute=parse_minute_text(minute),
            first=Position(first, first_sub),
            last=Position(last, last_sub),
            after=Position(after, after_sub),
            records=counts[0],
            dropped=counts[1],
            payload_bytes=counts[2],
            arrival_min_ms=counts[3],
            arrival_max_ms=counts[4],
            writer=writer,
            watermarks=fields.get("watermarks"),
        )

    @classmethod
    def _decode_any(cls, fields: Mapping[str, str]) -> Self:
        reader = _Fields(fields)
        if reader.text(FORMAT_FIELD) != FORMAT:
            raise FormatError(
                f"format {fields[FORMAT_FIELD]!r} is not known here",
                next_step="the object was written by another version of Minutebook; upgrade this one",
            )
        return cls(
            shard_id=check_shard_id(reader.text("shard")),
            minute=parse_minute_text(reader.text("minute")),
            first=Position.parse(reader.text("first")),
            last=Position.parse(reader.text("last")),
            after=parse_predecessor(reader.text("after")),
            records=reader.count("records"),
            dropped=reader.count("dropped"),
            payload_bytes=reader.count("payload-bytes"),
            arrival_min_ms=reader.count("arrival-min"),
            arrival_max_ms=reader.count("arrival-max"),
            writer=reader.text("writer"),
            continuity=reader.continuity(),
            evidence_ms=reader.evidence_ms(),
            watermarks=fields.get("watermarks"),
        )

    def check(self) -> None:
        """Raise FormatError if fields contradict each other."""
        if self.last < self.first:
            raise FormatError(f"metadata: last {self.last} lies before first {self.first}")
        floor = self.after if isinstance(self.after, Position) else self.after.adopted
        if floor is not None and floor >= self.first:
            raise FormatError(f"metadata: after {self.after} does not lie before first {self.first}")
        if self.arrival_max_ms < self.arrival_min_ms:
            raise FormatError("metadata: arrival-max lies before arrival-min")
        if self.records + self.dropped < 1:
            raise FormatError("metadata: a segment covers at least one record")
        if self.evidence_ms is not None and self.continuity is None:
            raise FormatError("metadata: evidence without continuity")
        if self.evidence_ms is not None and self.evidence_ms >= _LAST_MS:
            raise FormatError(f"metadata: evidence {self.evidence_ms} ms lies far ahead")


class _Fields:
    """Strict access to the text fields; errors name the field."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self._fields = fields

    def text(self, name: str) -> str:
        value = self._fields.get(name)
        if not value:
            raise FormatError(f"metadata: field {name!r} is missing")
        return value

    def count(self, name: str) -> int:
        value = self.text(name)
        if not (value.isascii() and value.isdigit() and len(value) <= 19) or str(int(value)) != value:  # noqa: PLR2004
            raise FormatError(f"metadata: field {name!r} is not a count: {value!r}")
        return int(value)

    def continuity(self) -> Continuity | None:
        value = self._fields.get("continuity")
        try:
            return None if value is None else Continuity(value)
        except ValueError:
            raise FormatError(f"metadata: field 'continuity' is {value!r}, not {', '.join(Continuity)}") from None

    def evidence_ms(self) -> int | None:
        value = self._fields.get("evidence")
        if value is None:
            return None
        if value == _BIRTH_TEXT:
            return _BIRTH
        if evidence_ms := self.count("evidence"):
            return evidence_ms
        raise FormatError("metadata: field 'evidence' is 0: a birth is written in words")


def _evidence_text(evidence_ms: int) -> str:
    return _BIRTH_TEXT if evidence_ms == _BIRTH else str(evidence_ms)


def is_ours(fields: Mapping[str, str]) -> bool:
    """Return whether an object claims to be a segment of Minutebook, in any format."""
    return FORMAT_FIELD in fields
