"""Objects as LIST, HEAD and their lines show them; segments are told from others by keys and metadata.

Objects that cannot be part of a chain (foreign objects, copies, metadata that does not parse) are reported here and
left out of all later checks, so that each defect is reported once.
"""

import enum
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from compaction.verdict.findings import Code, Finding, Severity, finding
from minutebook.compression import Compression
from minutebook.errors import FormatError
from minutebook.format.keys import SegmentKey, parse_segment_key, segment_key
from minutebook.format.metadata import SegmentMetadata, is_ours
from minutebook.format.minute import minute_text
from minutebook.format.position import Position
from minutebook.published.inventory import PublishedRow
from minutebook.store.objects import ListedObject
from minutebook.store.parallel import in_parallel
from minutebook.store.retrying import RetryingStorage

UserMetadata = Mapping[str, str] | None
"""The user metadata of an object; None when the object is gone."""


class Alteration(enum.IntEnum):
    """What became of an object since its day was published; the greatest that was ever seen stays with its key."""

    NONE = 0
    REPLACED = 1  # it was stored again with the same content
    NO_FIRST_DIGEST = 2  # it changed before this version held a digest of its content
    ALTERED = 3  # its content is not the first one


class History(NamedTuple):
    """What earlier readings hold of a key: the digest of its first content (empty: none), and its alteration.

    `is_replaced`: no reading was of the object that is listed now, by its size, ETag and LastModified.
    """

    first_digest: str = ""
    altered: Alteration = Alteration.NONE
    is_replaced: bool = False


class Known(NamedTuple):
    """What earlier readings say of a listed object.

    `facts` are those of this very object; None: it must be read. `written` are the digests of the contents that the
    published generation was made of; empty: not known. `history` None: its day is not published, or it came later.
    """

    facts: "SegmentFacts | None"
    history: History | None = None
    written: tuple[str, ...] = ()


class ListedSegment(NamedTuple):
    """One object of the day. `parsed` is None when the key is not a segment's; `known`: what was read before."""

    key: str
    size: int
    etag: str
    last_modified_ms: int
    parsed: SegmentKey | None
    known: Known | None = None

    @property
    def listed(self) -> ListedObject:
        """The row as LIST gave it."""
        return ListedObject(self.key, self.size, self.etag, self.last_modified_ms)


def make_row(prefix: str, listed: ListedObject) -> ListedSegment:
    """Return a row of LIST with its parsed key."""
    try:
        parsed = parse_segment_key(prefix, listed.key)
    except FormatError:
        parsed = None
    return ListedSegment(*listed, parsed)


class GoneSegment(NamedTuple):
    """A segment of a published inventory that is not listed any more."""

    key: str
    shard_id: str
    minute: int
    first: Position


def row_of_published(prefix: str, row: PublishedRow) -> ListedSegment:
    """Return a line of a published inventory as LIST would return it."""
    key, etag, size, last_modified_ms = row
    return make_row(prefix, ListedObject(key, size, etag, last_modified_ms))


class ArchivedSegment(NamedTuple):
    """A segment of a chain."""

    row: ListedSegment
    metadata: SegmentMetadata

    @property
    def key(self) -> str:
        """The object's key."""
        return self.row.key


class Disorder(NamedTuple):
    """Adjacent lines whose positions do not ascend. `repeated` counts equal positions."""

    stepped_back: int = 0
    repeated: int = 0
    samples: tuple[str, ...] = ()


class SegmentFacts(NamedTuple):
    """The body of one object: `parquet.reading` measures, `tasks.finished` keeps, `audit.rules.lines` judges.

    `first` and `last` are the positions of the first and last line, `low` and `high` the least and greatest; None
    when there is no line. Arrival times are epoch milliseconds, and `step_back_ms` is their greatest step back in the
    order of lines. `problem` is empty when every line was read.
    `changed`: the object is no longer the one that was listed.

    `digest` is that of the stored bytes and the user metadata; `first_digest` is that of the first content under this
    key since its day was published, empty while there is no other one.
    """

    key: str
    metadata: Mapping[str, str] | None
    lines: int = 0
    raw_bytes: int = 0
    payload_bytes: int = 0
    first: Position | None = None
    last: Position | None = None
    low: Position | None = None
    high: Position | None = None
    arrival_min_ms: int = 0
    arrival_max_ms: int = 0
    step_back_ms: int = 0
    disorder: Disorder = Disorder()
    wrong_minute: int = 0
    wrong_shard: int = 0
    problem: str = ""
    changed: bool = False
    digest: str = ""
    first_digest: str = ""
    altered: Alteration = Alteration.NONE

    @property
    def is_sorted(self) -> bool:
        """Return whether the lines are in the shard's order, each once."""
        return not (self.disorder.stepped_back or self.disorder.repeated)


