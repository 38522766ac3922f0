"""The stream of one history: shards that split and merge, stamps that step back, records that retention trims.

A stamp lies up to a minute before the moment of its record's arrival, so every later one may, too. A Date is the
service's time in whole seconds. Both are what coverage assumes, and no kinder.
"""

import functools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from consumer.stream.port import ShardInfo, StreamIdentity
from minutebook.aws.kinesis.answers import Answer, Beginning, HeldRecord
from minutebook.clock import Clock
from minutebook.errors import StreamUnavailable
from minutebook.format.aggregate import LAST_HASH_KEY, HashRange, deaggregate
from minutebook.format.position import Position
from tests.fakes.aggregates import field as pb_field
from tests.fakes.aggregates import record as pb_record
from tests.fakes.aggregates import seal

if TYPE_CHECKING:
    from tests.boundaries.world import World

SECOND: Final = 1000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
ARN: Final = "arn:aws:kinesis:eu-central-1:000000000000:stream/flights"
_ITERATOR_MS: Final = 5 * MINUTE
_PAGE: Final = 50
_STEP_MS: Final = 59_900


class Kept(NamedTuple):
    """One Kinesis record: stamped at `stamp_ms`, arrived at `at_ms`; KCL delivers `users` records of it."""

    sequence: int
    stamp_ms: int
    at_ms: int
    data: bytes
    users: tuple[bytes, ...]


@functools.cache
def _shape(name: str, first: int, last: int) -> tuple[bytes, tuple[bytes, ...]]:
    """Return the data of a Kinesis record of a shard with these hash keys, and what KCL delivers of it."""
    keys = pb_field(1, b"k") + pb_field(2, str(first).encode())
    if name == "plain":
        data = b"r"
    elif name == "empty":
        data = seal(keys)
    elif name == "malformed":  # the second record's partition key does not exist
        data = seal(keys + pb_record(b"a", hash_key=0) + pb_record(b"b", key=5, hash_key=0))
    else:
        data = seal(keys + b"".join(pb_record(b"%d" % number, hash_key=0) for number in range(int(name))))
    delivery = deaggregate("k", data, HashRange(first, last))
    return data, tuple(user.data for user in delivery.delivered)


@dataclass(eq=False)
class Shard:
    """One shard. `missing` are the user records that are not archived, with their stamps; without spacing: quiet."""

    name: str
    keys: tuple[int, int]
    parents: tuple[str, ...]
    born_ms: int
    spacing_ms: int
    next_ms: int
    children: tuple[str, ...] = ()
    closed_ms: int | None = None
    records: list[Kept] = field(default_factory=list)
    trimmed: int = 0
    missing: dict[Position, int] = field(default_factory=dict)

    def index_of(self, sequence: int) -> int:
        """Return the index of the first record at or behind a sequence number."""
        low, high = 0, len(self.records)
        while low < high:
            middle = (low + high) // 2
            if self.records[middle].sequence < sequence:
                low = middle + 1
            else:
                high = middle
        return low


