"""What an audit must report of a defect, and what a defect is.

A defect is a function of (corpus, shard, index of a segment of the day) that changes the corpus.
"""

import enum
from collections.abc import Callable
from typing import NamedTuple

from compaction.verdict.findings import Code
from tests.corpus.model import Corpus, Shard


class Seen(enum.Flag):
    """At which level a finding is reported."""

    INVENTORY = enum.auto()
    KEYS = enum.auto()
    BOTH = INVENTORY | KEYS


class Expected(NamedTuple):
    """A finding that must be reported. `keys` must be among its keys."""

    code: Code
    shard: str | None
    keys: tuple[str, ...]
    times: int = 1
    severity: str = "defect"
    seen: Seen = Seen.BOTH


Defect = Callable[[Corpus, Shard, int], list[Expected]]