def with_history(read: SegmentFacts, history: History | None) -> SegmentFacts:
    """Return the facts of an object, compared with what earlier readings hold of its key."""
    if history is None:
        return read
    altered = history.altered
    if read.digest and history.first_digest:
        if read.digest != history.first_digest:
            altered = Alteration.ALTERED
        elif history.is_replaced:
            altered = max(altered, Alteration.REPLACED)
    return read._replace(first_digest=history.first_digest, altered=altered)


class ClassifiedObjects(NamedTuple):
    """A day's objects by kind.

    `copies` maps the key of a copy to the key of its original. `left_out` are the keys of all other objects.
    """

    segments: tuple[ArchivedSegment, ...]
    copies: Mapping[str, str]
    left_out: frozenset[str]
    findings: tuple[Finding, ...]


ParsedObject = tuple[ListedSegment, SegmentMetadata | Finding]
"""A row with its parsed metadata, or with what is wrong with it."""


def parse(objects: Iterable[tuple[ListedSegment, UserMetadata]]) -> list[ParsedObject]:
    """Read the user metadata of objects."""
    return [(row, _parse(row, fields)) for row, fields in objects]


def classify(
    prefix: str, objects: Sequence[ParsedObject], copies: Mapping[str, str], compression: Compression | None = None
) -> ClassifiedObjects:
    """Tell segments from other objects. `compression` is the prefix's; None: unknown.

    `copies` are those of the whole day (`find_copied_objects`): they may lie in several shards.
    """
    findings = [outcome for _, outcome in objects if isinstance(outcome, Finding)]
    segments = [ArchivedSegment(row, outcome) for row, outcome in objects if isinstance(outcome, SegmentMetadata)]
    members = []
    for segment in segments:
        original = copies.get(segment.key)
        if original is not None:
            findings.append(_copy_finding(segment, original))
        elif segment.row.parsed is None:
            findings.append(_foreign(segment.row, "its key is not a segment's key"))
        else:
            members.append(segment)
            findings += [*_disagreement(prefix, segment), *_other_compression(segment, compression)]
    keys = {segment.key for segment in members}
    left_out = frozenset(row.key for row, _ in objects if row.key not in keys and row.key not in copies)
    present_copies = {segment.key: copies[segment.key] for segment in segments if segment.key in copies}
    return ClassifiedObjects(tuple(members), present_copies, left_out, tuple(findings))


def misplaced(prefix: str, objects: Sequence[ParsedObject]) -> list[str]:
    """Return the keys where the originals of misplaced objects would be, if the misplaced objects are copies."""
    expected = {
        expected_key(prefix, row, outcome)
        for row, outcome in objects
        if isinstance(outcome, SegmentMetadata) and not is_in_place(row, outcome)
    }
    return sorted(expected - {row.key for row, _ in objects}) if expected else []


def is_in_place(row: ListedSegment, metadata: SegmentMetadata) -> bool:
    """Return whether the key is the slot that the metadata names. Keys are canonical, so their parts are compared."""
    return row.parsed is not None and row.parsed[:3] == (metadata.minute, metadata.shard_id, metadata.first)


def expected_key(prefix: str, row: ListedSegment, metadata: SegmentMetadata) -> str:
    """Return the key of the slot that the metadata names; the compression is taken from the object's own key."""
    compression = Compression.ZSTD if row.key.endswith(Compression.ZSTD.extension) else Compression.GZIP
    return segment_key(prefix, metadata.shard_id, metadata.minute, metadata.first, compression)


def decode_if_ours(fields: UserMetadata) -> SegmentMetadata | None:
    """Parse the user metadata of an object; None when it is not a segment's."""
    if fields is None or not is_ours(fields):
        return None
    try:
        return SegmentMetadata.decode(fields)
    except FormatError:
        return None


def _parse(row: ListedSegment, fields: UserMetadata) -> SegmentMetadata | Finding:
    if fields is None:
        message = "the object was listed and was gone when it was read"
        return _row_finding(Code.UNREADABLE_OBJECT, row, message, severity="unknown")
    if not is_ours(fields):
        return _foreign(row, "it carries none of Minutebook's metadata")
    try:
        return SegmentMetadata.decode(fields)
    except FormatError as exc:
        return _row_finding(Code.METADATA_MISMATCH, row, str(exc))


