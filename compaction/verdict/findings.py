"""Findings: what an audit says, in the words that `audit.json`, the report and the terminal share.

A *defect* is something wrong. An *unknown* is something that could not be proven; it is never turned into a pass. A
*warning* is worth a look and breaks no promise.
"""

import enum
from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from minutebook.format.position import Position

Severity = Literal["defect", "unknown", "warning"]
SAMPLES: Final = 20
"""Keys and positions that one finding shows at most; `count` counts all."""


class Code(enum.StrEnum):
    """What an audit can find. Severity and message are given where it is found (`compaction.audit`)."""

    DUPLICATE_RECORD = "duplicate_record"  # the same record is archived more than once
    OVERLAPPING_SEGMENTS = "overlapping_segments"  # two segments cover the same part of a shard
    IDENTICAL_SEGMENT = "identical_segment"  # an object is a copy of another segment
    OUT_OF_ORDER = "out_of_order"  # records inside a segment are not in the shard's order
    BROKEN_CHAIN = "broken_chain"  # a segment names a predecessor that is missing: records are lost
    FORKED_CHAIN = "forked_chain"  # two segments claim the same predecessor
    MISSING_START = "missing_start"  # the start of the shard's chain is not proven
    UNPROVEN_CONTINUITY = "unproven_continuity"  # records may be missing before a segment: reading resumed too late
    UNPROVEN_END = "unproven_end"  # nothing proves that the shard's day ends where its segments end
    UNCOVERED = "uncovered"  # a time of the shard of which nothing proves that all that arrived is archived
    MISSING_SHARD = "missing_shard"  # a shard, or a part of the stream's hash keys, that nobody is known to have read
    UNDELIVERED = "undelivered"  # records that KCL would not deliver are kept beside the archive
    COUNT_MISMATCH = "count_mismatch"  # a segment does not hold what its metadata counts
    METADATA_MISMATCH = "metadata_mismatch"  # a segment's metadata contradicts its key or its lines
    UNREADABLE_OBJECT = "unreadable_object"  # an object cannot be read
    FOREIGN_OBJECT = "foreign_object"  # an object below the prefix is not Minutebook's
    ARRIVAL_STEP_BACK = "arrival_step_back"  # arrival times of a shard step back further than proofs assume
    WRONG_MINUTE = "wrong_minute"  # a segment holds records of another minute
    PRODUCER_DUPLICATE = "producer_duplicate"  # the same event has several positions: a producer's retry
    ID_CONFLICT = "id_conflict"  # two events with one id: the same id, and another payload
    DROPPED_WITHOUT_ORIGINAL = "dropped_without_original"  # a record was dropped as a duplicate of nothing
    MISSING_IN_ARCHIVE = "missing_in_archive"  # the stream holds a record that the archive does not
    NOT_IN_STREAM = "not_in_stream"  # the archive holds a record that the stream does not
    EXPIRED_DAY = "expired_day"  # the day's raw segments were deleted on purpose: nothing is left to judge
    UNFIT_PAYLOAD = "unfit_payload"  # payloads do not fit the typed columns: their rows say why, and keep them whole
    TABLE_CONFLICT = "table_conflict"  # a column is another one in the Iceberg table: the day is not in it
    MAPPING_UNKNOWN = "mapping_unknown"  # the columns that a day was published with are not known: it stays as it is
    ALTERED_OBJECT = "altered_object"  # an object is not the one that was published first, or that is not known
    REPLACED = "replaced"  # an object was stored again with the same content: a copy, a restore
    LATE_MINUTES = "late_minutes"  # objects came, went or changed after the day was published


class ColumnConflict(msgspec.Struct, frozen=True, kw_only=True):
    """A column that does not fit a table; `column` is a path within structs and lists."""

    table: str
    column: str
    table_type: str
    day_type: str


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding.

    `shard` and `minute` (`2026-11-21T10:16Z`) are null where it concerns none or several. `keys` and `positions`
    (`<sequence>:<sub>`) are at most 20 samples; `count` counts all. `reproduce` is a command line. `repaired`: the
    raw objects are as wrong as before, and the Parquet files of this run are not. Where it is about a time that is
    not proven, `from` and `until` are its ends (ISO 8601), and `reasons` say why (`docs/reliability.md`).
    `conflict` names the types of a column that keep the day out of a table; its position and minute are those of the
    first row that has a value in the column. `digest` is that of all the findings that one of them stands for, where
    it stands for many. `contents` are digests of what was found: of objects that are not as they were first or have
    a defect of their own, of dropped records whose originals are not archived, of positions that are missing, of
    skipped batches that a time may miss. Another content is another finding.
    """

    code: str
    severity: Severity
    message: str
    shard: str | None = None
    minute: str | None = None
    keys: tuple[str, ...] = ()
    positions: tuple[str, ...] = ()
    count: int = 1
    reproduce: str = ""
    repaired: bool = False
    begins: str = msgspec.field(default="", name="from")
    until: str = ""
    reasons: tuple[str, ...] = ()
    conflict: ColumnConflict | None = None
    digest: str = ""
    contents: tuple[str, ...] = ()


def finding(
    code: Code,
    message: str,
    *,
    severity: Severity = "defect",
    shard: str | None = None,
    minute: str | None = None,
    keys: Iterable[str] = (),
    positions: Iterable[Position] = (),
    count: int = 1,
    repaired: bool = False,
    reasons: tuple[str, ...] = (),
    contents: tuple[str, ...] = (),
) -> Finding:
    """Make a finding with at most 20 samples."""
    return Finding(
        code=code.value,
        severity=severity,
        message=message,
        shard=shard,
        minute=minute,
        keys=tuple(keys)[:SAMPLES],
        positions=tuple(str(position) for position in list(positions)[:SAMPLES]),
        count=count,
        repaired=repaired,
        reasons=reasons,
        contents=contents,
    )


_ORDER: Final = {"defect": 0, "unknown": 1, "warning": 2}
_CODES: Final = {code.value: number for number, code in enumerate(Code)}


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings, the worst first, then by code, shard and minute: the same set always reads the same."""

    def key(about: Finding) -> tuple[int, int, str, str, tuple[str, ...]]:
        return _ORDER[about.severity], _CODES[about.code], about.shard or "", about.minute or "", about.keys

    return sorted(findings, key=key)
