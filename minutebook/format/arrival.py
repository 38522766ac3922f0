"""How far arrival times of one shard may step back, and how far searches go because of it.

AWS promises no bound ("no guarantees about the time stamp accuracy, or that it is always increasing").
"""

from typing import Final

from minutebook.format.minute import MINUTE_MS

ARRIVAL_STEP_BACK_MS: Final = MINUTE_MS
"""The largest step back within a shard, and the largest difference between the clocks of two of Kinesis' hosts.

A constant of format 1: the `from` of marks and the evidence of segments are written with it.
"""
STEP_BACK_MINUTES: Final = range(1, ARRIVAL_STEP_BACK_MS // MINUTE_MS + 2)
"""By how many minutes a segment may precede its predecessor in the chain."""
MIDNIGHT_EDGE_MS: Final = ARRIVAL_STEP_BACK_MS + 2 * MINUTE_MS
"""How far outside a day its chain may continue: a step back, and the minute of each of the two segments."""
STREAM_MARGIN_MS: Final = 5 * ARRIVAL_STEP_BACK_MS
"""How far outside a day the stream is read. More than a step back only costs records that are read and left out."""
SEARCH_REACH_DAYS: Final = 2
"""How many non-empty days are searched beyond the nearest segment if a verdict or a row depends on the result.

Too many only cost LISTs; too few would report an existing original as missing.
"""
TAIL_REACH_MINUTES: Final = 120
"""How far after the last segment of a shard a search looks for a later one.

Hours are enough: using an older segment only costs reading (`consumer.archived.chain_ends`), and `status` repeats the
search with every refresh.
"""
