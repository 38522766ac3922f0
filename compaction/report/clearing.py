"""What clears an unknown finding, and until when. Pure."""

import shlex
from typing import Final

from compaction.report.deadlines import deadline_of, held_until, is_of_time
from compaction.verdict.audit_document import Audit
from compaction.verdict.findings import Code, Finding
from minutebook.coverage.chain import Reason
from minutebook.format.minute import parse_iso_time

_PASSES: Final = "Later evidence clears it, which each night reads."
_ACCEPTED: Final = "A person accepts it, whenever that is: compact --date {} --accept REASON."
_FOR_GOOD: Final = "Nothing: the raw segments are gone, and what was published keeps its verdict."
_AT_REST: Final = "A run that reads the day while nothing in it changes, whenever that is."


def what_clears(audit: Audit, retention_ms: int | None, about: Finding) -> str:
    """Return what clears an unknown finding, and until when it can; nothing for any other finding."""
    if about.severity != "unknown":
        return ""
    if is_of_time(about) and (deadline := deadline_of(audit, retention_ms, about)) is not None:
        return f"{_PASSES} {deadline.sentence}" if Reason.NOT_COVERED in about.reasons else deadline.sentence
    return {
        Code.ALTERED_OBJECT.value: _ACCEPTED.format(audit.scope.day),
        Code.ARRIVAL_STEP_BACK.value: _ACCEPTED.format(audit.scope.day),
        Code.EXPIRED_DAY.value: _FOR_GOOD,
        Code.BROKEN_CHAIN.value: _AT_REST,
    }.get(about.code, f"A later run, once its cause is mended: minutebook docs how-to/findings {about.code}")


def stream_command(audit: Audit, retention_ms: int | None) -> str:
    """Return the command line that compares the day with the stream; nothing where that was done, or is of no use."""
    now_ms = parse_iso_time(audit.audited_at)
    held = [
        about
        for about in audit.findings
        if is_of_time(about) and now_ms < (held_until(audit, retention_ms, about) or (now_ms, now_ms + 1))[1]
    ]
    words = shlex.split(held[0].reproduce) if held and audit.level != "stream" else []
    if "--level" not in words:
        return ""
    words[words.index("--level") + 1] = "stream"
    if "--shard" in words:
        at = words.index("--shard")
        del words[at : at + 2]
    return shlex.join(words)
