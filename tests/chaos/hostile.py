"""Hostile producers in the traffic of a chaos run, and what became of each thing that they sent.

poison ........ an aggregate that no KPL wrote, of which KCL delivers nothing, or its good beginning
bomb .......... 0.7 MB that KCL alone would make gigabytes of: delivered whole
nothing ....... an aggregate without a record
stray ......... an aggregate whose keys belong to another shard: KCL delivers nothing, and says nothing
conflict ...... two events with one id: both are kept
retry ......... an event that its producer sent twice: the second one is left out
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from demo.ledger import RecordRef
from demo.readback import StoredSegment
from minutebook.format.aggregate import DeliveredAggregate, Fault, HashRange
from tests.chaos.feeder import Feeder
from tests.fakes.aggregates import BOMB, poison_aggregate, random_aggregate
from tests.witness.aggregate import EMPTY, aggregate
from tests.witness.events import Event
from tests.witness.ledger import Producer, Sent

if TYPE_CHECKING:
    from mypy_boto3_kinesis.type_defs import ShardTypeDef

_HOSTILE_EVERY: Final = 4
"""Puts between two hostile ones."""
_KINDS: Final = ("poison", "odd", "nothing", "stray", "conflict", "retry")
_BOMB_EVERY: Final = 40
"""Hostile puts between two bombs: kinesis-local takes seconds for a large answer."""

CLAIMS: Final[Mapping[str, str]] = {"dedupe": "claims", "eventId": "id"}
"""The settings that make ids matter."""


class Withheld(NamedTuple):
    """A Kinesis record of which KCL delivers not all, and why; `reason` is the aggregate's fault, or `empty`."""

    shard: str
    sequence: int
    reason: str


class HostileFeeder(Feeder):
    """A feeder that also sends what no producer should. `shards` returns the rows of ListShards."""

    def __init__(
        self, producer: Producer, rng: random.Random, rate: float, shards: Callable[[], Mapping[str, "ShardTypeDef"]]
    ) -> None:
        super().__init__(producer, rng, rate)
        self.sent: Counter[str] = Counter()
        self.withheld: list[Withheld] = []
        self.retries: set[RecordRef] = set()
        self._shards = shards
        self._ranges: dict[str, HashRange] = {}
        self._puts = 0

    def _next_put(self, *, is_aggregate: bool) -> Callable[[], object]:
        self._puts += 1
        if self._puts % _HOSTILE_EVERY:
            return super()._next_put(is_aggregate=is_aggregate)
        return self._hostile_put

    def _hostile_put(self) -> None:
        kind = "bomb" if self._puts % (_HOSTILE_EVERY * _BOMB_EVERY) == 0 else self._rng.choice(_KINDS)
        self.sent[kind] += 1
        match kind:
            case "conflict" | "retry":
                self._put_twice(is_retry=kind == "retry")
            case "bomb":
                self._put_raw(BOMB)
            case "nothing":
                self._put_raw(EMPTY)
            case "stray":
                self._put_raw(aggregate([(self._key(), b"stray") for _ in range(5)]))
            case "poison":
                self._put_raw(poison_aggregate(self._rng, self._key()))
            case _:
                self._put_raw(random_aggregate(self._rng))

    def _put_raw(self, data: bytes) -> None:
        place, delivery = self._producer.put_judged(self._key(), data, self._range_of)
        if delivery.withheld or not delivery.delivered:
            self.withheld.append(Withheld(place.shard_id, place.position.sequence, _reason(delivery)))

    def _put_twice(self, *, is_retry: bool) -> None:
        """Put two events of one id, in two requests: the stream's order is that of the puts on a shard alone."""
        key, name = self._key(), f"order-{self._puts}"
        payload = f'{{"id":"{name}","n":{self._puts}}}'.encode()
        other = payload if is_retry else payload + b" "
        places = [self._producer.put([Sent(key, data)])[0] for data in (payload, other)]
        if is_retry:
            self.retries.update(places)

    def _range_of(self, shard_id: str) -> HashRange:
        if shard_id not in self._ranges:
            row = self._shards()[shard_id]["HashKeyRange"]
            self._ranges[shard_id] = HashRange(int(row["StartingHashKey"]), int(row["EndingHashKey"]))
        return self._ranges[shard_id]


@dataclass(frozen=True, kw_only=True)
class Hostile:
    """What became of it. `wrongly_dropped`: left out as a producer's copy, and none."""

    sent: Mapping[str, int] = field(default_factory=dict)
    withheld: Sequence[Withheld] = ()
    told: frozenset[int] = frozenset()
    dropped: int = 0
    wrongly_dropped: Sequence[RecordRef] = ()
    conflicts_told: int = 0
    skipped_batches: int = 0

    @property
    def untold(self) -> list[Withheld]:
        """Malformed records of which no line told: a supervisor that is killed takes lines with it."""
        return [one for one in self.withheld if one.reason == Fault.MALFORMED and one.sequence not in self.told]

    def rows(self) -> list[str]:
        """Return the report's rows."""
        reasons = Counter(one.reason for one in self.withheld)
        counts: dict[str, int] = {
            **{f"sent: {kind}": count for kind, count in sorted(self.sent.items())},
            **{f"not delivered by KCL: {reason}": count for reason, count in sorted(reasons.items())},
            "malformed, and no line told": len(self.untold),
            "batches skipped (and read again)": self.skipped_batches,
            "left out as producers' copies": self.dropped,
            "left out, and no copy": len(self.wrongly_dropped),
            "conflicts of ids told": self.conflicts_told,
        }
        rows = ["", "hostile producers", *(f"  {name:<36} {count:>6}" for name, count in counts.items())]
        rows += [f"  not delivered: {one.shard} {one.sequence} {one.reason}" for one in self.withheld[:10]]
        rows += [f"  no line told: {one.shard} {one.sequence}" for one in self.untold[:10]]
        return rows + [f"  left out, and no copy: {place}" for place in self.wrongly_dropped[:10]]


def judge(feeder: Feeder, segments: Sequence[StoredSegment], events: Iterable[Event]) -> Hostile | None:
    """Return what became of what a hostile feeder sent; None for another feeder."""
    if not isinstance(feeder, HostileFeeder):
        return None
    skips = [event for event in events if event.get("event") == "kcl_skipped"]
    conflicts = [event for event in events if event.get("event") == "id_conflict"]
    dropped = [record.ref for segment in segments for record in segment.dropped]
    return Hostile(
        sent=dict(feeder.sent),
        withheld=feeder.withheld,
        told=frozenset(int(event["sequence_number"]) for event in skips if event.get("sequence_number")),
        dropped=len(dropped),
        wrongly_dropped=sorted(set(dropped) - feeder.retries),
        conflicts_told=sum(event["records"] for event in conflicts),
        skipped_batches=sum(event["skipped"] == "batch" for event in skips),
    )


def _reason(delivery: DeliveredAggregate) -> str:
    return "empty" if delivery.fault is None else str(delivery.fault)
