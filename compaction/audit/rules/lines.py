"""What a segment's lines must agree with: its metadata, its minute, and each other; and their balance. Pure.

One fault is reported once: an object that cannot be read is not counted too, and lines that are missing do not also
count as wrong ends of the span. These rules see facts, never lines: a check that needs the lines adds a fact to
`SegmentFacts`, which `parquet.reading` measures and `tasks.finished` keeps, and its code to `conclusion.BY_LINES`.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from compaction.inventory.segments import (
    Alteration,
    ArchivedSegment,
    ClassifiedObjects,
    ListedSegment,
    SegmentFacts,
    segment_finding,
)
from compaction.tasks.merging import Repeat
from compaction.verdict.audit_document import Equation
from compaction.verdict.findings import Code, Finding, Severity, finding
from minutebook.format.metadata import SegmentMetadata
from minutebook.format.minute import minute_text
from minutebook.format.position import Position

_ALTERATIONS: Final[Mapping[Alteration, tuple[Code, Severity, str, tuple[str, ...]]]] = {
    Alteration.ALTERED: (
        Code.ALTERED_OBJECT,
        "defect",
        "its bytes or its metadata are not those of its first reading, or were not meanwhile",
        (),
    ),
    Alteration.NO_FIRST_DIGEST: (
        Code.ALTERED_OBJECT,
        "unknown",
        "it was stored again after its day was published, and no digest of its first content is held",
        ("no_first_digest",),
    ),
    Alteration.REPLACED: (Code.REPLACED, "warning", "it was stored again, with the same bytes and metadata", ()),
}


def check_lines(segments: Iterable[ArchivedSegment], facts: Mapping[str, SegmentFacts]) -> list[Finding]:
    """Compare what was read of each segment with its metadata and key."""
    return [
        finding
        for segment in segments
        if (read := facts.get(segment.key)) is not None
        for finding in _check(segment, read)
    ]


def with_contents(findings: Iterable[Finding], facts: Mapping[str, SegmentFacts]) -> list[Finding]:
    """Return findings about objects, each with the digest of what was read of its object.

    An object with a defect of its own has no first content that later readings are compared with. Who accepts it
    accepts what it holds: with other lines missing it is another finding.
    """
    return [
        msgspec.structs.replace(about, contents=(read.digest,))
        if about.keys and (read := facts.get(about.keys[0])) is not None and read.digest
        else about
        for about in findings
    ]


def alteration_findings(rows: Iterable[ListedSegment], facts: Mapping[str, SegmentFacts]) -> list[Finding]:
    """Return what became of objects since their day was published, whatever else is wrong with them.

    One that has its first content again is as it was: an acceptance of another one still holds.
    """
    return [
        finding(
            code,
            message,
            severity=severity,
            shard=row.parsed.shard_id if row.parsed else None,
            minute=minute_text(row.parsed.minute) if row.parsed else None,
            keys=[row.key],
            reasons=reasons,
            contents=() if code is Code.REPLACED or read.digest in {"", read.first_digest} else (read.digest,),
        )
        for row in rows
        if (read := facts.get(row.key)) is not None and read.altered in _ALTERATIONS
        for code, severity, message, reasons in [_ALTERATIONS[read.altered]]
    ]


def repeat_findings(repeats: Iterable[Repeat]) -> list[Finding]:
    """Return one finding per group of objects that share positions."""
    return [
        finding(
            Code.DUPLICATE_RECORD,
            "several lines have the same positions"
            + (f"; {repeat.differing} of them differ in their content" if repeat.differing else ""),
            shard=repeat.shard_id,
            minute=minute_text(repeat.minute),
            keys=repeat.keys,
            positions=[Position.parse(text) for text in repeat.positions],
            count=repeat.surplus,
        )
        for repeat in repeats
    ]


def _check(segment: ArchivedSegment, read: SegmentFacts) -> list[Finding]:
    if read.changed:
        return [
            segment_finding(Code.UNREADABLE_OBJECT, segment, f"{read.problem}: it changed meanwhile", unknown=True)
        ]
    if read.problem:
        return [segment_finding(Code.UNREADABLE_OBJECT, segment, read.problem)]
    findings: list[Finding] = []
    if read.disorder.stepped_back:
        samples = [Position.parse(text) for text in read.disorder.samples]
        findings.append(
            segment_finding(
                Code.OUT_OF_ORDER,
                segment,
                "lines do not ascend in position",
                positions=samples,
                count=read.disorder.stepped_back,
            )
        )
    if read.wrong_minute:
        findings.append(
            segment_finding(Code.WRONG_MINUTE, segment, "lines of another minute of arrival", count=read.wrong_minute)
        )
    if read.wrong_shard:
        findings.append(
            segment_finding(Code.METADATA_MISMATCH, segment, "lines that name another shard", count=read.wrong_shard)
        )
    return findings + _counts(segment, read)


def _counts(segment: ArchivedSegment, read: SegmentFacts) -> list[Finding]:
    metadata = segment.metadata
    if (read.lines, read.payload_bytes) != (metadata.records, metadata.payload_bytes):
        return [
            segment_finding(
                Code.COUNT_MISMATCH,
                segment,
                f"{read.lines} lines and {read.payload_bytes} payload bytes; the metadata counts {metadata.records} "
                f"and {metadata.payload_bytes}",
                count=abs(read.lines - metadata.records) or 1,
            ),
            *_ends(segment, read, strict=False),
        ]
    return _ends(segment, read, strict=not metadata.dropped)


def _ends(segment: ArchivedSegment, read: SegmentFacts, *, strict: bool) -> list[Finding]:
    """Compare the span and the arrival times; not strict: the lines may cover less than the span."""
    metadata = segment.metadata
    if read.low is None or read.high is None:
        return []
    span_fits = (read.low, read.high) == (metadata.first, metadata.last) if strict else _inside(metadata, read)
    times = (read.arrival_min_ms, read.arrival_max_ms)
    stated = (metadata.arrival_min_ms, metadata.arrival_max_ms)
    times_fit = times == stated if strict else (stated[0] <= times[0] and times[1] <= stated[1])
    if span_fits and (times_fit or read.wrong_minute):
        return []
    lines = (
        f"lines from {read.low} to {read.high}" if not span_fits else f"arrival times from {times[0]} to {times[1]}"
    )
    expected = f"{metadata.first} to {metadata.last}" if not span_fits else f"{stated[0]} to {stated[1]}"
    return [
        segment_finding(
            Code.METADATA_MISMATCH,
            segment,
            f"{lines}; the metadata says {expected}",
            positions=[read.low, read.high],
        )
    ]


def _inside(metadata: SegmentMetadata, read: SegmentFacts) -> bool:
    return read.low is not None and read.high is not None and metadata.first <= read.low <= read.high <= metadata.last


class Rows(NamedTuple):
    """What a rewrite wrote: `compacted` rows, `removed` producer duplicates less, `restored` rows more.

    `records`: those of the rows, where one may be several; None: each row is one.
    """

    compacted: int | None = None
    removed: int = 0
    restored: int = 0
    records: int | None = None


class Counts(NamedTuple):
    """Lines of some objects: all, those of copies, of segments that were read to their end, and of what is left."""

    raw: int = 0
    copied: int = 0
    good: int = 0
    rejected: int = 0

    def plus(self, other: "Counts") -> "Counts":
        """Return the sums."""
        return Counts(*(one + two for one, two in zip(self, other, strict=True)))


def count(classified: ClassifiedObjects, facts: Mapping[str, SegmentFacts] | None) -> Counts:
    """Count lines; without facts the numbers are those of the metadata."""
    if facts is None:
        raw = sum(segment.metadata.records for segment in classified.segments)
        return Counts(raw, good=raw)
    members = {segment.key for segment in classified.segments}
    return Counts(
        raw=sum(read.lines for read in facts.values()),
        copied=sum(read.lines for key, read in facts.items() if key in classified.copies),
        good=sum(read.lines for key, read in facts.items() if key in members and not read.problem),
        rejected=sum(
            read.lines
            for key, read in facts.items()
            if key not in classified.copies and (key not in members or read.problem)
        ),
    )


def balance(counts: Counts, repeated: int, rows: Rows) -> Equation:
    """Return the balance of lines."""
    unique = counts.good - repeated - rows.removed
    return Equation(
        raw=counts.raw,
        unique=unique,
        duplicates=counts.copied + repeated,
        rejected=counts.rejected,
        compacted=rows.compacted,
        removed=rows.removed,
        balanced=counts.raw == unique + counts.copied + repeated + rows.removed + counts.rejected
        and (rows.compacted if rows.records is None else rows.records) in {None, unique + rows.restored},
        restored=rows.restored,
        records=rows.records,
    )
