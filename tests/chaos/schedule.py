"""What is done to the workers, to the stream and to the servers, and when: decided by the seed alone.

The acts come in decks: every deck holds each kind, shuffled. Whom an act strikes is a number from the seed, too; it
picks among those that are there when the act's time has come.
"""

import random
from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple


class Kind(StrEnum):
    """What an act does."""

    KILL_PROCESSOR = "SIGKILL of a processor"
    KILL_DAEMON = "SIGKILL of a daemon"
    KILL_SUPERVISOR = "SIGKILL of a supervisor"
    RESTART_WORKER = "SIGTERM of a worker"
    FREEZE_WORKER = "SIGSTOP of a worker"
    STEAL_LEASE = "lease given away"
    KILL_S3 = "SIGKILL of S3"
    S3_STORM = "storm before S3"
    DYNAMODB_STORM = "storm before DynamoDB"
    SPLIT = "split"
    MERGE = "merge"
    LOSE_TABLE = "lease table deleted"


STRIKE_WORKERS: Final = frozenset(
    {Kind.KILL_PROCESSOR, Kind.KILL_DAEMON, Kind.KILL_SUPERVISOR, Kind.RESTART_WORKER, Kind.FREEZE_WORKER}
)
"""Acts that stop a worker's processes."""


class Act(NamedTuple):
    """One act. It begins `gap_seconds` after the one before it; `seconds` is its length, where it has one.

    `pick` in [0, 1) says whom it strikes; `coin` decides between two ways of doing it.
    """

    kind: Kind
    gap_seconds: float
    seconds: float
    pick: float
    coin: bool


_GAPS: Final = (3.0, 12.0)
_LENGTHS: Final = {
    Kind.KILL_S3: (1.0, 6.0),
    Kind.S3_STORM: (4.0, 15.0),
    Kind.DYNAMODB_STORM: (4.0, 15.0),
    Kind.LOSE_TABLE: (2.0, 12.0),
}
_TWICE: Final = (Kind.FREEZE_WORKER, Kind.SPLIT, Kind.MERGE, Kind.STEAL_LEASE)


OPENING: Final = (Kind.KILL_PROCESSOR, Kind.S3_STORM, Kind.SPLIT, Kind.DYNAMODB_STORM)
"""What a short run begins with: it may end before its first deck does, and a freeze bars kills for long."""


def schedule(rng: random.Random, *, is_long: bool) -> Iterator[Act]:
    """Yield acts without end.

    A short run begins with `OPENING`, and never loses the lease table: that stops everybody for a while.
    """
    opening = () if is_long else OPENING
    kinds = [kind for kind in Kind if is_long or kind is not Kind.LOSE_TABLE]
    while True:
        deck = [*kinds, *_TWICE]
        for kind in opening:
            deck.remove(kind)
        rng.shuffle(deck)
        deck[:0], opening = opening, ()
        for kind in deck:
            yield Act(
                kind,
                gap_seconds=rng.uniform(*_GAPS),
                seconds=rng.uniform(*_LENGTHS.get(kind, (0.0, 0.0))),
                pick=rng.random(),
                coin=rng.random() < 0.5,
            )


def pick(candidates: list[str], number: float) -> str:
    """Return the candidate that a number in [0, 1) stands for; the caller gives them in a fixed order."""
    return candidates[int(number * len(candidates))]
