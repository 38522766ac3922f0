"""One history of several days: time passes in long steps, whoever has a lease reads on, and each night is audited."""

from collections import Counter
from typing import TYPE_CHECKING, Final

from tests.fakes.daemon_double import SHARD_END
from tests.simulation.histories.day_scenarios import QUIET, DayScenario, day_scenario_of
from tests.simulation.histories.events import days
from tests.simulation.histories.shard_site import ShardSite
from tests.simulation.histories.sharded_history import ShardedHistory
from tests.simulation.histories.site import Site
from tests.simulation.modes import Mode
from tests.simulation.promises.nightly import NightlyAudit
from tests.simulation.services.kcl import Consumer
from tests.simulation.services.kinesis import HOUR, SimShard, SimStream
from tests.simulation.world import STAMPS, Violation

if TYPE_CHECKING:
    from minutebook.format.day import Day

DAY: Final = 86_400
_STEPS: Final = (60, 300, 900, 1800, 3000, 3000, 3 * HOUR)
_NIGHT: Final = (-30, 70, 700, 1200)
"""Seconds from midnight at which every history looks: before it, twice after it, and when the day is audited."""
_TICKS: Final = 5
MARKS_A_DAY: Final = 25


class DayHistory(ShardedHistory):
    """One seed's history of days; see `History`."""

    choices_of_stamps = (STAMPS,)

    scenario: DayScenario

    def __init__(
        self,
        mode: Mode,
        seed: int,
        tally: Counter[str],
        *,
        traced: bool = False,
        scenario: DayScenario | None = None,
    ) -> None:
        self.away_until: dict[int, float] = {}
        self.asleep: dict[Consumer, float] = {}
        super().__init__(mode, seed, tally, traced=traced, scenario=scenario or day_scenario_of(mode, seed))
        self.max_shards = self.scenario.max_shards
        rng = self.rng
        self.redeploy = rng.choice(self.scenario.redeploys)
        self.redeployed_at = self.world.now
        self.ends_at = (self.world.now // DAY + rng.randint(*self.scenario.days)) * DAY + 1300
        self.audit = NightlyAudit(self, self.shard_sites)
        self.clean: set[Day] = set()
        self.world.max_requests = 200_000

    def _sites(self) -> list[Site]:
        sites = super()._sites()
        rng, first = self.rng, self.shard_sites[0].stream
        hours = rng.choice(self.scenario.retentions)
        first.knows_filters, first.names_dates = rng.random() < 0.95, rng.random() < 0.97
        # Every other stream is older than its retention.
        created = self.world.now - hours * HOUR * rng.uniform(1.1, 3) if rng.random() < 0.5 else first.created
        for site in self.shard_sites:
            site.stream.created = created
            site.stream.retention_hours = hours
            site.mean_hours = rng.choice(self.scenario.means)
            site.stream.born = site.stream.created
        if first.created < self.world.now - 30 * HOUR and rng.random() < self.scenario.resharded:
            self._reshard_before()
        return sites

    def _reshard_before(self) -> None:
        """Let the shards come from one that had ended before: it is no longer listed, or still is."""
        world, root = self.world, self.shard_sites[0]
        shard = SimShard("shardId-before", first_sequence=1)
        before = SimStream(
            world, shard, arn=root.arn, created=root.stream.created, retention_hours=root.stream.retention_hours
        )
        shard.close()
        before.shards = root.stream.shards
        before.closed_at = world.now - self.rng.choice((2, 20, 26)) * HOUR
        before.listed = root.start in {"now", "past"} and before.closed_at > world.now - 24 * HOUR
        root.stream.shards.append(before)
        for site in self.shard_sites:
            site.stream.shard.parents = (shard.shard_id,)
            site.stream.born = before.closed_at
        world.happened("stream: it was resharded before the application began")

    def reshard(self) -> None:
        """Split a shard, or merge two neighbours; each new one is as quiet or busy as it likes."""
        before = len(self.shard_sites)
        super().reshard()
        for site in self.shard_sites[before:]:
            site.mean_hours = self.rng.choice(self.scenario.means)

    def _play(self) -> None:
        self._serve()
        while self.world.now < self.ends_at:
            self._step()
        for site in self.shard_sites:
            site.ledger.check(drained=False, may_break=True)
        if not any(site.ledger.beyond_promise for site in self.shard_sites):
            self.audit.count()
        if self.scenario.calm:
            self.audit.count_marks(MARKS_A_DAY)

    def _step(self) -> None:
        rng, world = self.rng, self.world
        for act, share in self.scenario.acts.items():
            if rng.random() < share:
                (days.ACTS.get(act) or self.events[act])(self)
        midnight = world.now // DAY * DAY
        moments = [midnight + day + offset for day in (0, DAY) for offset in _NIGHT]
        if self.redeploy is not None:
            moments.append(self.redeployed_at + self.redeploy * 60)
        until = min([world.now + rng.choice(_STEPS), *(moment for moment in moments if moment > world.now + 1)])
        self._pass(until)
        if self.redeploy is not None and world.now - self.redeployed_at >= self.redeploy * 60:
            days.redeploy(self)
        self._serve()
        if round(until - midnight, 3) % DAY == _NIGHT[-1]:
            self._audit_night(until)

    def _pass(self, until: float) -> None:
        """Let records arrive until a time, each in its own moment, and retention do its work."""
        rng, world = self.rng, self.world
        arrivals = []
        for site in self.shard_sites:
            at = world.now
            while site.is_open and site.mean_hours != QUIET:
                at += rng.expovariate(1 / (site.mean_hours * HOUR))
                if at >= until:
                    break
                arrivals.append((at, site.number))
        for at, number in sorted(arrivals)[:60]:
            world.now = max(world.now, at)
            days.put(self, self.shard_sites[number])
        world.now = max(world.now, until)
        for site in self.shard_sites:
            trimmed = site.stream.trim()
            if trimmed:
                world.tally["stream: retention trims"] += trimmed

    def _serve(self) -> None:
        """Let everybody who can read on."""
        for consumer in [consumer for consumer in self.consumers if not self._is_asleep(consumer)]:
            consumer.host.end_pause()
            if consumer.idle is False and consumer in self.consumers:
                self.go_on(consumer)
        for site in list(self.shard_sites):
            if self.away_until.get(site.number, 0) > self.world.now or site.lease.checkpoint == SHARD_END:
                continue
            consumer = self.owner_of(site)
            if consumer is None and self._may_begin(site):
                consumer = self.start(site)
            if consumer is not None and consumer in self.consumers and consumer.ready:
                self._read(site, consumer)
        for consumer in [consumer for consumer in self.consumers if not consumer.owns_lease]:
            if consumer.ready and not self._is_asleep(consumer) and self.rng.random() < 0.7:
                self._read_as_zombie(consumer)

    def _may_begin(self, site: ShardSite) -> bool:
        return site.may_start() and (self.scenario.calm or self.rng.random() < 0.8)

    def owner_of(self, site: ShardSite) -> Consumer | None:
        """Return the consumer that has the shard's lease and does not sleep."""
        found = super().owner_of(site)
        return None if found is None or self._is_asleep(found) else found

    def _is_asleep(self, consumer: Consumer) -> bool:
        return self.asleep.get(consumer, 0) > self.world.now

    def _read(self, site: ShardSite, consumer: Consumer) -> None:
        """Deliver what there is, mostly; then call without records while the processor has something to ask."""
        rng = self.rng
        while consumer.ready and consumer.waiting() and consumer in self.consumers:
            if not self.scenario.calm and rng.random() < 0.05:
                return
            self.deliver(consumer, rng.choice((1, 5, None)))
        if not consumer.ready or consumer not in self.consumers:
            return
        if site.stream.shard.closed and rng.random() < 0.9:
            self.world.tally["KCL: shardEnded"] += 1
            self.give(consumer, "shardEnded")
            return
        self._tick(consumer)

    def _tick(self, consumer: Consumer) -> None:
        self.world.now += 70
        for _ in range(_TICKS):
            if consumer not in self.consumers or not consumer.ready:
                return
            asked = consumer.host.counts["Kinesis"]
            self.deliver(consumer, 0)
            self.world.now += 1
            if consumer.host.counts["Kinesis"] == asked:
                return

    def _read_as_zombie(self, consumer: Consumer) -> None:
        self.deliver(consumer, self.rng.choice((1, None, 0)))
        if consumer in self.consumers and consumer.ready and not consumer.host.silenced and self.rng.random() < 0.5:
            self.give(consumer, "leaseLost")

    def _audit_night(self, now: float) -> None:
        """Judge every day that is not clean yet, as the nightly run does."""
        for night in self.audit.nights():
            if night.is_clean and night.day not in self.clean:
                self.clean.add(night.day)
                self.world.tally["audit: a day became clean"] += 1
            if self.scenario.calm and not night.is_clean and self.may_prove():
                raise Violation(f"{night.day} is not clean at {now:.0f} although nothing happened: {night.verdict}")

    def may_prove(self) -> bool:
        """Tell whether the stream lets anybody prove anything: its answers name dates, and filters are known."""
        first = self.shard_sites[0].stream
        is_whole = self.shard_sites[0].start != "plain" and (first.created > self.world.began - 23 * HOUR)
        return first.names_dates and first.knows_filters and (is_whole or self.shard_sites[0].start != "oldest")
