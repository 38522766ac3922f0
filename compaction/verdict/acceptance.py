"""A person's decision to accept what is wrong with a day, or cannot be proven of it. Pure.

It is bound to the findings, not to the objects: late data may still be published under it. It holds while a fresh
judgement finds nothing else, and a new finding ends it. The verdict stays what it is.

A finding that counts says what it counted, too (`Finding.contents`): other lines that are lost from the same object
are another finding, although their number is the same.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from compaction.verdict.findings import Code, Finding
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
    """Why a day was accepted, when (ISO 8601), and what of it: findings, and checks that found nothing and failed.

    `names_contents`: of each finding that has contents. Earlier releases named those of altered objects and of
    dropped records; what they accepted goes on without the others.
    """

    reason: str
    accepted_at: str
    findings: tuple[AcceptedFinding, ...] = ()
    checks: tuple[str, ...] = ()
    names_contents: bool = False


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
        names_contents=True,
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
        any(_includes(accepted, about, acceptance) for accepted in acceptance.findings)
        for about in findings
        if about.severity != "warning"
    )


def _includes(accepted: AcceptedFinding, about: Finding, acceptance: Acceptance) -> bool:
    """Return whether a finding is the accepted one, or a part of it.

    One that stands for many is it only while they are the same ones. A time that is not proven gets shorter when
    evidence comes, and is then called by another code and other keys; one in which KCL skipped a batch, of which
    nothing had told, is another one. What was accepted as unknown and is a defect now was not accepted.
    """
    is_worse = about.severity == "defect" and accepted.severity not in {"", "defect"}
    if is_worse or about.shard != accepted.shard:
        return False
    is_unnamed = bool(about.contents) and not acceptance.names_contents and about.code != Code.ALTERED_OBJECT
    if about.digest and accepted.digest and not is_unnamed:
        return (about.code, about.digest) == (accepted.code, accepted.digest)
    if not (set(about.contents) <= set(accepted.contents) or (is_unnamed and not accepted.contents)):
        return False
    if about.begins and accepted.begins:
        # ISO 8601 in UTC: the order of texts is that of times.
        is_inside = accepted.begins <= about.begins and about.until <= accepted.until
        return is_inside and (about.severity == "unknown" or about.code == accepted.code)
    return (
        about.code == accepted.code
        and about.minute == accepted.minute
        and set(about.keys) <= set(accepted.keys)
        and about.count <= accepted.count
    )
