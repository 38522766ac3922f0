"""What a report shows and what it folds: the worst shards first, and findings in groups. Pure.

A page that grows with the stream is one that nobody reads, or can open. So the rest is folded, and counted where it
is folded: a report that hides something says how much.
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
"""Findings that a page can show whole, each in its own row of a group."""
_KEYS: Final = 5
_LONGEST: Final = 1_200
_LONGEST_MANY: Final = 300
_RANK: Final = {"defect": 0, "unknown": 1, "warning": 2}


class Folded(NamedTuple):
    """The shards that are shown, the worst first, and those that are folded, with what is known of them."""

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
    """Findings of one code and severity. `samples` are the first ones; `by_shard` the shards with most of them."""

    code: str
    severity: str
    findings: int
    total: int
    shards: int
    by_shard: tuple[ShardCount, ...]
    samples: tuple[Finding, ...]

    @property
    def more(self) -> int:
        """Findings that the page leaves to audit.json."""
        return self.findings - len(self.samples)


def fold_shards(shards: Sequence[Shard], findings: Sequence[Finding], limit: int = SHARDS_SHOWN) -> Folded:
    """Return the shards with the worst findings first: all that are below the limit, in the order of names."""
    worst: dict[str, int] = {}
    hits: Counter[str] = Counter()
    for found in findings:
        if found.shard is not None:
            worst[found.shard] = min(worst.get(found.shard, len(_RANK)), _RANK[found.severity])
            hits[found.shard] += 1
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
    """Return findings by code and severity, in the order in which they come: the worst first."""
    groups: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for found in findings:
        groups[found.code, found.severity].append(found)
    few = len(findings) <= _FEW
    return tuple(_group(code, severity, members, few=few) for (code, severity), members in groups.items())


def _group(code: str, severity: str, members: Sequence[Finding], *, few: bool) -> Group:
    by_shard: dict[str, list[Finding]] = defaultdict(list)
    for found in members:
        by_shard[found.shard or ""].append(found)
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
        total=sum(found.count for found in members),
        shards=len(rows),
        by_shard=() if few else tuple(rows[:_GROUP_SHARDS]),
        samples=tuple(_clipped(found, few=few) for found in (members if few else members[:_GROUP_SAMPLES])),
    )


def _clipped(found: Finding, *, few: bool) -> Finding:
    longest = _LONGEST if few else _LONGEST_MANY
    return msgspec.structs.replace(
        found,
        message=clip(found.message, _LONGEST),
        keys=tuple(clip(key, longest) for key in (found.keys if few else found.keys[:_KEYS])),
        positions=tuple(clip(place, longest) for place in (found.positions if few else found.positions[:_KEYS])),
        reproduce=clip(found.reproduce, _LONGEST),
    )


def clip(text: str, longest: int = 80) -> str:
    """Return a text that fits, and says where it was cut."""
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text):,} characters)"


def visible_text(text: str) -> str:
    """Return a text with a sign for each character that shows nothing, or turns the direction of what follows."""
    return "".join(character if character.isprintable() or character == "\n" else "�" for character in text)
