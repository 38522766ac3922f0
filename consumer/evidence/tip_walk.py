"""Reading a shard on to its tip, or to its end: is there anything behind a position that KCL would deliver? Pure.

Records count as KCL delivers them. An aggregate that is empty, malformed, or whose hash keys lie outside the shard
delivers nothing, or its good beginning: what is withheld is noted and passed over. The rest of the aggregate that
the position lies in counts as behind it, so a walk that begins at the position reads its own Kinesis record again.
"""

import enum
from typing import Literal, NamedTuple

from consumer.stream.port import ShardInfo
from minutebook.aws.kinesis.answers import Answer, HeldRecord
from minutebook.format.aggregate import EVERY_HASH_KEY, DeliveredAggregate, Fault, HashRange, deaggregate
from minutebook.format.position import Position

WithheldReason = Literal["empty", "malformed", "outside_hash_range"]
_REASONS: dict[Fault | None, WithheldReason] = {
    None: "empty",
    Fault.MALFORMED: "malformed",
    Fault.OUTSIDE_SHARD: "outside_hash_range",
}


class Reached(enum.Enum):
    """Where an answer leads to."""

    MORE = "a record that KCL would deliver lies behind the position"
    TIP = "nothing is left to read now"
    END = "nothing is left to read for ever"


class Withheld(NamedTuple):
    """A Kinesis record whose user records, from `first_sub` on, KCL does not deliver."""

    record: HeldRecord
    first_sub: int
    reason: WithheldReason


class TipWalk:
    """One walk, fed with the answers in their order; `opened` is the one that brought the iterator.

    `record` is the Kinesis record at the position, if the walk came upon it. Times are the service's: `asked_ms` of
    the answer before the last request was sent, `answered_ms` of the last answer; None where there was no Date.
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
        """Take the next answer; None: read on."""
        self.asked_ms, self.answered_ms = self.answered_ms, answer.date_ms
        self.iterator = answer.iterator
        for record in answer.records:
            if self._is_behind(record):
                return Reached.MORE
        if answer.iterator is None:
            return Reached.END
        return Reached.TIP if answer.is_tip else None

    def _is_behind(self, record: HeldRecord) -> bool:
        """Tell whether KCL would deliver something of a record that lies behind the position."""
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
    """Say what KCL withholds of a record, and why."""
    return Withheld(record, len(delivery.delivered), _REASONS[delivery.fault])


def shard_hash_range(info: ShardInfo | None) -> HashRange:
    """Return the hash keys by which KCL judges a shard's aggregates; all where the stream does not say."""
    if info is None or not info.starting_hash_key or not info.ending_hash_key:
        return EVERY_HASH_KEY
    return HashRange(int(info.starting_hash_key), int(info.ending_hash_key))