def find_copied_objects(
    prefix: str,
    objects: Iterable[ParsedObject],
    elsewhere: Mapping[str, SegmentMetadata],
    compression: Compression | None,
) -> dict[str, str]:
    """Find objects with the same `writer`, which is unique per commit; return each copy's key with its original's.

    The original is the object in the slot that its metadata names, the archive's compression first; else the lowest
    key. `elsewhere` is the metadata, by key, of the objects outside the day that `misplaced` names.
    """
    groups: dict[tuple[str, int], list[ArchivedSegment]] = defaultdict(list)
    for row, outcome in objects:
        if isinstance(outcome, SegmentMetadata):
            groups[outcome.writer, row.size].append(ArchivedSegment(row, outcome))
    copies: dict[str, str] = {}
    for group in groups.values():
        if len(group) == 1 and is_in_place(*group[0]):
            continue
        inside = [segment for segment in group if is_in_place(*segment)]
        inside.sort(key=lambda segment: (_is_other(segment, compression), segment.key))
        expected = sorted({expected_key(prefix, *segment) for segment in group})
        outside = [key for key in expected if elsewhere.get(key) == group[0].metadata]
        keys = [segment.key for segment in inside] or outside or sorted(segment.key for segment in group)
        original = keys[0]
        copies |= {segment.key: original for segment in group if segment.key != original}
    return copies


def segment_finding(
    code: Code,
    segment: ArchivedSegment,
    message: str,
    *,
    keys: Iterable[str] = (),
    positions: Iterable[Position] = (),
    count: int = 1,
    unknown: bool = False,
    repaired: bool = False,
    contents: tuple[str, ...] = (),
) -> Finding:
    """Return a finding with a segment's shard, minute and key; `keys` are further keys."""
    return finding(
        code,
        message,
        severity="unknown" if unknown else "defect",
        shard=segment.metadata.shard_id,
        minute=minute_text(segment.metadata.minute),
        keys=[segment.key, *keys],
        positions=positions,
        count=count,
        repaired=repaired,
        contents=contents,
    )


def _disagreement(prefix: str, segment: ArchivedSegment) -> list[Finding]:
    if is_in_place(*segment):
        return []
    message = f"the metadata belongs at {expected_key(prefix, *segment)}"
    return [segment_finding(Code.METADATA_MISMATCH, segment, message, positions=[segment.metadata.first])]


def _other_compression(segment: ArchivedSegment, compression: Compression | None) -> list[Finding]:
    """Report a segment in another compression than the archive's: its writer did not see the slot's own object."""
    if not _is_other(segment, compression):
        return []
    message = (
        f"the archive is of {compression}: this is beside the slot, and the slot itself may hold its records too"
    )
    return [segment_finding(Code.METADATA_MISMATCH, segment, message, positions=[segment.metadata.first])]


def _is_other(segment: ArchivedSegment, compression: Compression | None) -> bool:
    parsed = segment.row.parsed
    return parsed is not None and compression not in {None, parsed.compression}


def _copy_finding(segment: ArchivedSegment, original: str) -> Finding:
    return segment_finding(
        Code.IDENTICAL_SEGMENT,
        segment,
        f"a copy of {original}: its records are not counted twice",
        keys=[original],
        positions=[segment.metadata.first, segment.metadata.last],
        count=segment.metadata.records,
    )


def _foreign(row: ListedSegment, why: str) -> Finding:
    return _row_finding(Code.FOREIGN_OBJECT, row, f"{why}; the prefix belongs to Minutebook alone")


def _row_finding(code: Code, row: ListedSegment, message: str, *, severity: Severity = "defect") -> Finding:
    return finding(
        code,
        message,
        severity=severity,
        shard=row.parsed.shard_id if row.parsed else None,
        minute=minute_text(row.parsed.minute) if row.parsed else None,
        keys=[row.key],
    )


def head_rows(storage: RetryingStorage, rows: Sequence[ListedSegment]) -> dict[str, UserMetadata]:
    """Return the metadata of objects by key, read many at once; None where an object is gone."""
    heads = in_parallel(lambda row: storage.head(row.key), rows)
    return {row.key: None if head is None else head.metadata for row, head in zip(rows, heads, strict=True)}
