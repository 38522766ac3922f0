"""One history of a stream of several shards: producers send again, shards split and merge, operators act."""

import random
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from consumer.settings.settings import Settings
from minutebook.errors import SafetyRefusal
from minutebook.format.position import Position
from tests.fakes.daemon_double import SHARD_END
from tests.simulation.histories.command_runs import CommandRun, Operator
from tests.simulation.histories.ending import audit, finish, send_successors, wake
from tests.simulation.histories.events.tables import SHARDED_EVENTS
from tests.simulation.histories.history import History
from tests.simulation.histories.producers import (
    EVENT_ID,
    KEY,
    SEQUENCE,
    IdProducer,
    NumberProducer,
    PlainProducer,
    Producer,
)
from tests.simulation.histories.prologue import archive_shards
from tests.simulation.histories.shard_site import ShardSite, Span
from tests.simulation.histories.sharded_scenarios import ShardedScenario, sharded_scenario_of
from tests.simulation.histories.site import Site
from tests.simulation.modes import Mode
from tests.simulation.promises.commands import judge_deletion
from tests.simulation.promises.verdicts import CLOCKS, DAY, REREAD, check_claims, check_watermarks
from tests.simulation.services.bucket import Stored
from tests.simulation.services.dynamodb import Item, Table
from tests.simulation.services.kcl import Consumer
from tests.simulation.services.kinesis import HOUR
from tests.simulation.world import Host, Violation, name

MAX_SHARDS = 5
MAX_BATCH_SECONDS = 900


