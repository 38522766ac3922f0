"""What careless producers put into a shard as KPL aggregates, and what KCL delivers (minutebook/format/aggregate).

    empty ................ no user record: nothing
    cut off, damaged ..... no aggregate at all: the record as it is
    malformed ............ a user record whose key is beyond its table: the user records before it, perhaps none
    another shard's ...... a hash key outside the shard, by a shard map that is out of date: nothing
    of no shard .......... a hash key beyond all: nothing

KCL looks the shard's hash keys up for each batch (ProcessTask.java). In a list of shards that is as old as half a
minute a shard may be missing: a child that was born since, or a closed one that a filtered ListShards did not name
(KinesisShardDetector.java). Then it takes the batch apart as if every hash key were the shard's, and delivers
another shard's aggregates whole. So two deliveries of the same records may differ in such *strays*, and in nothing
else: what is malformed or of no shard is left out of both.

Some histories have producers of that kind (`Troubles.draw`): of most of them every delivery is filtered in one way,
in the others each batch has its own chance. Chance of their own decides it all: histories without them stay as
they are.
"""

import random
from typing import TYPE_CHECKING, Final, Self

from minutebook.format.aggregate import EVERY_HASH_KEY, LAST_HASH_KEY, HashRange
from tests.witness.aggregate import EMPTY, aggregate

if TYPE_CHECKING:
    from tests.simulation.services.kinesis import Fault, SimShard
    from tests.simulation.world import World

ALMOST_EVERY_HASH_KEY: Final = HashRange(1, LAST_HASH_KEY)
"""The hash keys of a stream's only shard, so that there are some that are not. A hole of one key is none."""
_FILTERED, _DIFFERENT = 0.25, 0.1
"""The share of histories with such producers: every delivery filtered alike, and not."""
_RATE: Final = 0.35
_UNKNOWING: Final = 0.4
"""How many batches KCL takes apart without the shard's hash keys where it may."""
_TEXTS: Final = (b"stray", b"no json", b"\xff\xfe")
"""Nothing that a producer's duplicate could be recognised by."""
_KEY: Final = "p1"


class Troubles:
    """What such producers do in one history. `differs`: two deliveries may be filtered differently."""

    def __init__(self, rng: random.Random, *, differs: bool) -> None:
        self.rng = rng
        self.differs = differs

    @classmethod
    def draw(cls, rng: random.Random, *, may_differ: bool) -> Self | None:
        """Decide whether a history has such producers."""
        chance = rng.random()
        if chance < _DIFFERENT and may_differ:
            return cls(rng, differs=True)
        return cls(rng, differs=False) if chance < _DIFFERENT + _FILTERED else None

    def filters(self, world: "World") -> bool:
        """Tell whether KCL knows the shard's hash keys when it takes the next batch apart."""
        if not self.differs or self.rng.random() >= _UNKNOWING:
            return True
        world.tally["KCL: a batch is taken apart without the shard's hash keys"] += 1
        return False

    def put(self, world: "World", shard: "SimShard", *, at_end: bool = False) -> None:
        """Put some trouble into a shard, or none; at its end rather some."""
        rng = self.rng
        if shard.closed or rng.random() > _RATE + at_end * 0.3:
            return
        for _ in range(rng.randint(1, 2)):
            rng.choice((self._empty, self._cut_off, self._malformed, self._stray, self._nowhere))(world, shard)
        if at_end and shard.held[-1].fault is not None:
            world.tally["aggregates: the last record of a closed shard is not delivered, or not all of it"] += 1

    def _empty(self, world: "World", shard: "SimShard") -> None:
        self._put(world, shard, "empty", [], EMPTY, "empty")

    def _cut_off(self, world: "World", shard: "SimShard") -> None:
        whole = aggregate([(_KEY, text) for text in self._texts()])
        cut = whole[: self.rng.randrange(5, len(whole))] if self.rng.random() < 0.5 else whole[:-1] + b"\0"
        if cut == whole:
            cut = whole[:-1] + b"\1"
        self._put(world, shard, "cut off or damaged", [cut], cut, None)

    def _malformed(self, world: "World", shard: "SimShard") -> None:
        texts = self._texts()
        at = self.rng.randrange(len(texts))
        inside = [shard.hash_range.first] * len(texts)
        data = aggregate([(_KEY, text) for text in texts], hash_keys=inside, broken_at=at)
        what = "malformed, with a good beginning" if at else "malformed from its beginning"
        self._put(world, shard, what, texts[:at], data, "malformed")

    def _stray(self, world: "World", shard: "SimShard") -> None:
        if shard.hash_range == EVERY_HASH_KEY:
            return
        span, texts, rng = shard.hash_range, self._texts(), self.rng
        hash_keys = [span.first] * len(texts)
        # Behind the stranger one may be malformed, too: without the shard's hash keys KCL delivers up to there.
        stranger = rng.randrange(len(texts))
        hash_keys[stranger] = span.first - 1 if span.first else span.last + 1
        broken_at = rng.choice((None, None, *range(stranger + 1, len(texts))))
        data = aggregate([(_KEY, text) for text in texts], hash_keys=hash_keys, broken_at=broken_at)
        seen = texts[:broken_at] if self.differs else []
        self._put(world, shard, "another shard's", seen, data, "outside_hash_range")

    def _nowhere(self, world: "World", shard: "SimShard") -> None:
        texts = self._texts()
        hash_keys = [*[shard.hash_range.first] * (len(texts) - 1), LAST_HASH_KEY + 1]
        data = aggregate([(_KEY, text) for text in texts], hash_keys=hash_keys)
        self._put(world, shard, "of no shard", [], data, "outside_hash_range")

    def _texts(self) -> list[bytes]:
        return [self.rng.choice(_TEXTS) + b" %d" % number for number in range(self.rng.randint(1, 3))]

    def _put(
        self,
        world: "World",
        shard: "SimShard",
        what: str,
        payloads: list[bytes],
        data: bytes,
        fault: "Fault | None",
    ) -> None:
        world.tally[f"aggregates: {what}"] += 1
        arrival_ms = int((world.now + self.rng.choice((0, 0, -0.5))) * 1000)
        shard.put_now(payloads, arrival_ms, _KEY, world.now, self.rng.randint(1, 9), data=data, fault=fault)
        world.note("producer", f"{shard.shard_id[-2:]} an aggregate, {what}: {len(payloads)} user records")
