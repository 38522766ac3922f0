"""A stream for the histories of coverage: shards that split and merge, records whose stamps step back, trimming.

Times are milliseconds; the stream knows everything about itself, and gives readers what Kinesis would.
"""

import itertools
import random
from bisect import bisect_right
from typing import Final, NamedTuple

from minutebook.format.aggregate import EVERY_HASH_KEY, HashRange
from minutebook.format.position import Position

MINUTE: Final = 60_000
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
FIRST_DAY: Final = 20_800 * DAY
_STEP_BACK: Final = 55_000


class StreamRecord(NamedTuple):
    """One record: its position, the time that Kinesis stamped, and when it really came."""

    position: Position
    stamp: int
    at: int


class StreamShard:
    """One shard and everything that ever arrives on it. `gone` says when each record has been trimmed."""

    def __init__(self, number: int, keys: HashRange, parents: tuple[str, ...], born: int) -> None:
        self.shard_id = f"shardId-{number:012d}"
        self.keys = keys
        self.parents = parents
        self.born = born
        self.closed: int | None = None
        self.unlisted: int | None = None
        self.records: list[StreamRecord] = []
        self.gone: list[int] = []

    def arrived(self, time: int) -> int:
        """Return how many records had arrived by then."""
        return bisect_right(self.records, time, key=lambda record: record.at)

    def horizon(self, time: int) -> int:
        """Return the index of the oldest record that was still held then."""
        return bisect_right(self.gone, time)

    def read(self, cursor: int, time: int) -> tuple[int, list[StreamRecord]]:
        """Return what GetRecords gives behind `cursor` records, and the new cursor: trimmed ones are passed over."""
        end = self.arrived(time)
        return max(cursor, end), self.records[max(cursor, self.horizon(time)) : end]

    def is_listed(self, time: int) -> bool:
        """Tell whether ListShards names the shard."""
        return self.born <= time and (self.unlisted is None or time < self.unlisted)


