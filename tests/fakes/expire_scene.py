"""An archive of some days, what the nightly job published of them, and `minutebook expire` on both."""

import datetime as dt
from collections.abc import Callable, Iterable, Sequence

from consumer.expire.command import Archive, expire_days, expiry_age_ms
from minutebook.format.minute import MINUTE_MS
from minutebook.format.tombstone import Tombstone, decode_tombstone, tombstone_key
from minutebook.published.verdict import RULES
from minutebook.store.retrying import RetryingStorage
from minutebook.terminal import TerminalConsole
from tests.fakes.archive_scene import APPLICATION, PREFIX, MemoryScene
from tests.fakes.clock import START_MS
from tests.fakes.memory_store import MemoryBucket, MemoryStore
from tests.fakes.published_day import published_objects
from tests.fakes.stream import DAY_MS, FakeStream

OUT = "parquet/"
S0, S1 = "shardId-000000000000", "shardId-000000000001"
DAY = 1440
TODAY = START_MS // DAY_MS * DAY
"""First minute of the day that it is."""
Step = Callable[[Sequence[str]], None]


class MemoryDeleter:
    """Deletes from a bucket. `before` and `after` are called with the keys of each request: places to crash."""

    def __init__(self, bucket: MemoryBucket) -> None:
        self._bucket = bucket
        self.before: Step | None = None
        self.after: Step | None = None
        self.requests: list[int] = []

    def delete(self, keys: Sequence[str]) -> None:
        """Delete; what is not there counts as deleted."""
        self.requests.append(len(keys))
        if self.before is not None:
            self.before(keys)
        for key in set(keys) & set(self._bucket.keys(PREFIX)):
            self._bucket.delete(key)
        if self.after is not None:
            self.after(keys)


class DeletingStore(MemoryStore):
    """As much of a `Storage` as the command needs."""

    def __init__(self, bucket: MemoryBucket, deleter: MemoryDeleter) -> None:
        super().__init__(bucket)
        self._deleter = deleter

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects."""
        self._deleter.delete(list(keys))


class ExpireScene(MemoryScene):
    """The archive of a stream that is 90 days old; days are counted back from today."""

    def __init__(self) -> None:
        super().__init__(stream=FakeStream(created_ms=START_MS - 90 * DAY_MS))
        self.deleter = MemoryDeleter(self.bucket)
        self.store = DeletingStore(self.bucket, self.deleter)
        self.retrying: RetryingStorage = RetryingStorage(self.store, self.waits)  # type: ignore[arg-type] # the part of it that is used
        self.settle(self.stream.describe())
        self.application = APPLICATION

    def add(self, days_ago: int, minute: int = 0, shard_id: str = S0) -> str:
        """Append a segment to the shard's chain, which is proven from the stream's creation on; returns its key."""
        if shard_id not in self._tails:
            self.begin(shard_id)
        return self.segment(shard_id, TODAY - days_ago * DAY + minute, writer="w-1").key

    def publish(
        self,
        days_ago: int,
        verdict: str = "clean",
        generation: str = "g1",
        *,
        rules: int = RULES,
        until: str | None = None,
    ) -> dict[str, bytes]:
        """Publish a day as the nightly job does, with the objects of now; returns what was written.

        A shard that is quiet at its end was read then.
        """
        day, end_ms = day_of(days_ago), (TODAY - (days_ago - 1) * DAY) * MINUTE_MS
        for shard_id, until_ms in list(self._untils.items()):
            if until_ms < end_ms:
                self.read_on(shard_id, end_ms + MINUTE_MS)
        raw = [(row.key, row.etag, row.size) for row in self.store.list_objects(f"{PREFIX}{day:%Y/%m/%d/}")]
        written = published_objects(OUT, str(day), raw, generation, verdict, rules=rules, until=until)
        for key, body in written.items():
            self.bucket.place(key, body)
        return written

    def archive(self) -> Archive:
        """Return what the command works on."""
        return Archive(
            store=self.retrying,
            prefix=PREFIX,
            identity=self.stream.describe(),
            application=self.application,
            published=self.retrying,
            published_root=OUT,
            clock=self.clock,
            new_id=lambda: "writer",
        )

    def expire(self, *, older_than: str = "30d", rate: int | None = 1000) -> tuple[int, str]:
        """Run the command; returns the exit code and what it printed."""
        console = TerminalConsole(width=250)
        with console.capture() as capture:
            code = expire_days(self.archive(), expiry_age_ms(older_than), console, rate).exit_code
        return code, capture.get()

    def raw(self) -> list[str]:
        """Return the keys of the segments that are left."""
        return [key for key in self.bucket.keys(PREFIX) if key.endswith(".jsonl.gz")]

    def tombstone(self, days_ago: int) -> Tombstone:
        """Return a day's tombstone."""
        key = tombstone_key(PREFIX, day_of(days_ago))
        return decode_tombstone(self.bucket.body(key), key)


def day_of(days_ago: int) -> dt.date:
    """Return the date."""
    return dt.date(1970, 1, 1) + dt.timedelta(days=TODAY // DAY - days_ago)


def old_day(*, clean: bool = True) -> tuple[ExpireScene, list[str], str]:
    """Return a scene with a published day of three segments, their keys, and the key of a later segment."""
    scene = ExpireScene()
    old = [scene.add(40, minute) for minute in range(3)]
    new = scene.add(30)
    if clean:
        scene.publish(40)
    return scene, old, new
