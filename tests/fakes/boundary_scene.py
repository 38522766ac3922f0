"""An archive with shards and workers' rows, in memory: what a publisher reads."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from minutebook.clock import new_random
from minutebook.completeness.objects import BoundaryObjects
from minutebook.completeness.publisher import Attempt, Publisher
from minutebook.format.aggregate import LAST_HASH_KEY
from minutebook.format.boundaries import (
    CompleteMarker,
    RowsObject,
    ShardRow,
    decode_complete,
    encode_boundary,
    marker_key,
    rows_key,
)
from minutebook.format.coverage_markers import (
    FirstShard,
    FirstShards,
    OpenedMarker,
    SkippedMarker,
    encode_coverage_marker,
    first_shards_key,
    opened_marker_key,
    skipped_key,
)
from minutebook.format.document import FORMAT
from minutebook.format.keys import end_marker_key
from minutebook.format.markers import EndMarker, encode_marker
from minutebook.format.minute import MINUTE_MS
from minutebook.format.read_mark import ReadMark, encode_read_mark, mark_days, read_mark_key
from minutebook.retry import Backoff
from minutebook.store.retrying import RetryingStore
from tests.fakes.clock import START_MS, ManualClock
from tests.fakes.memory_store import MemoryBucket, MemoryStore

PREFIX: Final = "raw/"
FIVE_MS: Final = 5 * MINUTE_MS
T0: Final = START_MS // FIVE_MS * FIVE_MS
"""A boundary: 10:15."""
S0, S1, S2, S3 = (f"shardId-{number:012d}" for number in range(4))
HALF: Final = LAST_HASH_KEY // 2


class _Stamps(ManualClock):
    """The bucket's clock: the scene's, or `least_ms` if that is later."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock
        self.least_ms = 0

    def now_ms(self) -> int:
        """Return the LastModified of what is stored now."""
        return max(self._clock.now_ms(), self.least_ms)


class BoundaryScene:
    """The archive of an application that began long ago with two shards; the clock is the service's, too."""

    def __init__(self, *, shards: Sequence[str] = (S0, S1)) -> None:
        self.clock = ManualClock(T0)
        self._stamps = _Stamps(self.clock)
        self.bucket = MemoryBucket(self._stamps)
        self.begin_ms = T0 - 24 * 60 * MINUTE_MS
        self.requests: Counter[str] = Counter()
        self._ids = 0
        width = (LAST_HASH_KEY + 1) // len(shards)
        first = [
            FirstShard(
                shard=shard,
                starting_hash_key=str(number * width),
                ending_hash_key=str((number + 1) * width - 1 if number + 1 < len(shards) else LAST_HASH_KEY),
            )
            for number, shard in enumerate(shards)
        ]
        marker = FirstShards(format=FORMAT, shards=first, writer="w", written_at="")
        self.put(first_shards_key(PREFIX), encode_coverage_marker(marker))
        for shard in first:
            self.opened(shard.shard, (int(shard.starting_hash_key), int(shard.ending_hash_key)))

    def store(self) -> RetryingStore:
        """Return a store of its own for one worker."""
        clock, rng, raw = self.clock, new_random(), MemoryStore(self.bucket)
        raw.requests = self.requests
        return RetryingStore(raw, lambda: Backoff(clock, rng, budget_seconds=5))

    def put(self, key: str, body: bytes) -> None:
        """Store an object now."""
        self.store().put_if_absent(key, body)

    def opened(self, shard: str, hash_keys: tuple[int, int], parents: Sequence[str] = ()) -> None:
        """Store that KCL assigned a shard to a processor."""
        marker = OpenedMarker(
            format=FORMAT,
            shard=shard,
            sentinel="TRIM_HORIZON",
            starting_hash_key=str(hash_keys[0]),
            ending_hash_key=str(hash_keys[1]),
            parents=list(parents),
            writer="w",
            opened_at="",
        )
        self.put(opened_marker_key(PREFIX, shard), encode_coverage_marker(marker))

    def ended(self, shard: str, children: Sequence[str]) -> None:
        """Store a shard's `end.json`."""
        marker = EndMarker(
            format=FORMAT,
            shard=shard,
            last=None,
            children=list(children),
            proof="read",
            writer="w",
            written_at="",
            undelivered=[],
        )
        self.put(end_marker_key(PREFIX, shard), encode_marker(marker))

    def mark(self, mark: ReadMark) -> None:
        """Store a read mark."""
        for day in mark_days(mark):
            self.put(read_mark_key(PREFIX, day, mark), encode_read_mark(mark))

    def skipped(self, shard: str, logged_ms: int, writer: str = "run_1") -> None:
        """Store the marker of a skipped batch."""
        marker = SkippedMarker(
            format=FORMAT, shard=shard, logged_at_ms=logged_ms, message="", writer=writer, written_at=""
        )
        self.put(skipped_key(PREFIX, shard, logged_ms, writer), encode_coverage_marker(marker))

    def say(self, run: str = "run", **rows: ShardRow | Sequence[ShardRow]) -> None:
        """Store rows of a worker, not before their times: by the last digit of the shard's id, as `s0=`."""
        self._ids += 1
        by_shard = {
            f"shardId-{int(name.removeprefix('s')):012d}": [row] if isinstance(row, ShardRow) else list(row)
            for name, row in rows.items()
        }
        now_ms = self.clock.now_ms()
        key = rows_key(PREFIX, now_ms // FIVE_MS * FIVE_MS, run, now_ms + self._ids)
        self._stamps.least_ms = max(each.until_ms for rows in by_shard.values() for each in rows)
        self.put(key, encode_boundary(RowsObject(worker=run, run=run, rows=by_shard)))
        self._stamps.least_ms = 0

    def publisher(self, *, writes: bool = True) -> Publisher:
        """Return a publisher that knows nothing yet."""
        return Publisher(
            self.store(), PREFIX, every_ms=FIVE_MS, begin_ms=self.begin_ms, writer="publisher", writes=writes
        )

    def publish(self) -> Attempt:
        """Let a new publisher try once."""
        return self.publisher().attempt(self.clock.now_ms())

    def objects(self) -> BoundaryObjects:
        """Return a reader of the markers."""
        return BoundaryObjects(self.store(), PREFIX)

    def marker(self, boundary_ms: int) -> CompleteMarker:
        """Return the marker of a boundary."""
        key = marker_key(PREFIX, boundary_ms)
        return decode_complete(self.bucket.body(key), key)

    def boundaries(self) -> list[str]:
        """Return the names of all markers, in order."""
        names = (key.rpartition("/")[2] for key in self.bucket.keys(f"{PREFIX}_complete/2"))
        return [name.removesuffix(".json") for name in names if name.endswith("Z.json")]


def row(from_minute: float, until_minute: float, position: str | None = None, **more: object) -> ShardRow:
    """Return a row by minutes relative to 10:15; open at its `until` unless `open_minute` says otherwise."""
    open_minute = float(str(more.pop("open_minute", until_minute)))
    at = [T0 + round(minute * MINUTE_MS) for minute in (from_minute, until_minute, open_minute)]
    return ShardRow(*at, position, **more)  # type: ignore[arg-type]  # `end` alone
