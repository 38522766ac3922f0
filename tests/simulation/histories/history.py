"""One history: a seed becomes a scenario, machines, and events; then come a healthy end and a check."""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from consumer.settings.settings import Settings
from minutebook.errors import SafetyRefusal
from tests.fakes.daemon_double import SHARD_END, UnopenableRowError
from tests.simulation.histories.ending import audit, drain
from tests.simulation.histories.events.tables import EVENTS
from tests.simulation.histories.prologue import archive_shard
from tests.simulation.histories.scenarios import Scenario, scenario_of
from tests.simulation.histories.site import Site, describe_settings, new_settings
from tests.simulation.histories.steady import play_steady
from tests.simulation.promises.deaths import judge_death
from tests.simulation.promises.objects import describe_object
from tests.simulation.promises.withheld import check_passed_strays
from tests.simulation.services.aggregates import Troubles
from tests.simulation.services.bucket import Bucket, Stored
from tests.simulation.services.kcl import Consumer
from tests.simulation.world import STAMPS, WILD_STAMPS, Host, Stamps, Violation, World

DAY_MS: Final = 1_795_219_200  # 2026-11-21T00:00:00Z in epoch seconds
_BEGINNINGS: Final = (10 * 3600 + 960, 10 * 3600 + 1005.5, 86_400 - 90, 86_400 - 20)


