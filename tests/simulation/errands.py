"""What an operator does: `minutebook restore` and `minutebook expire`, real code, while others may work on.

A command runs in a greenlet of its own and may be held up at each of its requests.
"""

import datetime as dt
import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from rich.console import Console

from archive.errors import (
    ObjectVanished,
    SafetyRefusal,
    StoreUnavailable,
    StreamUnavailable,
    TableUnavailable,
)
from archive.format.keys import parse_segment_key
from archive.format.position import Position
from archive.retry import Backoff
from archive.store.objects import StoredObject
from archive.store.retrying import RetryingStorage, RetryingStore
from archive.store.s3_storage import S3Storage
from consumer.expire.command import Archive, run
from consumer.restore.command import Parts, rebuild
from consumer.restore.facts import gather_facts
from consumer.restore.plan import Facts
from consumer.stream.kinesis import KinesisStream
from tests.fakes.daemon_double import SHARD_END
from tests.simulation.bucket import SIGNATURE_SECONDS, S3Client
from tests.simulation.kinesis import HOUR, KinesisClient
from tests.simulation.lease_rows import FAILOVER_SECONDS, SimLeaseTable
from tests.simulation.ledger import PREFIX, name
from tests.simulation.shards import BESIDE
from tests.simulation.world import Host, Task, Violation

if TYPE_CHECKING:
    from tests.simulation.sharded import ShardedHistory

_PASSING: Final = (StoreUnavailable, StreamUnavailable, TableUnavailable)
_DAY: Final = dt.timedelta(days=1)
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Errand:
    """One command under way; `judge` looks at how it ended.

    `may_fail` tells whether a service may have been unavailable to it: at any time of its life, because what it met
    before it was held up is what it gives up on afterwards; or whether a request slept past its signature.
    """

    def __init__(
        self, history: "ShardedHistory", host: Host, work: Callable[[], None], judge: Callable[["Errand"], None]
    ) -> None:
        self.host = host
        self.changes = sum(site.lease.changes for site in history.shard_sites)
        self.expired = len(history.bucket.gone)
        self.finds_archive = history.owner is not None
        self.may_fail = False
        self._left_at = history.world.now
        self._history = history
        self._judge = judge
        self.task = host.task = Task(work)
        history.errands.append(self)
        self.go_on()

    @property
    def error(self) -> BaseException | None:
        """What it ended with."""
        return self.task.error

    def go_on(self) -> None:
        """Let it work on."""
        world, streams = self._history.world, [site.stream for site in self._history.shard_sites]
        self.may_fail |= self.host.fault_rate > 0 or any(stream.fault_rate > 0 for stream in streams)
        self.may_fail |= world.now - self._left_at > SIGNATURE_SECONDS
        self.task.resume()
        self._left_at = world.now
        if self.task.dead:
            self._history.errands.remove(self)
            if self.error is not None:
                self._history.world.happened(f"{self.host.name}: {type(self.error).__name__}", str(self.error)[:60])
            self._judge(self)