class ShardedHistory(History):
    """One seed's history of a mode other than `plain`; see `History`."""

    events: ClassVar[Mapping[str, Callable[[Any], None]]] = SHARDED_EVENTS
    max_living: ClassVar[int] = 6
    scenario: ShardedScenario

    def __init__(
        self,
        mode: Mode,
        seed: int,
        tally: Counter[str],
        *,
        traced: bool = False,
        scenario: ShardedScenario | None = None,
    ) -> None:
        self.mode = mode
        self.shard_sites: list[ShardSite] = []
        self.drained: set[int] = set()
        self.max_shards = MAX_SHARDS
        super().__init__(seed, tally, traced=traced, scenario=scenario or sharded_scenario_of(mode, seed))
        self.table = Table(self.world, self._put_in_table, self._sent_to_table)
        self.operator = Operator(self)
        self.command_runs: list[CommandRun] = []
        self.claimed_at: dict[str, float] = {}
        self.retention_raised_at: float | None = None
        self.ids_in_conflict: set[Hashable] = set()
        self.producer = self._producer()
        if self.rng.random() < 0.8:
            self.producer.put(self)

    def _producer(self) -> Producer:
        if self.scenario.dedupe == "claims":
            return IdProducer()
        return NumberProducer(self) if self.scenario.dedupe == "watermark" else PlainProducer()

    def _chance(self, of: str = "") -> random.Random:
        return random.Random(f"{self.mode} {self.seed}{of}")

    # Shards

    def _sites(self) -> list[Site]:
        rng, scenario = self.rng, self.scenario
        hours = rng.choice((30.0, 60.0, 24.2)) if scenario.old_stream else rng.choice((2.0, 20.0))
        created, start = self.world.now - hours * HOUR, rng.choice(scenario.starts)
        for number in range(scenario.roots):
            site = self._add([], created=created, start=start)
            site.span = Span(number / scenario.roots, (number + 1) / scenario.roots)
        return list(self.shard_sites)

    def _add(self, parents: list[ShardSite], *, created: float, start: str) -> ShardSite:
        site = ShardSite(
            self.world, self.bucket, len(self.shard_sites), created=created, start=start, parents=parents
        )
        self.shard_sites.append(site)
        site.table = self.shard_sites
        first = self.shard_sites[0]
        site.stream.shards = first.stream.shards
        site.stream.refuses_trimmed = first.stream.refuses_trimmed
        site.stream.retention_hours = first.stream.retention_hours
        if site is not first:
            first.stream.shards.append(site.stream)
        return site

    def reshard(self) -> None:
        """Split a shard, or merge two neighbours."""
        opened = sorted((site for site in self.shard_sites if site.is_open), key=lambda site: site.span)
        if len(self.shard_sites) + 2 > self.max_shards:
            return
        at = self.rng.randrange(len(opened))
        merges = len(opened) > 1 and at + 1 < len(opened) and self.rng.random() < 0.5
        parents = opened[at : at + 2] if merges else [opened[at]]
        low, high = parents[0].span.low, parents[-1].span.high
        spans = [Span(low, high)] if merges else [Span(low, (low + high) / 2), Span((low + high) / 2, high)]
        for parent in parents:
            parent.trouble(at_end=True)
            parent.stream.shard.close()
            parent.stream.closed_at = self.world.now
            parent.lease.changes += 1  # its row names its children from now on
        for span in spans:
            child = self._add(parents, created=parents[0].stream.created, start="plain")
            child.span = span
            child.stream.born = self.world.now
            child.trouble()
            self.sites.append(child)
        self.world.happened("stream: two shards are merged" if merges else "stream: a shard is split")

    def site(self) -> Site:
        """Return a shard to do something to, of those that KCL would start by preference."""
        ready = [
            site for site in self.shard_sites if site.may_start() and site.lease.checkpoint != SHARD_END
        ] or self.shard_sites
        return self.rng.choice(ready)

    def lease_changes(self) -> int:
        """Return how often anybody has changed the lease table."""
        return sum(site.lease.changes for site in self.shard_sites)

    def site_of(self, consumer: Consumer) -> ShardSite:
        """Return the shard that a consumer reads."""
        return next(site for site in self.shard_sites if site.stream is consumer.stream)

    # Machines

    def start(self, site: Site, *, settings: Settings | None = None, healthy: bool = False) -> Consumer | None:
        """Give the lease to a new consumer, if KCL would."""
        assert isinstance(site, ShardSite)
        if not site.may_start():
            return None
        return super().start(site, settings=settings, healthy=healthy)

    def settings(self, *, adopt: bool) -> Settings:
        """Return the settings of the next processor."""
        scenario, settings = self.scenario, replace(super().settings(adopt=adopt), dedupe=self.scenario.dedupe)
        if scenario.dedupe == "claims":
            return replace(settings, event_id=EVENT_ID)
        if scenario.dedupe == "watermark":
            key = KEY if scenario.keyed else None
            return replace(settings, producer_sequence=SEQUENCE, producer_key=key, producer_ordered=scenario.ordered)
        return settings

    def _consumer(self, host: Host, site: Site, settings: Settings) -> Consumer:
        table = self.table if self.scenario.dedupe else None
        return Consumer(host, site.lease, site.stream, self.bucket, settings, table)

    def _settle(self, site: Site) -> bool:
        try:
            site.settle_start()
        except SafetyRefusal as exc:
            raise Violation(f"consume was refused without cause: {exc}") from exc
        return True

    def refusal_is_right(self, consumer: Consumer) -> bool:
        """Tell whether a person has something to decide: records are lost, or the start was moved."""
        site = self.site_of(consumer)
        moved = site.record is not None and site.record.start_at_ms is not None and site.lease.start == "TRIM_HORIZON"
        return self.scenario.trims and (site.stream.shard.trimmed > 0 or moved)

    def may_have_lost_table(self, consumer: Consumer) -> bool:
        """Tell whether a consumer may have met a dedupe table that was deleted."""
        return bool(self.table.lost_at) and self.table.lost_at[-1] >= consumer.began_at

    def _prologue(self) -> None:
        archive_shards(self)

    def owner_of(self, site: Site) -> Consumer | None:
        """Return the consumer that reads the shard and has its lease, if it waits for work."""
        found = (consumer for consumer in self.consumers if consumer.lease is site.lease and consumer.owns_lease)
        return next((consumer for consumer in found if consumer.ready and not consumer.orphan), None)

    # Objects and rows

    def _created(self, key: str, stored: Stored) -> None:
        if key.endswith("_application.json"):
            self.owner = self.sites[0]
            for site in self.shard_sites:
                if not site.parents:
                    site.ledger.created(key, stored)
            return
        if self.owner is None:
            raise Violation(f"{key} was written before _application.json")
        site_of = next((site for site in self.shard_sites if f"/{site.shard_id}/" in key), None)
        if site_of is not None:
            site_of.ledger.created(key, stored)
        self.world.note("S3", key)

    def _deleted(self, key: str) -> None:
        judge_deletion(self, key)

    def _put_in_table(self, key: str, item: Item) -> None:
        """Look at what is stored in the dedupe table: a tail row speaks of what is archived."""
        if not key.startswith("t:"):
            # Its first claim: one that was delayed for days arrives with an end that was set when it was sent.
            self.claimed_at.setdefault(item["owner"]["S"], self.world.now)
            return
        site = next(site for site in self.shard_sites if key.endswith(site.shard_id))
        number = site.stream.shard.index[Position.parse(item["position"]["S"])]
        if number not in site.ledger.ends and not site.ledger.beyond_promise:
            raise Violation(f"a tail row names {name(number)} of {site.shard_id}, which ends no segment")

    def _sent_to_table(self, host: Host, item: Item) -> None:
        """Look at a claim when it is sent: it outlives all that the stream may still deliver by then.

        Not when its machine slept since the batch came: the batch is too old to be committed.
        """
        if "expires" not in item or self.world.now - host.received_at > MAX_BATCH_SECONDS:
            return
        seconds = int(item["expires"]["N"]) - self.world.now
        raised = self.retention_raised_at
        learning = raised is not None and host.received_at < raised + REREAD
        needed = self.shard_sites[0].stream.retention_hours * HOUR + DAY - CLOCKS
        if seconds < needed and not learning:
            raise Violation(f"a claim ends in {seconds:.0f} s, before the stream must have let go of its copies")

    # The end

    def _drain(self) -> bool:
        flying = self.bucket.flying
        while flying and self.rng.random() < 0.7:
            self.bucket.land(self.rng.randrange(len(flying)))
        for command_run in list(self.command_runs):
            command_run.host.holdup = 0
            command_run.go_on()
        wake(self, 0.4)
        for site in self.shard_sites:
            site.stream.fault_rate = 0
        for site in self.shard_sites:
            if site.may_start() and send_successors(self, site):
                self.drained.add(site.number)
        for consumer in list(self.consumers):
            if consumer in self.consumers:
                finish(self, consumer)
        while flying:
            self.bucket.land(0)
        while self.table.flying:
            self.table.land(0)
        return len(self.drained) == len(self.shard_sites)

    def _check(self, *, drained: bool) -> None:
        if self.scenario.healthy and not drained:
            raise Violation("a healthy history did not come to its end")
        # Where the service names no time, nobody is sure that nothing was trimmed.
        may_break = self.scenario.trims or not self.shard_sites[0].stream.names_dates
        for site in self.shard_sites:
            site.ledger.check(drained=site.number in self.drained, may_break=may_break)
        audit(self, self.shard_sites)
        if self.scenario.dedupe is None or any(site.ledger.beyond_promise for site in self.shard_sites):
            return
        (check_claims if self.scenario.dedupe == "claims" else check_watermarks)(self)
