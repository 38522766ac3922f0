"""How far the arrival times of one shard may step back, and how far searches look for what such a step has hidden.

AWS promises no bound ("no guarantees about the time stamp accuracy, or that it is always increasing").
"""

from typing import Final

from minutebook.format.minute import MINUTE_MS

ARRIVAL_STEP_BACK_MS: Final = MINUTE_MS
"""How far the arrival times of one shard may step back, and those of two of Kinesis' hosts differ.

It belongs to format 1 and never changes: the `from` of marks and the evidence of segments are written with it.
"""
STEP_BACK_MINUTES: Final = range(1, ARRIVAL_STEP_BACK_MS // MINUTE_MS + 2)
"""How many minutes segments may lie apart against the order of their chain."""
MIDNIGHT_EDGE_MS: Final = ARRIVAL_STEP_BACK_MS + 2 * MINUTE_MS
"""How far beside its day a segment may lie in its chain: a step back, and the minute of each of the two segments."""
STREAM_MARGIN_MS: Final = 5 * ARRIVAL_STEP_BACK_MS
"""How far outside a day the stream is read for it. More than a step back costs records that are read and left out."""
SEARCH_REACH_DAYS: Final = 2
"""How many days that hold something are looked at behind the nearest segment, where a verdict or a row rests on it.

Too many only cost LISTs; too few would take an original for missing.
"""
TAIL_REACH_MINUTES: Final = 120
"""How far behind the last segment of a shard a later one is looked for.

Hours are enough: an older segment found in its place costs reading and nothing else (`consumer.archived.chain_ends`),
and `status` searches each time that it draws.
"""
