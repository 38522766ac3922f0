"""Limit a report: show the worst shards first, group findings, and count what is folded. Pure.

A page that grew with the stream could not be read, or even opened.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from compaction.verdict.audit_document import Shard
from compaction.verdict.findings import Finding

SHARDS_SHOWN: Final = 120
_GROUP_SHARDS: Final = 20
_GROUP_SAMPLES: Final = 5
_FEW: Final = 20
"""Up to so many findings are shown in full, each in its own row of a group."""
_KEYS: Final = 5
_LONGEST: Final = 1_200
_LONGEST_MANY: Final = 300
_RANK: Final = {"defect": 0, "unknown": 1, "warning": 2}


class Folded(NamedTuple):
    """The shards to show, the worst first, and the folded ones with their numbers."""

    shown: tuple[Shard, ...]
    folded: tuple[Shard, ...]
    with_findings: int
    unproven: int

    @property
    def objects(self) -> int:
        """Objects of the folded shards."""
        return sum(shard.objects for shard in self.folded)

    @property
    def records(self) -> int:
        """Records of the folded shards."""
        return sum(shard.records for shard in self.folded)

    @property
    def payload_bytes(self) -> int:
        """Payload bytes of the folded shards."""
        return sum(shard.payload_bytes for shard in self.folded)


class ShardCount(NamedTuple):
    """A shard's part of a group."""

    shard: str
    findings: int
    total: int
    first_minute: str


class Group(NamedTuple):
    """Findings of one code and severity: the first ones, and the shards with the most."""

    code: str
    severity: str
    findings: int
    total: int
    shards: int
    by_shard: tuple[ShardCount, ...]
    samples: tuple[Finding, ...]

    @property
    def more(self) -> int:
        """Number of findings that are only in audit.json."""
        return self.findings - len(self.samples)


def fold_shards(shards: Sequence[Shard], findings: Sequence[Finding], limit: int = SHARDS_SHOWN) -> Folded:
    """Fold all but the `limit` worst shards; if there are no more than that, sort them by name."""
    worst: dict[str, int] = {}
    hits: Counter[str] = Counter()
    for finding in findings:
        if finding.shard is not None:
            worst[finding.shard] = min(worst.get(finding.shard, len(_RANK)), _RANK[finding.severity])
            hits[finding.shard] += 1
    if len(shards) <= limit:
        return Folded(tuple(sorted(shards, key=lambda shard: shard.shard)), (), 0, 0)
    ranked = sorted(
        shards,
        key=lambda shard: (
            worst.get(shard.shard, len(_RANK)),
            bool(shard.start_proof and shard.end_proof),
            -hits[shard.shard],
            shard.shard,
        ),
    )
    folded = tuple(ranked[limit:])
    return Folded(
        tuple(ranked[:limit]),
        folded,
        sum(shard.shard in worst for shard in folded),
        sum(not (shard.start_proof and shard.end_proof) for shard in folded),
    )


def group_findings(findings: Sequence[Finding]) -> tuple[Group, ...]:
    """Group findings by code and severity, in their order: the worst first."""
    groups: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        groups[finding.code, finding.severity].append(finding)
    few = len(findings) <= _FEW
    return tuple(_group(code, severity, members, few=few) for (code, severity), members in groups.items())


def _group(code: str, severity: str, members: Sequence[Finding], *, few: bool) -> Group:
    by_shard: dict[str, list[Finding]] = defaultdict(list)
    for finding in members:
        by_shard[finding.shard or ""].append(finding)
    rows = [
        ShardCount(
            clip(shard, _LONGEST_MANY),
            len(hits),
            sum(hit.count for hit in hits),
            min((hit.minute for hit in hits if hit.minute), default=""),
        )
        for shard, hits in by_shard.items()
        if shard
    ]
    rows.sort(key=lambda row: (-row.findings, -row.total, row.shard))
    return Group(
        code=code,
        severity=severity,
        findings=len(members),
        total=sum(finding.count for finding in members),
        shards=len(rows),
        by_shard=() if few else tuple(rows[:_GROUP_SHARDS]),
        samples=tuple(_clipped(finding, few=few) for finding in (members if few else members[:_GROUP_SAMPLES])),
    )


def _clipped(finding: Finding, *, few: bool) -> Finding:
    longest = _LONGEST if few else _LONGEST_MANY
    return msgspec.structs.replace(
        finding,
        message=clip(finding.message, _LONGEST),
        keys=tuple(clip(key, longest) for key in (finding.keys if few else finding.keys[:_KEYS])),
        positions=tuple(clip(place, longest) for place in (finding.positions if few else finding.positions[:_KEYS])),
        reproduce=clip(finding.reproduce, _LONGEST),
    )


def clip(text: str, longest: int = 80) -> str:
    """Return a text of at most `longest` characters, with a note if it was cut."""
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text):,} characters)"


def visible_text(text: str) -> str:
    """Return a text with a replacement for characters that are invisible or change the text direction."""
    return "".join(character if character.isprintable() or character == "\n" else "�" for character in text)
