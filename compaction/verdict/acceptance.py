"""A person's decision to accept what is wrong with a day, or cannot be proven of it. Pure.

It is bound to the findings, not to the objects: late data may still be published under it. It holds while a fresh
judgement finds nothing else, and a new finding ends it. The verdict stays what it is.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from compaction.verdict.findings import Finding
from minutebook.published.verdict import CLEAN, Verdict


class AcceptedFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A finding that was accepted, by what names it: see `Finding`. Earlier acceptances lack `severity`, `digest`."""

    code: str
    severity: str = ""
    shard: str | None = None
    minute: str | None = None
    keys: tuple[str, ...] = ()
    count: int = 1
    begins: str = msgspec.field(default="", name="from")
    until: str = ""
    digest: str = ""
    contents: tuple[str, ...] = ()


class Acceptance(msgspec.Struct, frozen=True, kw_only=True):
    """Why a day was accepted, when (ISO 8601), and what of it: findings, and checks that found nothing and failed."""

    reason: str
    accepted_at: str
    findings: tuple[AcceptedFinding, ...] = ()
    checks: tuple[str, ...] = ()


def accept(findings: Sequence[Finding], checks: Iterable[str], reason: str, accepted_at: str) -> Acceptance:
    """Return the acceptance of what keeps a day from being clean."""
    return Acceptance(
        reason=reason,
        accepted_at=accepted_at,
        findings=tuple(
            AcceptedFinding(
                code=about.code,
                severity=about.severity,
                shard=about.shard,
                minute=about.minute,
                keys=about.keys,
                count=about.count,
                begins=about.begins,
                until=about.until,
                digest=about.digest,
                contents=about.contents,
            )
            for about in findings
            if about.severity != "warning"
        ),
        checks=tuple(sorted(set(checks))),
    )


class Decision(NamedTuple):
    """What a person decided of a day: an `earlier` acceptance, and the `reason` of one that is given now."""

    earlier: Acceptance | None
    reason: str | None
    now: str

    def on(self, verdict: Verdict, findings: Sequence[Finding], checks: Sequence[str]) -> Acceptance | None:
        """Return the acceptance of a judgement: a new one, or the earlier one while it holds; None: there is none."""
        if verdict == CLEAN:
            return None
        if self.reason is not None:
            return accept(findings, checks, self.reason, self.now)
        return self.earlier if self.earlier is not None and still_holds(self.earlier, findings, checks) else None


def still_holds(acceptance: Acceptance, findings: Sequence[Finding], checks: Iterable[str]) -> bool:
    """Return whether a judgement finds nothing but what was accepted."""
    return set(checks) <= set(acceptance.checks) and all(
        any(_includes(accepted, about) for accepted in acceptance.findings)
        for about in findings
        if about.severity != "warning"
    )


def _includes(accepted: AcceptedFinding, about: Finding) -> bool:
    """Return whether a finding is the accepted one, or a part of it.

    One that stands for many is it only while they are the same ones. A time that is not proven gets shorter when
    evidence comes, and is then called by another code and other keys. What was accepted as unknown and is a defect
    now was not accepted.
    """
    is_worse = about.severity == "defect" and accepted.severity not in {"", "defect"}
    if is_worse or about.shard != accepted.shard:
        return False
    if about.digest and accepted.digest:
        return (about.code, about.digest) == (accepted.code, accepted.digest)
    if about.begins and accepted.begins:
        # ISO 8601 in UTC: the order of texts is that of times.
        is_inside = accepted.begins <= about.begins and about.until <= accepted.until
        return is_inside and (about.severity == "unknown" or about.code == accepted.code)
    return (
        about.code == accepted.code
        and about.minute == accepted.minute
        and set(about.keys) <= set(accepted.keys)
        and set(about.contents) <= set(accepted.contents)
        and about.count <= accepted.count
    )