class Operator:
    """Gives commands, and knows what must come of them."""

    def __init__(self, history: "ShardedHistory") -> None:
        self._history = history
        self._number = 0
        self._published: dict[str, StoredObject] = {}
        self._inventories: dict[str, set[str]] = {}

    # restore

    def restore(self, *, patient: bool) -> None:
        """Run `minutebook restore`; a patient operator repeats it until it has gone through."""
        history = self._history
        for _ in range(6 if patient else 1):
            host = self._host("restore", faulty=not patient)
            table = SimLeaseTable(history, host)
            parts = Parts(table, lambda host=host: self._gather(host), host, FAILOVER_SECONDS, _quiet())  # type: ignore[misc]
            tails = {site.number: max(site.ledger.ends, default=-1) for site in history.shard_sites}
            errand = Errand(
                history,
                host,
                lambda parts=parts: _discard(rebuild(parts, dry_run=False, shard_ids=())),  # type: ignore[misc]
                lambda errand, table=table, tails=tails: self._judge_restore(errand, table, tails),  # type: ignore[misc]
            )
            if errand.task.dead and errand.error is None:
                return

    def _gather(self, host: Host) -> Facts:
        stream = self._stream(host)
        return gather_facts(
            self._store(host),
            PREFIX,
            stream.describe(),
            stream.all_shards(),
            now_ms=host.now_ms(),
            as_of_ms=None,
        )

    def _judge_restore(self, errand: Errand, table: SimLeaseTable, tails: dict[int, int]) -> None:
        history = self._history
        error = errand.error
        if isinstance(error, Violation):
            raise error
        if error is not None:
            changed = sum(site.lease.changes for site in history.shard_sites) > errand.changes
            right = isinstance(error, SafetyRefusal) and (changed or not errand.finds_archive)
            right |= isinstance(error, _PASSING) and errand.may_fail
            right |= isinstance(error, ObjectVanished) and len(history.bucket.gone) > errand.expired
            if not right:
                raise Violation(f"restore ended with {type(error).__name__} without cause: {error}") from error
            return
        history.world.happened("restore: went through")
        for site in table.written:
            checkpoint = site.lease.written[-1] if site.lease.written else site.lease.checkpoint
            if site.lease.checkpoint != checkpoint:
                continue  # a consumer has moved it on since
            if site.ledger.beyond_promise or checkpoint == SHARD_END:
                continue
            tail = tails.get(site.number, -1)
            if tail >= 0 and not isinstance(checkpoint, Position):
                raise Violation(f"restore lets {site.shard_id} begin at {checkpoint}, and it is archived")
            number = site.stream.shard.index[checkpoint] if isinstance(checkpoint, Position) else -1
            if number < tail:
                raise Violation(
                    f"restore lets {site.shard_id} go on after {name(number)}, and its chain ends at {name(tail)}"
                )

    # expire

    def publish(self) -> None:
        """Publish every day that is over, as the nightly job would; now and then its verdict is not clean."""
        history = self._history
        today = (_EPOCH + dt.timedelta(seconds=history.world.now)).date()
        for day in sorted({key[len(PREFIX) :][:10] for key in history.bucket.objects if key[len(PREFIX)].isdigit()}):
            date = dt.date(*map(int, day.split("/")))
            keys = sorted(key for key in history.bucket.objects if key.startswith(f"{PREFIX}{day}/"))
            if date >= today or not set(keys) - self._inventories.get(day, set()):
                continue
            self._number += 1
            verdict = "clean" if history.rng.random() < 0.85 else "unknown"
            pointer = {"format": 1, "day": date.isoformat(), "generation": f"g{self._number}", "verdict": verdict}
            rows = [[key, '"e"', len(history.bucket.objects[key].body), 0] for key in keys]
            lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
            folder = f"dt={date.isoformat()}/"
            self._published[f"{folder}_current.json"] = StoredObject(json.dumps(pointer).encode(), "e", {})
            inventory = StoredObject(gzip.compress(lines, 1), "e", {})
            self._published[f"{folder}_manifest/g{self._number}.inventory.jsonl.gz"] = inventory
            self._inventories[day] = set(keys) if verdict == "clean" else set()
            history.world.happened("nightly: a day is published")

    def get(self, key: str) -> StoredObject | None:
        """Read what is published."""
        return self._published.get(key)

    def expire(self) -> None:
        """Run `minutebook expire --apply`, now and then for days that the stream still holds."""
        history = self._history
        if history.rng.random() < 0.6:
            self.publish()
        host = self._host("expire", faulty=True)
        hours = history.shard_sites[0].stream.retention_hours
        days = hours // 24 + history.rng.choice((0, 1, 1, 1, 2))
        store = self._store(host)

        def work() -> None:
            archive = Archive(
                store=store,
                prefix=PREFIX,
                identity=self._stream(host).describe(),
                published=RetryingStore(self, store.new_backoff),  # type: ignore[arg-type] # the part of it that is used
                published_root="",
                clock=host,
                new_id=history.world.new_id,
                read_many=lambda read, keys: [read(key) for key in keys],
            )
            code = run(archive, days * 86_400_000, _quiet(), rate=1000)
            history.world.happened(f"expire: exit {code}")

        Errand(history, host, work, lambda errand: self._judge_expire(errand, inside=days * 24 < hours + 24))

    def judge_deletion(self, key: str) -> None:
        """Judge one deletion: long out of the stream, published and clean, and not the last of its chain."""
        history = self._history
        if key.startswith(BESIDE):
            self._judge_beside(key)
            return
        parsed = parse_segment_key(PREFIX, key)
        site = next(site for site in history.shard_sites if site.shard_id == parsed.shard_id)
        segment = site.ledger.segments[key]
        history.world.happened("S3: a segment is expired")
        hours = site.stream.retention_hours
        if history.world.now * 1000 - segment.metadata.arrival_max_ms < hours * HOUR * 1000:
            raise Violation(f"expire deletes {name(segment.first)}, which the stream may still deliver")
        if segment.last == max(site.ledger.ends):
            raise Violation(f"expire deletes {name(segment.first)}, the last segment of {site.shard_id}")
        if f"{PREFIX}_expired/{key[len(PREFIX) :][:10].replace('/', '-')}.json" not in history.bucket.objects:
            raise Violation(f"expire deletes {name(segment.first)} without a tombstone")
        if key not in self._inventories.get(key[len(PREFIX) :][:10], set()):
            raise Violation(f"expire deletes {name(segment.first)}, which is not published")

    def _judge_beside(self, key: str) -> None:
        """Judge the deletion of what stands beside a segment: the segment is gone."""
        for site in self._history.shard_sites:
            for held, segment in site.ledger.segments.items():
                if f"-{segment.metadata.writer}." in key and held in self._history.bucket.objects:
                    raise Violation(f"expire deletes {key}, and its segment stays")
        self._history.world.happened("S3: an object beside a segment is expired")

    def _judge_expire(self, errand: Errand, *, inside: bool) -> None:
        error = errand.error
        if isinstance(error, Violation):
            raise error
        if inside and error is None:
            raise Violation("expire was not refused for days that the stream may still hold")
        if error is None or (isinstance(error, SafetyRefusal) and (inside or not errand.finds_archive)):
            return
        if not (isinstance(error, _PASSING) and errand.may_fail):
            raise Violation(f"expire ended with {type(error).__name__} without cause: {error}") from error

    # Both

    def _host(self, what: str, *, faulty: bool) -> Host:
        rng, kind = self._history.rng, self._history.kind
        host = Host(
            self._history.world,
            what,
            skew=rng.uniform(-60, 60),
            holdup=rng.choice(kind.holdups) / 3 if faulty else 0,
            fault_rate=rng.choice(kind.faults) if faulty else 0,
        )
        host.opened = True
        return host

    def _stream(self, host: Host) -> KinesisStream:
        client = KinesisClient(self._history.shard_sites[0].stream, host)
        return KinesisStream(lambda: client, "flights", host, self._history.rng)  # type: ignore[arg-type,return-value] # the part of it that is used

    def _store(self, host: Host) -> RetryingStorage:
        storage = S3Storage(S3Client(self._history.bucket, host), "archive")  # type: ignore[arg-type] # the part of it that is used
        return RetryingStorage(storage, lambda: Backoff(host, self._history.rng, budget_seconds=60))


class _Quiet:
    """A console that shows nothing."""

    def print(self, *_what: Any) -> None:  # noqa: ANN401 - whatever is shown
        """Show nothing."""

    @contextmanager
    def status(self, _what: str) -> Iterator[None]:
        """Show nothing."""
        yield


def _quiet() -> Console:
    return cast("Console", _Quiet())


def _discard(_rows: int) -> None:
    """Take the command's result."""
