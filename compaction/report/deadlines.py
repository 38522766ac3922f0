"""Until when a finding can be repaired or proven: while the stream still holds its records. Pure."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from compaction.verdict.audit_document import Audit
from compaction.verdict.findings import Code, Finding
from minutebook.format.minute import HOUR_MS, MINUTE_MS, iso_time, parse_iso_time, parse_minute_text

_OF_TIME: Final = frozenset(
    {Code.MISSING_START, Code.UNPROVEN_CONTINUITY, Code.UNPROVEN_END, Code.UNCOVERED, Code.MISSING_SHARD}
)
"""Codes of what a comparison with the stream proves."""
_OF_RECORDS: Final = {
    Code.BROKEN_CHAIN: "`minutebook restore --as-of` lets workers read them again",
    Code.MISSING_IN_ARCHIVE: "`minutebook restore --as-of` lets workers read them again",
    Code.FORKED_CHAIN: "level stream shows which segment is right",
}
"""Codes of records that the stream can deliver again, or be compared with, and what does that."""


class Deadline(NamedTuple):
    """What can be done until when, in a sentence. `until_ms`: null where it is not known, or over."""

    sentence: str
    until_ms: int | None = None


def deadline_of(audit: Audit, retention_ms: int | None, about: Finding) -> Deadline | None:
    """Return until when the stream helps with a finding; None: it never does."""
    if is_of_time(about):
        return _of_time(audit, retention_ms, about)
    if about.severity != "warning" and about.code in _OF_RECORDS and about.minute is not None:
        return _of_records(audit, retention_ms, about, about.minute)
    return None


def is_of_time(about: Finding) -> bool:
    """Return whether a finding is about a time that a comparison with the stream proves."""
    return about.severity == "unknown" and about.code in _OF_TIME


def held_until(audit: Audit, retention_ms: int | None, about: Finding) -> tuple[int, int] | None:
    """Return until when the stream holds the begin and the end of a time that is not proven; None: not known."""
    begin, end = about.begins or audit.scope.begins, about.until or audit.scope.until
    if retention_ms is None or not begin or not end:
        return None
    return parse_iso_time(begin) + retention_ms, parse_iso_time(end) + retention_ms


def nearest_deadline(deadlines: Iterable[Deadline | None]) -> int | None:
    """Return the first of those that are not over, in epoch milliseconds."""
    return min((each.until_ms for each in deadlines if each is not None and each.until_ms is not None), default=None)


def _of_time(audit: Audit, retention_ms: int | None, about: Finding) -> Deadline:
    held = held_until(audit, retention_ms, about)
    if held is None or retention_ms is None:
        return Deadline(
            "How long the stream keeps records could not be asked; while it does, level stream can prove this."
        )
    now_ms, (first_ms, last_ms) = parse_iso_time(audit.audited_at), held
    last, present = iso_time(last_ms), f"(it keeps records for {retention_ms / HOUR_MS:g} hours now)"
    if now_ms < first_ms:
        return Deadline(
            f"Level stream can prove all of it until {iso_time(first_ms)}, and its end until {last} {present}.",
            first_ms,
        )
    if now_ms < last_ms:
        return Deadline(
            f"A part of it has left the stream. Level stream can prove its end until {last} {present}.", last_ms
        )
    return Deadline(
        f"The stream held it until {last} {present}: only later evidence can prove it, or a person accepts it."
    )


def _of_records(audit: Audit, retention_ms: int | None, about: Finding, minute: str) -> Deadline:
    what = _OF_RECORDS[Code(about.code)]
    if retention_ms is None:
        return Deadline(f"How long the stream keeps records could not be asked; while it does, {what}.")
    left_ms = parse_minute_text(minute) * MINUTE_MS + retention_ms
    present = f"(it keeps records for {retention_ms / HOUR_MS:g} hours now)"
    if parse_iso_time(audit.audited_at) < left_ms:
        return Deadline(
            f"The stream holds what arrived in {minute} until {iso_time(left_ms)} {present}; what came before leaves "
            f"earlier. Until then {what}.",
            left_ms,
        )
    return Deadline(
        f"What arrived in {minute} left the stream at {iso_time(left_ms)} {present}: only a version or a copy of the "
        "objects helps, or a person accepts it."
    )
