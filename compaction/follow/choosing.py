"""Which of the segments that were read become rows of a live part; the others are left out and named. Pure.

The night is the judge: what it would call a defect is no row before it has judged. Gaps and unproven links are no
reason: they say nothing against the records that are there.

A record's minute never changes, so two segments share a record only if they are of one shard and one minute. Of two
that overlap the one that is shown already stays, else the first one by key.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from compaction.inventory.segments import ListedSegment, SegmentFacts, is_in_place
from compaction.live.day import overlap
from compaction.live.parts import Span, overlapped, span_of
from minutebook.errors import FormatError
from minutebook.format.keys import slot_folder
from minutebook.format.metadata import SegmentMetadata, is_ours

Slots = Mapping[str, Mapping[str, Span]]
"""Spans of segments by key, by the folder of their minute and shard."""


class LeftOut(NamedTuple):
    """A segment that is no row, and why. `is_passing`: it is read again at the next tick."""

    row: ListedSegment
    reason: str
    is_passing: bool = False


class Chosen(NamedTuple):
    """The segments that become rows, with what was read of them, and those that do not."""

    rows: tuple[ListedSegment, ...]
    left_out: tuple[LeftOut, ...]


def choose(read: Sequence[tuple[ListedSegment, SegmentFacts]], shown: Slots) -> Chosen:
    """Choose among segments in the order of keys; `shown` are those that are rows already, in the same slots."""
    slots: dict[str, dict[str, Span]] = defaultdict(dict)
    for folder, spans in shown.items():
        slots[folder].update(spans)
    rows, left_out = list[ListedSegment](), list[LeftOut]()
    for row, facts in sorted(read, key=lambda pair: pair[0].key):
        reason = objection(row, facts)
        others, span = slots[slot_folder(row.key)], span_of(facts)
        if not reason and (other := overlapped(span, others)):
            reason = overlap(other)
        if reason:
            left_out.append(LeftOut(row, reason, is_passing=facts.changed))
        else:
            rows.append(row)
            others[row.key] = span
    return Chosen(tuple(rows), tuple(left_out))


def objection(row: ListedSegment, read: SegmentFacts) -> str:
    """Return why a segment is no row, by itself; empty: it is one."""
    if read.changed or read.problem:
        return read.problem
    if read.metadata is None or not is_ours(read.metadata):
        return "it carries none of Minutebook's metadata"
    try:
        metadata = SegmentMetadata.decode(read.metadata)
    except FormatError as exc:
        return str(exc)
    span = span_of(read)
    reasons = {
        "its metadata belongs at another key": not is_in_place(row, metadata),
        f"it holds {read.lines} lines, its metadata say {metadata.records}": read.lines != metadata.records,
        "its lines are not in the order of positions": not read.is_sorted,
        "it holds lines of another minute or shard": bool(read.wrong_minute or read.wrong_shard),
        "its lines lie outside of the range in its metadata": span is not None
        and not metadata.first <= span[0] <= span[1] <= metadata.last,
    }
    return next((reason for reason, is_so in reasons.items() if is_so), "")
