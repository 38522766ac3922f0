"""What a table holds of a day: its manifest's files, and live parts of which the inventory names nothing. Pure.

    a live part's segments                          the part
    none is in the inventory, or gone               stays
    all are in the inventory, or gone               leaves: its rows are in the manifest's files
    some are                                        is cut: its other rows become a part of their own

A segment is known by its key. `gone` are those behind the end of what is published that the inventory lacks, and that
a LIST does not show any more: whoever deleted them did so before the night that does not know them.

`minutebook follow`, `compact --so-far` and the night commit by this function: so whichever of them comes last, the
table is the same (docs/decisions/0047-a-table-minutes-old.md).
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple


class SegmentedPart(NamedTuple):
    """A live part, and the keys of its segments."""

    key: str
    rows: int
    segments: Collection[str]


class DayParts(NamedTuple):
    """The live parts that belong into the table: as they are, or after they were `cut` to the segments that stay.

    `cut` maps a part's key to these segments.
    """

    stay: tuple[SegmentedPart, ...]
    cut: Mapping[str, frozenset[str]]


def day_parts(parts: Iterable[SegmentedPart], covered: Collection[str], gone: Collection[str] = ()) -> DayParts:
    """Return which of a day's live parts belong into the table beside the files of its manifest."""
    stay, cut = list[SegmentedPart](), dict[str, frozenset[str]]()
    for part in parts:
        rest = frozenset(key for key in part.segments if key not in covered and key not in gone)
        if len(rest) == len(part.segments):
            stay.append(part)
        elif rest:
            cut[part.key] = rest
    return DayParts(tuple(stay), cut)


def target_generation(generation: str, live: Collection[str]) -> str:
    """Return the name of what the table holds: the generation's, or one for it and these live parts."""
    if not live:
        return generation
    digest = hashlib.sha256("\n".join([generation, *sorted(live)]).encode())
    return f"live-{digest.hexdigest()[:16]}"
