"""Findings of a shard, as many as an answer holds: a shard that is broken throughout says so once."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import msgspec

from compaction.verdict.findings import SAMPLES, Finding

_MANY: Final = 50
"""Findings of one code and shard that are told one by one; more become one that counts them."""


def bounded(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings of which not many have one code, severity and shard: those become one that counts them."""
    groups: dict[tuple[str, str, str | None, bool], list[Finding]] = defaultdict(list)
    for found in findings:
        groups[found.code, found.severity, found.shard, found.repaired].append(found)
    return [found for group in groups.values() for found in (group if len(group) <= _MANY else [_together(group)])]


def _together(findings: Sequence[Finding]) -> Finding:
    first = findings[0]
    keys = dict.fromkeys(key for found in findings for key in found.keys)
    positions = dict.fromkeys(position for found in findings for position in found.positions)
    return msgspec.structs.replace(
        first,
        message=f"{len(findings)} findings like this one: {first.message}",
        minute=None,
        keys=tuple(keys)[:SAMPLES],
        positions=tuple(positions)[:SAMPLES],
        count=sum(found.count for found in findings),
    )
