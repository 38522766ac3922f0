"""Read marks: evidence that a shard was read up to a time and held no record that is not archived.

    _read/<date>/<shardId>/<from>-<until>-<position>-<kind>-<continuity>-<writer>.json

Busy shards write none, because their segments prove the time; quiet shards write one an hour. The key has
everything that a proof needs, so one LIST of a date reads all marks; the body repeats it and adds the records that
KCL did not deliver. A mark is stored under every date that its interval touches, with the same name: judging a day
takes one LIST of its folder. The name contains the writer, so two writers never share a key.

A mark of kind `stream` and continuity `lost` says that the stream held records of the interval which were not
archived. It has no position. A proven mark of kind `stream` with the same interval and the same writer answers it: an
audit that had read the lost mark found all of these records archived.

`from` is the `until` of the preceding evidence in epoch milliseconds, or `birth` for a child shard that was read from
its first record on. `position` is `<sequence>.<sub>` of the last archived record, or `none`; a colon is not safe in
keys.
"""

import enum
import re
from typing import Final, NamedTuple

import msgspec

from minutebook.errors import FormatError, SettingsError
from minutebook.format.day import Day, day_of_ms
from minutebook.format.document import FORMAT, decode_document, encode_document
from minutebook.format.keys import check_shard_id
from minutebook.format.metadata import Continuity
from minutebook.format.position import Position, is_sequence_number

FOLDER: Final = "_read/"
BIRTH: Final = 0
"""`from` of a child's first evidence, which covers all its records. In keys and documents: `birth`."""

_LAST_MS: Final = 253_370_764_800_000  # the year 9999: a mark may lie under the day after its own
_BIRTH_TEXT: Final = "birth"
_KEY: Final = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})/(?P<shard>[a-zA-Z0-9_.-]{1,128})/"
    r"(?P<begin>birth|[1-9][0-9]{0,14})-(?P<until>[1-9][0-9]{0,14})-"
    r"(?:none|(?P<sequence>0|[1-9][0-9]{0,128})\.(?P<sub>0|[1-9][0-9]{0,18}))-"
    r"(?P<kind>read|end|stream)-(?P<continuity>proven|unproven|lost)-(?P<writer>[a-zA-Z0-9_.-]{1,128})\.json",
    re.ASCII,
)


class MarkKind(enum.StrEnum):
    """What was read: an open shard to its tip, a closed one to its end, or all retained records (by an audit)."""

    READ = "read"
    END = "end"
    STREAM = "stream"


class ReadMark(NamedTuple):
    """One mark. Times are epoch milliseconds of the service's clock.

    `position` is None while no record of the shard is archived. `undelivered` are the sequence numbers of the records
    that KCL did not deliver; they are stored under `_undelivered/`.
    """

    shard_id: str
    kind: MarkKind
    continuity: Continuity
    from_ms: int
    until_ms: int
    position: Position | None
    writer: str
    undelivered: tuple[int, ...] = ()


class _Document(msgspec.Struct, frozen=True, kw_only=True):
    """The body. Unknown fields are ignored: a later version may add some."""

    format: int
    shard: str
    kind: MarkKind
    continuity: Continuity
    begin: str = msgspec.field(name="from")
    until: str
    position: str | None
    undelivered: list[str]
    writer: str


def mark_days(mark: ReadMark) -> list[Day]:
    """Return the UTC days whose folders hold the mark.

    A proven mark, and a lost one of kind `stream`, is about the time since `from` and is stored under every day from
    there on. Any other only starts a new interval, under the day of its `until`. The proof of an end is stored under
    the day after as well, because the shard may have closed after its `until`, and `end.json` is written still later.
    Of a shard that was read from its birth the first day is the one before `until`.
    """
    is_about_interval = mark.continuity is Continuity.PROVEN or mark.kind is MarkKind.STREAM
    begin = mark.from_ms if is_about_interval else mark.until_ms
    if begin == BIRTH:
        begin = day_of_ms(mark.until_ms).shift(-1).begin_ms
    return [Day(number) for number in range(day_of_ms(begin).number, _last_day(mark).number + 1)]


def read_mark_folder(prefix: str, day: Day) -> str:
    """Return the folder that holds every shard's marks of one day; ends in `/`."""
    return f"{prefix}{FOLDER}{day}/"


def read_mark_key(prefix: str, day: Day, mark: ReadMark) -> str:
    """Return the mark's key under one of its days; raises FormatError for a value that does not fit."""
    position = "none" if mark.position is None else f"{mark.position.sequence}.{mark.position.sub}"
    name = f"{_begin_text(mark)}-{mark.until_ms}-{position}-{mark.kind}-{mark.continuity}-{mark.writer}.json"
    key = f"{read_mark_folder(prefix, day)}{check_shard_id(mark.shard_id)}/{name}"
    parse_read_mark_key(prefix, key)
    return key


def parse_read_mark_key(prefix: str, key: str) -> tuple[Day, ReadMark]:
    """Parse a key made by `read_mark_key`: its day, and the mark without `undelivered`, which only its body has."""
    folder = prefix + FOLDER
    match = _KEY.fullmatch(key.removeprefix(folder)) if key.startswith(folder) else None
    if match is None:
        raise FormatError(f"not the key of a read mark: {key!r}")
    position = None if match["sequence"] is None else Position(int(match["sequence"]), int(match["sub"]))
    mark = ReadMark(
        check_shard_id(match["shard"]),
        MarkKind(match["kind"]),
        Continuity(match["continuity"]),
        BIRTH if match["begin"] == _BIRTH_TEXT else int(match["begin"]),
        int(match["until"]),
        position,
        match["writer"],
    )
    if not mark.from_ms <= mark.until_ms < _LAST_MS:
        raise FormatError(f"not the key of a read mark: {key!r}", next_step="it ends before it begins, or far ahead")
    try:
        day = Day.parse(match["date"])
    except SettingsError as exc:
        raise FormatError(f"not the key of a read mark: {key!r}") from exc
    if not (day_of_ms(mark.from_ms).number <= day.number <= _last_day(mark).number):
        raise FormatError(f"not the key of a read mark: {key!r}", next_step="its interval does not touch its date")
    return day, mark


def encode_read_mark(mark: ReadMark) -> bytes:
    """Return the object's body: JSON, indented for human readers."""
    return encode_document(_document(mark))


def _document(mark: ReadMark) -> _Document:
    return _Document(
        format=FORMAT,
        shard=mark.shard_id,
        kind=mark.kind,
        continuity=mark.continuity,
        begin=_begin_text(mark),
        until=str(mark.until_ms),
        position=None if mark.position is None else str(mark.position),
        undelivered=[str(sequence) for sequence in mark.undelivered],
        writer=mark.writer,
    )


def decode_read_mark(body: bytes, prefix: str, key: str) -> ReadMark:
    """Parse an object's body; raises FormatError that names `key`, also if the body contradicts it."""
    document = decode_document(body, _Document, key)
    _, mark = parse_read_mark_key(prefix, key)
    if not all(is_sequence_number(sequence) for sequence in document.undelivered):
        raise FormatError(f"{key}: undelivered holds what is not a sequence number")
    mark = mark._replace(undelivered=tuple(map(int, document.undelivered)))
    if _document(mark) != document:
        raise FormatError(f"{key} says other than its key", next_step="find out who writes below the prefix")
    return mark


def _last_day(mark: ReadMark) -> Day:
    return day_of_ms(mark.until_ms).shift(1 if mark.kind is MarkKind.END else 0)


def _begin_text(mark: ReadMark) -> str:
    return _BIRTH_TEXT if mark.from_ms == BIRTH else str(mark.from_ms)
