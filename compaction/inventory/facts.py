"""Facts about a segment's lines: one small value per object, sent from a task to the driver.

`parquet.reading` measures them, `tasks.finished` keeps them for later runs, `audit.rules.lines` judges them.
"""

from collections.abc import Mapping
from typing import NamedTuple

from minutebook.format.position import Position


class Disorder(NamedTuple):
    """Adjacent lines whose positions do not ascend. `repeated` counts equal positions."""

    stepped_back: int = 0
    repeated: int = 0
    samples: tuple[str, ...] = ()


class SegmentFacts(NamedTuple):
    """What the body of one object holds.

    `first` and `last` are the positions of the first and last line, `low` and `high` the least and greatest; None
    when there is no line. Arrival times are epoch milliseconds. `problem` is empty when every line was read.
    `changed`: the object is no longer the one that was listed.
    """

    key: str
    metadata: Mapping[str, str] | None
    lines: int = 0
    raw_bytes: int = 0
    payload_bytes: int = 0
    first: Position | None = None
    last: Position | None = None
    low: Position | None = None
    high: Position | None = None
    arrival_min_ms: int = 0
    arrival_max_ms: int = 0
    disorder: Disorder = Disorder()
    wrong_minute: int = 0
    wrong_shard: int = 0
    problem: str = ""
    changed: bool = False

    @property
    def is_sorted(self) -> bool:
        """Return whether the lines are in the shard's order, each once."""
        return not (self.disorder.stepped_back or self.disorder.repeated)