class Stream:
    """A whole stream over some days."""

    def __init__(self, rng: random.Random, days: int, pauses: list[tuple[int, int]]) -> None:
        """Make one. `pauses` are times in which nobody may read: records come close to their ends, and reshards."""
        self._rng = rng
        self._pauses = pauses
        self._edges = [time for begin, end in pauses for time in (begin, end, end - DAY)]
        self.begin = FIRST_DAY
        self.end = FIRST_DAY + days * DAY
        self.shards: dict[str, StreamShard] = {}
        self._retention = self._changes()
        self._open_first()
        times = [self._reshard_time() for _ in range(rng.choice([0, 1, 1, 2, 3]))]
        if pauses and rng.random() < 0.4:  # a generation of shards that nobody sees
            begin = rng.choice(pauses)[0]
            times += [begin + rng.randrange(2 * HOUR), begin + rng.randrange(4 * HOUR)]
        for time in sorted(times):
            self._reshard(time)
        for shard in self.shards.values():
            self._fill(shard)
            self._trim(shard)

    def children(self, shard_id: str) -> list[StreamShard]:
        """Return the shards that came from this one."""
        return [shard for shard in self.shards.values() if shard_id in shard.parents]

    def listed(self, time: int) -> list[StreamShard]:
        """Return what ListShards names."""
        return [shard for shard in self.shards.values() if shard.is_listed(time)]

    def _changes(self) -> list[tuple[int, int]]:
        """Return from when on which retention applies: 24 h, more, or more with dips."""
        kind = self._rng.choice(["day", "day", "day", "week", "dips", "raised"])
        if kind == "day":
            return [(0, DAY)]
        if kind == "week":
            return [(0, 7 * DAY)]
        time = self._rng.randrange(self.begin, self.end)
        if kind == "raised":
            return [(0, DAY), (time, 7 * DAY)]
        return [(0, 7 * DAY), (time, DAY), (time + self._rng.randrange(MINUTE, 3 * HOUR), 7 * DAY)]

    def _open_first(self) -> None:
        count = self._rng.choice([1, 1, 2, 3])
        step = (EVERY_HASH_KEY.last + 1) // count
        for number in range(count):
            last = EVERY_HASH_KEY.last if number == count - 1 else (number + 1) * step - 1
            self._open(HashRange(number * step, last), (), self.begin - 10 * DAY)

    def _open(self, keys: HashRange, parents: tuple[str, ...], born: int) -> None:
        shard = StreamShard(len(self.shards), keys, parents, born)
        self.shards[shard.shard_id] = shard

    def _reshard_time(self) -> int:
        """Return a time that is often close to midnight."""
        if self._rng.random() < 0.5:
            midnight = FIRST_DAY + self._rng.randrange(0, (self.end - self.begin) // DAY) * DAY
            return self._rng.choice([midnight, midnight, *self._edges]) + self._rng.randrange(-3 * MINUTE, 3 * MINUTE)
        return self._rng.randrange(self.begin, self.end)

    def _reshard(self, time: int) -> None:
        open_shards = sorted(
            (shard for shard in self.shards.values() if shard.closed is None and shard.born < time - MINUTE),
            key=lambda shard: shard.keys,
        )
        if not open_shards:
            return
        index = self._rng.randrange(len(open_shards))
        if self._rng.random() < 0.5:
            index = max(range(len(open_shards)), key=lambda number: open_shards[number].born)
        one = open_shards[index]
        if index + 1 < len(open_shards) and self._rng.random() < 0.5:
            other = open_shards[index + 1]
            if other.keys.first == one.keys.last + 1:
                self._close([one, other], time)
                self._open(HashRange(one.keys.first, other.keys.last), (one.shard_id, other.shard_id), time)
                return
        middle = (one.keys.first + one.keys.last) // 2
        self._close([one], time)
        self._open(HashRange(one.keys.first, middle), (one.shard_id,), time)
        self._open(HashRange(middle + 1, one.keys.last), (one.shard_id,), time)

    def _close(self, shards: list[StreamShard], time: int) -> None:
        for shard in shards:
            shard.closed = time
            shard.unlisted = self._gone_at(time, 0)

    def _fill(self, shard: StreamShard) -> None:
        """Let records arrive: busy times, quiet ones, and some around each midnight and each end."""
        end = self.end if shard.closed is None else shard.closed
        begin = max(shard.born, self.begin - 2 * DAY)
        times = []
        time = begin + self._rng.randrange(1, HOUR)
        while time < end:
            every = self._rng.choice([5 * MINUTE, HOUR, 6 * HOUR, 30 * HOUR, 100 * HOUR])
            until = time + self._rng.randrange(HOUR, DAY)
            while time < min(until, end):
                times.append(time)
                time += int(self._rng.expovariate(1 / every)) + 1
        for edge in [*range(FIRST_DAY, self.end + 1, DAY), end, shard.born, *self._edges]:
            if self._rng.random() < 0.5:
                near = self._rng.choice([20_000, 90_000, 3 * MINUTE, 10 * MINUTE])
                times += [edge + self._rng.randrange(-near, near) for _ in range(self._rng.choice([1, 3, 8]))]
        for number, at in enumerate(sorted(time for time in set(times) if begin < time < end)):
            back = self._rng.choice([0, 0, self._rng.randrange(_STEP_BACK), _STEP_BACK])
            shard.records.append(StreamRecord(Position(number + 1), at - back, at))

    def _trim(self, shard: StreamShard) -> None:
        lag = self._rng.choice([0, 0, 0, self._rng.randrange(2 * HOUR)])
        latest = 0
        for record in shard.records:
            latest = max(latest, self._gone_at(record.stamp, lag))
            shard.gone.append(latest)

    def _gone_at(self, stamp: int, lag: int) -> int:
        changes = [*self._retention, (1 << 60, 0)]
        for (since, retention), (until, _) in itertools.pairwise(changes):
            gone = max(stamp + retention + lag, since)
            if gone < until:
                return gone
        return 1 << 60