class Stream:
    """The shards, by id. `shapes` are the names of what arrives; `step_ms` is how far stamps step back.

    `least_spacing_ms`: while nobody looks, little arrives. No stamp lies before `floor_ms`: two starts at a timestamp
    begin at the same record.
    """

    def __init__(self, rng: random.Random, now_ms: int, count: int) -> None:
        self.rng = rng
        self.created_ms = now_ms - rng.choice([2 * HOUR, 3 * DAY])
        self.retention_ms = DAY
        self.shards: dict[str, Shard] = {}
        self.shapes = ("plain",) if rng.random() < 0.4 else ("plain", "plain", "3", "12", "empty", "malformed")
        self.step_ms = rng.choice([0, 5_000, _STEP_MS, _STEP_MS])
        self.least_spacing_ms = 0
        self.floor_ms = 0
        self.on_arrived: Callable[[Shard, Kept], None] = lambda _shard, _kept: None
        self._sequence = 10 ** rng.choice([3, 54])
        self._now_ms = now_ms
        step = (LAST_HASH_KEY + 1) // count
        for number in range(count):
            last = LAST_HASH_KEY if number == count - 1 else (number + 1) * step - 1
            self.add((number * step, last), now_ms)

    def add(self, keys: tuple[int, int], now_ms: int, *parents: str) -> Shard:
        """Open a shard."""
        spacing_ms = self.rng.choice([0, 4 * HOUR, 20 * MINUTE, 4 * MINUTE, MINUTE, 20 * SECOND])
        name = f"shardId-{len(self.shards):012d}"
        next_ms = now_ms + int(self.rng.random() * min(spacing_ms, 5 * MINUTE))
        shard = self.shards[name] = Shard(name, keys, parents, now_ms, spacing_ms, next_ms)
        return shard

    def advance(self, now_ms: int) -> None:
        """Let records arrive, and be trimmed."""
        if now_ms <= self._now_ms:
            return
        self._now_ms = now_ms
        for shard in self.shards.values():
            if shard.closed_ms is None and shard.spacing_ms:
                while shard.next_ms <= now_ms:
                    self.arrive(shard, shard.next_ms)
                    spacing_ms = max(shard.spacing_ms, self.least_spacing_ms)
                    shard.next_ms += 1 + int(self.rng.random() * 2 * spacing_ms)
            records, oldest_ms = shard.records, now_ms - self.retention_ms
            while shard.trimmed < len(records) and records[shard.trimmed].at_ms < oldest_ms:
                shard.trimmed += 1

    def arrive(self, shard: Shard, at_ms: int, shape: str | None = None) -> Kept:
        """Let one Kinesis record arrive."""
        rng = self.rng
        self._sequence += rng.choice([1, 1, 1000])
        data, users = _shape(shape or rng.choice(self.shapes), *shard.keys)
        stamp_ms = max(self.floor_ms, at_ms - (rng.randrange(self.step_ms) if self.step_ms else 0))
        kept = Kept(self._sequence, stamp_ms, at_ms, data, users)
        shard.records.append(kept)
        for sub in range(len(users)):
            shard.missing[Position(kept.sequence, sub)] = stamp_ms
        self.on_arrived(shard, kept)
        return kept

    def open_shards(self) -> list[Shard]:
        """Return the open shards in the order of their hash keys."""
        return sorted((shard for shard in self.shards.values() if shard.closed_ms is None), key=lambda one: one.keys)

    def reshard(self, now_ms: int, *, merges: bool) -> str:
        """Split a shard, or merge two neighbours; return what was done."""
        self.advance(now_ms)
        open_shards = self.open_shards()
        at = self.rng.randrange(len(open_shards))
        shard, *others = open_shards[at : at + 2]
        parents = [shard, *(others if merges else ())]
        for parent in parents:
            parent.closed_ms = now_ms
        if len(parents) > 1:
            made = [self.add((shard.keys[0], others[0].keys[1]), now_ms, *(parent.name for parent in parents))]
        else:
            middle = sum(shard.keys) // 2
            made = [
                self.add((shard.keys[0], middle), now_ms, shard.name),
                self.add((middle + 1, shard.keys[1]), now_ms, shard.name),
            ]
        for parent in parents:
            parent.children = tuple(child.name for child in made)
        return f"{[one.name[-2:] for one in parents]} -> {[one.name[-2:] for one in made]}"

    def info(self, shard: Shard) -> ShardInfo | None:
        """Return a shard's row in ListShards; None if it is forgotten."""
        if shard.closed_ms is not None and shard.closed_ms < self._now_ms - self.retention_ms:
            return None
        first, last = map(str, shard.keys)
        return ShardInfo(shard.name, first, last, shard.parents, shard.children, shard.closed_ms is not None)


