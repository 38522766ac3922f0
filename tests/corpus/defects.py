"""Every defect breaks one shard of a corpus in one way, and says which findings an audit must report, no others."""

from tests.corpus.chain_defects import (
    expired_end,
    forked_chain,
    lost_continuity,
    missing_day,
    missing_first,
    missing_object,
    missing_start,
    missing_tail,
    overlapping_segments,
    unproven_continuity,
    unproven_end,
    unreadable_end,
    unreadable_marker,
    wrong_end,
)
from tests.corpus.event_defects import (
    dropped_without_original,
    other_event_after_midnight,
    other_events_with_an_id,
    repeated_after_midnight,
    repeated_event,
    repeated_in_another_shard,
    repeated_later,
)
from tests.corpus.model import Corpus, Defect, Expected
from tests.corpus.object_defects import (
    copied_from_another_day,
    copied_object,
    copied_to_a_foreign_name,
    copied_to_the_other_name,
    edited_arrival,
    edited_count,
    edited_minute,
    edited_payload_bytes,
    flipped_bit,
    foreign_object,
    lost_line,
    other_compression,
    other_shards_line,
    repeated_line,
    slot_held_twice,
    swapped_lines,
    torn_object,
    truncated_object,
    unreadable_metadata,
    wrong_minute,
)
from tests.searching import IS_DEEP

DEFECTS: tuple[Defect, ...] = (
    missing_object,
    missing_day,
    missing_tail,
    copied_object,
    copied_to_a_foreign_name,
    copied_to_the_other_name,
    copied_from_another_day,
    truncated_object,
    flipped_bit,
    swapped_lines,
    edited_count,
    edited_payload_bytes,
    lost_line,
    repeated_line,
    dropped_without_original,
    overlapping_segments,
    forked_chain,
    edited_arrival,
    edited_minute,
    unreadable_metadata,
    torn_object,
    foreign_object,
    wrong_minute,
    other_shards_line,
    other_compression,
    slot_held_twice,
    unproven_continuity,
    lost_continuity,
    missing_start,
    missing_first,
    unreadable_marker,
    unproven_end,
    expired_end,
    unreadable_end,
    wrong_end,
)
PRODUCER_DEFECTS: tuple[Defect, ...] = (
    repeated_event,
    repeated_later,
    repeated_after_midnight,
    repeated_in_another_shard,
    other_events_with_an_id,
    other_event_after_midnight,
)
"""Seen when the audit is told that an event's id stands under `n`."""
SUCCESSOR_ONLY = frozenset({missing_day})
"""Needs a segment in the next day."""
NAMED_END_ONLY = frozenset({missing_tail})
"""Needs an end that a marker or a checkpoint names."""


def break_shard(corpus: Corpus, defect: Defect, number: int) -> list[Expected]:
    """Apply a defect to one shard, at a segment inside the day."""
    shard = corpus.shards[number]
    inside = shard.in_day(corpus.day)
    return defect(corpus, shard, corpus.rng.choice(inside[1:-1]))


def broken_shards() -> list[tuple[Defect, int]]:
    """Return each defect with the number of a shard that it suits: one, in turn, and all three in `make deep`."""
    pairs: list[tuple[Defect, int]] = []
    for turn, defect in enumerate(DEFECTS):
        numbers = [number for number in range(3) if suits(defect, number)]
        pairs += [(defect, number) for number in (numbers if IS_DEEP else [numbers[turn % len(numbers)]])]
    return pairs


def suits(defect: Defect, number: int) -> bool:
    """Tell whether a defect can be applied to the shard of this number; see `Corpus`."""
    if defect in SUCCESSOR_ONLY:
        return number % 3 == 0
    return number % 3 != 0 if defect in NAMED_END_ONLY else True
