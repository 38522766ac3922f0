"""The balance of lines: what was read is kept, repeated, left out or rejected, and nothing else. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from compaction.inventory.segments import Described
from compaction.tasks.facts import SegmentFacts
from compaction.verdict.audit_document import Equation


class Rows(NamedTuple):
    """What a rewrite wrote: `compacted` rows, `removed` producer duplicates less, `restored` rows more."""

    compacted: int | None = None
    removed: int = 0
    restored: int = 0


def balance(described: Described, facts: Mapping[str, SegmentFacts] | None, repeated: int, rows: Rows) -> Equation:
    """Return the balance of lines; without facts the numbers are those of the metadata."""
    if facts is None:
        raw = sum(segment.metadata.records for segment in described.segments)
        return Equation(raw=raw, unique=raw, duplicates=0, rejected=0, compacted=None, removed=0, balanced=True)
    members = {segment.key for segment in described.segments}
    raw = sum(read.lines for read in facts.values())
    copied = sum(read.lines for key, read in facts.items() if key in described.copies)
    good = sum(read.lines for key, read in facts.items() if key in members and not read.problem)
    rejected = sum(
        read.lines
        for key, read in facts.items()
        if key not in described.copies and (key not in members or read.problem)
    )
    unique = good - repeated - rows.removed
    return Equation(
        raw=raw,
        unique=unique,
        duplicates=copied + repeated,
        rejected=rejected,
        compacted=rows.compacted,
        removed=rows.removed,
        balanced=raw == unique + copied + repeated + rows.removed + rejected
        and rows.compacted in {None, unique + rows.restored},
        restored=rows.restored,
    )