class StreamView:
    """The stream port of one process: with its host's clock, and with a hook before each request.

    A hook may raise, move the time, or let others work.
    """

    def __init__(self, world: "World", clock: Clock, before: Callable[[str], None]) -> None:
        self._world = world
        self._stream = world.stream
        self._clock = clock
        self._before = before
        self._known: tuple[int, float, int] | None = None

    def describe(self) -> StreamIdentity:
        """Return the identity."""
        self._ask("describe")
        return StreamIdentity(ARN, self._stream.created_ms, self._stream.retention_ms)

    def shard(self, shard_id: str) -> ShardInfo | None:
        """Return the shard's row."""
        self._ask("shard")
        return self._stream.info(self._stream.shards[shard_id])

    def all_shards(self, *, at_ms: int | None = None, since_ms: int | None = None) -> dict[str, ShardInfo]:
        """Return the listed shards; with a time those that were open then, or at any time since."""
        self._ask("all_shards")
        return {
            shard.name: info
            for shard in self._stream.shards.values()
            if (info := self._stream.info(shard)) is not None
            and (at_ms is None or shard.born_ms <= at_ms)
            and not (shard.closed_ms is not None and shard.closed_ms < max(at_ms or 0, since_ms or 0))
        }

    def holds(self, shard_id: str, position: Position) -> bool:
        """Return whether the record at a position is held."""
        self._ask("holds")
        return self._held_at(shard_id, position.sequence) is not None

    def open(self, shard_id: str, beginning: Beginning) -> Answer | None:
        """Return an iterator: an index, and when it was made."""
        self._ask("open")
        shard = self._stream.shards[shard_id]
        index = shard.trimmed
        if beginning.sequence is not None:
            if self._held_at(shard_id, beginning.sequence) is None:
                if self._world.rng.random() < 0.5:  # else Kinesis begins at its trim horizon
                    return None
            else:
                index = shard.index_of(beginning.sequence)
        elif beginning.since_ms is not None:
            while index < len(shard.records) and shard.records[index].stamp_ms < beginning.since_ms:
                index += 1
        return Answer(self._iterator(index), self._note())

    def read(self, shard_id: str, iterator: str, *, most: int = 100) -> Answer:
        """Return the next page."""
        self._ask("read")
        world, shard = self._world, self._stream.shards[shard_id]
        index, made_ms = map(int, iterator.split("@"))
        if world.now_ms - made_ms > _ITERATOR_MS:
            raise StreamUnavailable("ExpiredIteratorException", next_step="take another one")
        if world.rng.random() < world.odd_answers:  # empty on the way, or behind although it is at the tip
            return Answer(self._iterator(index), self._note(), (), 1000)
        index = max(index, shard.trimmed)
        page = shard.records[index : index + min(_PAGE, most)]
        behind = index + len(page)
        is_last = behind == len(shard.records)
        following = None if is_last and shard.closed_ms is not None else self._iterator(behind)
        held = tuple(HeldRecord(kept.sequence, kept.stamp_ms, "k", kept.data) for kept in page)
        return Answer(following, self._note(), held, 0 if is_last else 1000)

    def service_ms(self) -> int | None:
        """Return an upper bound of the service's time, as `ServiceTime` does."""
        if self._known is None:
            return None
        date_ms, at, wall_ms = self._known
        elapsed_ms = int((self._clock.monotonic() - at) * 1000)
        return date_ms + SECOND + max(elapsed_ms, self._clock.now_ms() - wall_ms)

    def within(self, budget_seconds: float) -> Self:  # noqa: ARG002 - the port's shape
        """Return itself: it never retries."""
        return self

    def _held_at(self, shard_id: str, sequence: int) -> Kept | None:
        shard = self._stream.shards[shard_id]
        index = shard.index_of(sequence)
        is_there = shard.trimmed <= index < len(shard.records) and shard.records[index].sequence == sequence
        return shard.records[index] if is_there else None

    def _iterator(self, index: int) -> str:
        return f"{index}@{self._world.now_ms}"

    def _ask(self, what: str) -> None:
        self._before(what)
        if self._world.rng.random() < self._world.stream_faults:
            raise StreamUnavailable(f"{what}: throttled", next_step="wait")
        self._stream.advance(self._world.now_ms)
        self._note()

    def _note(self) -> int:
        date_ms = self._world.now_ms // SECOND * SECOND
        self._known = (date_ms, self._clock.monotonic(), self._clock.now_ms())
        return date_ms
