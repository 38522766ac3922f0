"""What clears an unknown finding, and until when. Pure."""

import shlex
from typing import Final

from compaction.verdict.audit_document import Audit
from compaction.verdict.findings import Code, Finding
from minutebook.coverage.chain import Reason
from minutebook.format.minute import iso_time, parse_iso_time

_HOUR_MS: Final = 3_600_000
_OF_TIME: Final = frozenset(
    {Code.MISSING_START, Code.UNPROVEN_CONTINUITY, Code.UNPROVEN_END, Code.UNCOVERED, Code.MISSING_SHARD}
)
"""Codes of what a comparison with the stream proves."""
_PASSES: Final = "Later evidence clears it, which each night reads."
_ACCEPTED: Final = "A person accepts it, whenever that is: compact --date {} --accept REASON."
_FOR_GOOD: Final = "Nothing: the raw segments are gone, and what was published keeps its verdict."
_AT_REST: Final = "A run that reads the day while nothing in it changes, whenever that is."


def what_clears(audit: Audit, retention_ms: int | None, about: Finding) -> str:
    """Return what clears an unknown finding, and until when it can; nothing for any other finding."""
    if about.severity != "unknown":
        return ""
    if sentence := repairable_until(audit, retention_ms, about):
        return f"{_PASSES} {sentence}" if Reason.NOT_COVERED in about.reasons else sentence
    return {
        Code.ALTERED_OBJECT.value: _ACCEPTED.format(audit.scope.day),
        Code.ARRIVAL_STEP_BACK.value: _ACCEPTED.format(audit.scope.day),
        Code.EXPIRED_DAY.value: _FOR_GOOD,
        Code.BROKEN_CHAIN.value: _AT_REST,
    }.get(about.code, f"A later run, once its cause is mended: minutebook docs how-to/findings {about.code}")


def repairable_until(audit: Audit, retention_ms: int | None, about: Finding) -> str:
    """Return until when level stream can still prove a time: while the stream holds its records. Else nothing."""
    if not _is_of_time(about):
        return ""
    held = _held_until(audit, retention_ms, about)
    if held is None or retention_ms is None:
        return "How long the stream keeps records could not be asked; while it does, level stream can prove this."
    now_ms, (first_ms, last_ms) = parse_iso_time(audit.audited_at), held
    last, present = iso_time(last_ms), f"(it keeps records for {retention_ms / _HOUR_MS:g} hours now)"
    if now_ms < first_ms:
        return f"Level stream can prove all of it until {iso_time(first_ms)}, and its end until {last} {present}."
    if now_ms < last_ms:
        return f"A part of it has left the stream. Level stream can prove its end until {last} {present}."
    return f"The stream held it until {last} {present}: only later evidence can prove it, or a person accepts it."


def stream_command(audit: Audit, retention_ms: int | None) -> str:
    """Return the command line that compares the day with the stream; nothing where that was done, or is of no use."""
    now_ms = parse_iso_time(audit.audited_at)
    held = [
        about
        for about in audit.findings
        if _is_of_time(about) and now_ms < (_held_until(audit, retention_ms, about) or (now_ms, now_ms + 1))[1]
    ]
    words = shlex.split(held[0].reproduce) if held and audit.level != "stream" else []
    if "--level" not in words:
        return ""
    words[words.index("--level") + 1] = "stream"
    if "--shard" in words:
        at = words.index("--shard")
        del words[at : at + 2]
    return shlex.join(words)


def _is_of_time(about: Finding) -> bool:
    return about.severity == "unknown" and about.code in _OF_TIME


def _held_until(audit: Audit, retention_ms: int | None, about: Finding) -> tuple[int, int] | None:
    """Return until when the stream holds the begin and the end of a time that is not proven; None: not known."""
    begin, end = about.begins or audit.scope.begins, about.until or audit.scope.until
    if retention_ms is None or not begin or not end:
        return None
    return parse_iso_time(begin) + retention_ms, parse_iso_time(end) + retention_ms
