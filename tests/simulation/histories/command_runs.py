"""What an operator does: `minutebook restore` and `minutebook expire`, real code, while others may work on.

A command runs in a greenlet of its own and may be held up at each of its requests.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from consumer.expire.command import Archive, expire_days
from consumer.expire.coverage import DayProof, DayProver
from consumer.expire.plan import ExpiryPlan
from consumer.restore.command import Parts, gather_facts, rebuild
from consumer.restore.plan import RestoreFacts
from consumer.stream.kinesis import KinesisStream
from minutebook.retry import Backoff
from minutebook.store.retrying import RetryingStorage, RetryingStore
from minutebook.store.s3_storage import S3Storage
from minutebook.terminal import TerminalConsole
from tests.simulation.histories.published import Published
from tests.simulation.promises.bucket_view import one_by_one
from tests.simulation.promises.commands import judge_expire, judge_restore
from tests.simulation.services.bucket import PREFIX, SIGNATURE_SECONDS, S3Client
from tests.simulation.services.kinesis import KinesisClient
from tests.simulation.services.lease_rows import FAILOVER_SECONDS, SimLeaseTable
from tests.simulation.world import Host, Task

if TYPE_CHECKING:
    from tests.simulation.histories.sharded_history import ShardedHistory


class CommandRun:
    """One command under way; `judge` looks at how it ended.

    `may_fail` tells whether a service may have been unavailable to it: at any time of its life, because what it met
    before it was held up is what it gives up on afterwards; or whether a request slept past its signature.
    """

    def __init__(
        self,
        history: "ShardedHistory",
        host: Host,
        work: Callable[[], None],
        judge: Callable[["CommandRun"], None],
    ) -> None:
        self.host = host
        self.history = history
        self.changes = history.lease_changes()
        self.expired = len(history.bucket.gone)
        self.finds_archive = history.owner is not None
        self.may_fail = False
        self._left_at = history.world.now
        self._judge = judge
        self.task = host.task = Task(work)
        history.command_runs.append(self)
        self.go_on()

    @property
    def error(self) -> BaseException | None:
        """What it ended with."""
        return self.task.error

    def go_on(self) -> None:
        """Let it work on."""
        world, streams = self.history.world, [site.stream for site in self.history.shard_sites]
        self.may_fail |= self.host.fault_rate > 0 or any(stream.fault_rate > 0 for stream in streams)
        self.may_fail |= world.now - self._left_at > SIGNATURE_SECONDS
        self.task.resume()
        self._left_at = world.now
        if self.task.dead:
            self.history.command_runs.remove(self)
            if self.error is not None:
                world.happened(f"{self.host.name}: {type(self.error).__name__}", str(self.error)[:60])
            self._judge(self)


class Operator:
    """Gives commands, and knows what must come of them."""

    def __init__(self, history: "ShardedHistory") -> None:
        self.published = Published(history)
        self._history = history

    def restore(self, *, patient: bool) -> None:
        """Run `minutebook restore`; a patient operator repeats it until it has gone through."""
        for _ in range(6 if patient else 1):
            command_run = self._restore(faulty=not patient)
            if command_run.task.dead and command_run.error is None:
                return

    def _restore(self, *, faulty: bool) -> CommandRun:
        history = self._history
        host = self._host("restore", faulty=faulty)
        table = SimLeaseTable(history, host)
        tails = {site.number: max(site.ledger.ends, default=-1) for site in history.shard_sites}

        def work() -> None:
            parts = Parts(table, lambda: self._gather(host), host, FAILOVER_SECONDS, _quiet())
            rebuild(parts, apply=True, shard_ids=())

        return CommandRun(history, host, work, lambda command_run: judge_restore(command_run, table, tails))

    def _gather(self, host: Host) -> RestoreFacts:
        stream = self._stream(host)
        return gather_facts(
            self._store(host),
            PREFIX,
            stream.describe(),
            stream.all_shards(),
            application="simulated",
            now_ms=host.now_ms(),
            as_of_ms=None,
        )

    def expire(self) -> None:
        """Run `minutebook expire --apply`, now and then for days that the stream still holds."""
        history = self._history
        if history.rng.random() < 0.6:
            self.published.publish()
        host = self._host("expire", faulty=True)
        hours = history.shard_sites[0].stream.retention_hours
        days = hours // 24 + history.rng.choice((0, 1, 1, 1, 2))
        store = self._store(host)
        # These histories are full of outages that no evidence bridges: few of their days could go at all.
        asks_evidence = history.rng.random() < 0.2

        def work() -> None:
            archive = Archive(
                store=store,
                prefix=PREFIX,
                identity=self._stream(host).describe(),
                application="simulated",
                published=RetryingStore(self.published, store.new_backoff, one_by_one),  # type: ignore[arg-type] # the part of it that is used
                published_root="",
                clock=host,
                new_id=history.world.new_id,
                prover=DayProver if asks_evidence else _Believer,
            )
            code = expire_days(archive, days * 86_400_000, _quiet(), rate=1000).exit_code
            history.world.happened(f"expire: exit {code}")

        inside = days * 24 < hours + 24
        CommandRun(history, host, work, lambda command_run: judge_expire(command_run, inside=inside))

    def _host(self, what: str, *, faulty: bool) -> Host:
        rng, scenario = self._history.rng, self._history.scenario
        host = Host(
            self._history.world,
            what,
            skew=rng.uniform(-60, 60),
            holdup=rng.choice(scenario.holdups) / 3 if faulty else 0,
            fault_rate=rng.choice(scenario.faults) if faulty else 0,
        )
        host.opened = True
        return host

    def _stream(self, host: Host) -> KinesisStream:
        client = KinesisClient(self._history.shard_sites[0].stream, host)
        return KinesisStream(lambda: client, "flights", host, self._history.rng)  # type: ignore[arg-type,return-value] # the part of it that is used

    def _store(self, host: Host) -> RetryingStorage:
        storage = S3Storage(S3Client(self._history.bucket, host), "archive")  # type: ignore[arg-type] # the part of it that is used
        return RetryingStorage(storage, lambda: Backoff(host, self._history.rng, budget_seconds=60), one_by_one)


class _Quiet:
    """A console that shows nothing."""

    def print(self, *_what: Any) -> None:  # noqa: ANN401 - whatever is shown
        """Show nothing."""

    @contextmanager
    def status(self, _what: str) -> Iterator[None]:
        """Show nothing."""
        yield


def _quiet() -> TerminalConsole:
    return cast("TerminalConsole", _Quiet())


class _Believed(DayProof):
    """A day that may go because a verdict was published of it."""

    @property
    def refusal(self) -> None:
        """Nothing speaks against it."""
        return


class _Believer(DayProver):
    """Reads a day's segments, and believes the verdict."""

    def prove(self, plan: ExpiryPlan) -> DayProof:
        """Judge nothing."""
        return _Believed(*super().prove(plan))