class History:
    """One seed's history. `run` raises `Violation` when a promise is broken."""

    events: ClassVar[Mapping[str, Callable[[Any], None]]] = EVENTS
    max_living: ClassVar[int] = 4
    choices_of_stamps: ClassVar[tuple[Stamps, ...]] = (STAMPS, WILD_STAMPS, STAMPS, STAMPS)

    def __init__(
        self, seed: int, tally: Counter[str], *, traced: bool = False, scenario: Scenario | None = None
    ) -> None:
        self.seed = seed
        self.scenario = scenario or scenario_of(seed)
        self.rng = rng = self._chance()
        now = DAY_MS + rng.choice(_BEGINNINGS)
        self.world = World(rng, now, tally, traced=traced, seed=seed)
        self.world.troubles = Troubles.draw(self._chance(" of aggregates"), may_differ=not self.scenario.is_calm)
        self.world.refuses_skew = self.scenario.pauses
        self.world.stamps = self.choices_of_stamps[seed // 7 % len(self.choices_of_stamps)]
        self.bucket = Bucket(self.world, self._created, self._deleted)
        self.consumers: list[Consumer] = []
        self.started = 0
        self.last_error: BaseException | None = None
        self.owner: Site | None = None
        self.sites = self._sites()

    def _chance(self, of: str = "") -> random.Random:
        """Return what decides everything, or something apart from it."""
        return random.Random(f"{self.seed}{of}" if of else self.seed)

    def _sites(self) -> list[Site]:
        return [self._site(number) for number in range(self.scenario.sites)]

    def _site(self, number: int) -> Site:
        rng, scenario = self.rng, self.scenario
        hours = (
            rng.choice((30.0, 60.0, 24.2))
            if scenario.old_stream and rng.random() < 0.6
            else rng.choice((2.0, 20.0, 23.9))
        )
        site = Site(
            self.world, self.bucket, number, created=self.world.now - hours * 3600, start=rng.choice(scenario.starts)
        )
        site.skew = rng.uniform(-min(scenario.skew, 150), min(scenario.skew, 150))
        if rng.random() < 0.7:
            site.put(rng)
        return site

    def run(self) -> None:
        """Play the history to its end and check the archive."""
        self.world.note("history", f"seed {self.seed}, scenario {self.scenario.name!r}")
        try:
            self._play()
        finally:
            for consumer in self.consumers:
                consumer.task.kill()

    def _play(self) -> None:
        if not self.scenario.actions:
            play_steady(self)
        else:
            self._wander()
        drained = self._drain()
        self._check(drained=drained)

    def _drain(self) -> bool:
        return drain(self)

    def _wander(self) -> None:
        rng = self.rng
        if self.scenario.adopts_at_start:
            self.sites[0].put(rng)
            self.sites[0].adopt(rng)
        names, weights = list(self.scenario.actions), list(self.scenario.actions.values())
        if rng.random() < self.scenario.prologue:
            self._prologue()
        elif not self.scenario.first:
            self.play_event("start")
        for name in self.scenario.first:
            self.play_event(name)
        for name in rng.choices(names, weights, k=rng.randint(*self.scenario.steps)):
            self.play_event(name)

    def _prologue(self) -> None:
        archive_shard(self)

    def play_event(self, name: str) -> None:
        """Let one thing happen, and a little time pass."""
        self.events[name](self)
        self.world.now += self.rng.choice((0.05, 0.3, 1.5))

    # Machines

    def site(self) -> Site:
        """Return a stream to do something to."""
        return self.sites[0] if len(self.sites) == 1 or self.rng.random() < 0.6 else self.sites[1]

    def pick(self, *, idle: bool | None = None) -> Consumer | None:
        """Return a living consumer, idle or held up as asked; None when there is none. No paused one is."""
        living = [consumer for consumer in self.consumers if not consumer.host.is_paused]
        found = [consumer for consumer in living if idle is None or consumer.idle == idle]
        return self.rng.choice(found) if found else None

    def start(self, site: Site, *, settings: Settings | None = None, healthy: bool = False) -> Consumer | None:
        """Give the lease to a new consumer and let it open the shard."""
        if site.lease.checkpoint == SHARD_END or (len(self.consumers) >= self.max_living and not healthy):
            return None
        rng, scenario = self.rng, self.scenario
        if not self._settle(site):
            return None
        self.started += 1
        host = Host(
            self.world,
            f"worker-{self.started}",
            skew=rng.uniform(-scenario.skew, scenario.skew),
            holdup=0 if healthy else rng.choice(scenario.holdups),
            fault_rate=0 if healthy else rng.choice(scenario.faults),
        )
        chosen = settings or self.settings(adopt=self.scenario.adopts_at_start and rng.random() < 0.7)
        begin = site.lease.checkpoint
        if not healthy:
            self._read_stale(site, host)
        try:
            consumer = self._consumer(host, site, chosen)
        except UnopenableRowError as exc:
            raise Violation(f"nobody reads the shard any more, and nothing says so: {exc}") from exc
        site.lease.checkpoint = begin
        self.consumers.append(consumer)
        self.world.tally["started: at a sentinel" if isinstance(begin, str) else "started: at a checkpoint"] += 1
        if self.world.trace is not None:
            at = begin if isinstance(begin, str) else f"#{consumer.shard.index.get(begin)}:{begin.sub}"
            self.world.note(
                host.name, f"takes the lease at {at}, clock {host.skew:+.0f} s, {describe_settings(chosen)}"
            )
        self.give(consumer, "initialize", healthy=healthy)
        return consumer

    def _read_stale(self, site: Site, host: Host) -> None:
        """Let some find the checkpoint before: KCL reads the row eventually consistent (InitializeTask)."""
        before = site.checkpoint_before(is_calm=self.scenario.is_calm)
        if before is not None and self.rng.random() < 0.05:
            site.lease.checkpoint = before
            self.world.happened("KCL: a stale checkpoint is read", host.name)

    def settings(self, *, adopt: bool) -> Settings:
        """Return the settings of the next processor."""
        return new_settings(self.rng, adopt=adopt, compression=self.world.next_compression())

    def _consumer(self, host: Host, site: Site, settings: Settings) -> Consumer:
        return Consumer(host, site.lease, site.stream, self.bucket, settings)

    def _settle(self, site: Site) -> bool:
        """Let `minutebook consume` settle the start; False when it refuses."""
        try:
            site.settle_start()
        except SafetyRefusal as exc:
            if not site.recreated and self.owner is site:
                raise Violation(f"consume was refused without cause: {exc}") from exc
            self.world.happened("refused: consume, exit 6")
            return False
        return True

    def give(self, consumer: Consumer, what: str, *, healthy: bool = False) -> None:
        """Send one message; judge the processor if it dies of it."""
        message = {
            "initialize": consumer.initialize_message,
            "shardEnded": consumer.shard_ended_message,
        }.get(what, lambda: consumer.message(what))
        consumer.give(what, message)
        self._leave(consumer, what)
        self.judge(consumer, healthy=healthy)

    def deliver(self, consumer: Consumer, count: int | None, *, healthy: bool = False) -> None:
        """Deliver the next records, none for a tick."""
        batch = consumer.next_batch()[:count] if count != 0 else []
        if self.world.trace is not None and batch:
            first, last = (consumer.shard.index[batch[at].position] for at in (0, -1))
            self.world.note(consumer.host.name, f"is delivered #{first}..#{last}")
        if self.scenario.trims:
            ledger = self.site_of(consumer).ledger
            for record in batch:
                ledger.delivered(consumer.shard.index[record.position])
        consumer.give("processRecords", lambda: consumer.records_message(batch))
        self.judge(consumer, healthy=healthy)

    def stop(self, consumer: Consumer) -> None:
        """Ask a consumer to stop gracefully."""
        consumer.leaving = True
        self.give(consumer, "shutdownRequested")

    def kill(self, consumer: Consumer) -> None:
        """SIGKILL, whatever it does."""
        consumer.task.kill()
        self.consumers.remove(consumer)

    def go_on(self, consumer: Consumer) -> None:
        """Let a processor that was held up work on."""
        what = consumer.pending_message
        consumer.go_on()
        self._leave(consumer, what)
        self.judge(consumer)

    def _leave(self, consumer: Consumer, answered: str | None) -> None:
        """Do what KCL does once a message is answered that ends a consumer: leaseLost, then the end of input."""
        if not consumer.idle or answered not in {"shutdownRequested", "shardEnded"}:
            return
        if answered == "shutdownRequested":
            consumer.give("leaseLost", lambda: consumer.message("leaseLost"))
        consumer.cut_off()

    def judge(self, consumer: Consumer, *, healthy: bool = False) -> None:
        """Bury a dead processor; its error must be one that this history may cause."""
        if not consumer.legal:
            raise Violation(f"{consumer.host.name}: KCL refused a checkpoint for its number")
        check_passed_strays(consumer, self.site_of(consumer).ledger)
        if consumer.task.dead:
            self.consumers.remove(consumer)
            judge_death(self, consumer, healthy=healthy)

    def may_have_lost_table(self, _consumer: Consumer) -> bool:  # noqa: D102 - of histories with a table
        return False

    def refusal_is_right(self, consumer: Consumer) -> bool:
        """Tell whether a person has something to decide: another stream, lost records, a foreign checkpoint."""
        site = self.site_of(consumer)
        record = self.owner
        if site.recreated or (record is not None and record is not site):
            return True
        if self.scenario.adopts_at_start:
            return not consumer.settings.adopt_checkpoint
        # By a clock that runs ahead a stored start may count as too old while what lies before it is still held.
        moved = site.record is not None and site.record.start_at_ms is not None and site.lease.start == "TRIM_HORIZON"
        return self.scenario.trims and (site.ledger.shard.trimmed > 0 or moved)

    def is_readable(self, consumer: Consumer) -> bool:
        """Tell whether the stream that a consumer began to read is still there."""
        site = self.site_of(consumer)
        return not site.recreated or consumer.began_at >= site.stream.created

    def site_of(self, consumer: Consumer) -> Site:
        """Return the stream that a consumer reads."""
        return next(site for site in self.sites if site.stream is consumer.stream)

    # The archive

    def _created(self, key: str, stored: Stored) -> None:
        if key.endswith("_application.json"):
            self.owner = next(site for site in self.sites if site.arn.encode() + b'"' in stored.body)
        if self.owner is None:
            raise Violation(f"{key} was written before _application.json")
        self.owner.ledger.created(key, stored)
        if self.world.trace is not None:
            self.world.note("S3", describe_object(self.owner.ledger.shard, key, stored))

    def _deleted(self, key: str) -> None:
        """Judge a deletion; here the history itself deletes, by the rules."""

    # The end

    def _check(self, *, drained: bool) -> None:
        for site in self.sites:
            if self.scenario.healthy and not drained:
                raise Violation("a healthy history did not come to its end")
            site.ledger.check(
                drained=drained and site is (self.owner or self.sites[0]),
                may_break=self.scenario.trims or site.recreated or not site.stream.names_dates,
            )
            if site.ledger.segments and site is not self.owner:
                raise Violation("a stream that does not own the prefix was archived there")
        if self.owner is not None and not self.owner.recreated:
            audit(self, [self.owner])
