"""Read a shard to its tip or end, to find a record after a position that KCL would deliver. Pure.

Records count as KCL delivers them. Of an aggregate that is empty, malformed, or whose hash keys lie outside the
shard, KCL delivers nothing or its valid beginning; the walk collects what is withheld and passes it. The rest of the
aggregate at the position counts as after it, so a walk begins with the Kinesis record at the position.
"""

import enum
from typing import Literal, NamedTuple

from minutebook.aws.kinesis.answers import Answer, HeldRecord
from minutebook.format.aggregate import DeliveredAggregate, Fault, HashRange, deaggregate
from minutebook.format.position import Position

WithheldReason = Literal["empty", "malformed", "outside_hash_range"]
_REASONS: dict[Fault | None, WithheldReason] = {
    None: "empty",
    Fault.MALFORMED: "malformed",
    Fault.OUTSIDE_SHARD: "outside_hash_range",
}


class Reached(enum.Enum):
    """How far an answer has brought the walk."""

    MORE = "a record that KCL would deliver lies after the position"
    TIP = "nothing is left to read now"
    END = "nothing is left to read for ever"


class Withheld(NamedTuple):
    """A Kinesis record whose user records, from `first_sub` on, KCL does not deliver."""

    record: HeldRecord
    first_sub: int
    reason: WithheldReason


class TipWalk:
    """One walk, which takes the answers in order; `opened` is the one with the first iterator.

    `record` is the Kinesis record at the position, if the walk met it. Times are the service's: `asked_ms` of the
    answer before the last request, `answered_ms` of the last answer; None without a Date header.
    """

    def __init__(self, position: Position | None, hash_range: HashRange, opened: Answer) -> None:
        self.iterator = opened.iterator
        self.record: HeldRecord | None = None
        self.withheld: list[Withheld] = []
        self.asked_ms: int | None = None
        self.answered_ms = opened.date_ms
        self._position = position
        self._hash_range = hash_range

    def take(self, answer: Answer) -> Reached | None:
        """Take the next answer; return None if the walk must go on."""
        self.asked_ms, self.answered_ms = self.answered_ms, answer.date_ms
        self.iterator = answer.iterator
        for record in answer.records:
            if self._is_behind(record):
                return Reached.MORE
        if answer.iterator is None:
            return Reached.END
        return Reached.TIP if answer.is_tip else None

    def _is_behind(self, record: HeldRecord) -> bool:
        """Return whether KCL would deliver a part of `record` after the position."""
        archived = -1
        if self._position is not None:
            if record.sequence < self._position.sequence:
                return False
            if record.sequence == self._position.sequence:
                self.record, archived = record, self._position.sub
        delivery = deaggregate(record.partition_key, record.data, self._hash_range)
        delivered = len(delivery.delivered)
        if delivery.withheld or not delivered:
            self.withheld.append(withheld_of(record, delivery))
        return delivered > archived + 1


def withheld_of(record: HeldRecord, delivery: DeliveredAggregate) -> Withheld:
    """Return what KCL withholds of a record, and why."""
    return Withheld(record, len(delivery.delivered), _REASONS[delivery.fault])
