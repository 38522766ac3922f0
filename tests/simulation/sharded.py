"""One history of a stream of several shards: producers send again, shards split and merge, operators act."""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from archive.errors import MinutebookError, SafetyRefusal
from archive.format.position import Position
from consumer.settings.settings import Settings
from tests.fakes.daemon_double import SHARD_END
from tests.simulation.bucket import Stored
from tests.simulation.dynamodb import Item, Table
from tests.simulation.ending import finish, send_heirs, wake
from tests.simulation.errands import Errand, Operator
from tests.simulation.history import History
from tests.simulation.kcl import Consumer
from tests.simulation.kinesis import HOUR
from tests.simulation.ledger import name
from tests.simulation.producers import EVENT_ID, KEY, SEQUENCE, IdProducer, NumberProducer, PlainProducer, Producer
from tests.simulation.sharded_happenings import HAPPENINGS
from tests.simulation.sharded_kinds import ShardedKind, sharded_kind_of
from tests.simulation.shards import ShardSite, Span
from tests.simulation.site import Site
from tests.simulation.verdicts import CLOCKS, DAY, REREAD, check_claims, check_watermarks
from tests.simulation.world import Host, Violation

MAX_SHARDS = 5
MAX_BATCH_SECONDS = 900


class ShardedHistory(History):
    """One seed's history of a mode other than `plain`; see `History`."""

    happenings: ClassVar[Mapping[str, Callable[[Any], None]]] = HAPPENINGS
    max_living: ClassVar[int] = 6
    kind: ShardedKind

    def __init__(
        self, mode: str, seed: int, tally: Counter[str], *, traced: bool = False, kind: ShardedKind | None = None
    ) -> None:
        self.mode = mode
        self.shard_sites: list[ShardSite] = []
        self.drained: set[int] = set()
        super().__init__(seed, tally, traced=traced, kind=kind or sharded_kind_of(mode, seed))
        self.table = Table(self.world, self._put_in_table, self._sent_to_table)
        self.operator = Operator(self)
        self.errands: list[Errand] = []
        self.claimed_at: dict[str, float] = {}
        self.retention_raised_at: float | None = None
        self.producer: Producer = {"claims": IdProducer, "watermark": lambda: NumberProducer(self)}.get(
            self.kind.dedupe or "", PlainProducer
        )()
        if self.rng.random() < 0.8:
            self.producer.put(self)

    def _chance(self) -> random.Random:
        return random.Random(f"{self.mode} {self.seed}")

    # Shards

    def _sites(self) -> list[Site]:
        rng, kind = self.rng, self.kind
        hours = rng.choice((30.0, 60.0, 24.2)) if kind.old_stream else rng.choice((2.0, 20.0))
        created, start = self.world.now - hours * HOUR, rng.choice(kind.starts)
        for number in range(kind.roots):
            site = self._add([], created=created, start=start)
            site.span = Span(number / kind.roots, (number + 1) / kind.roots)
        return list(self.shard_sites)

    def _add(self, parents: list[ShardSite], *, created: float, start: str) -> ShardSite:
        site = ShardSite(
            self.world, self.bucket, len(self.shard_sites), created=created, start=start, parents=parents
        )
        self.shard_sites.append(site)
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
        if len(self.shard_sites) + 2 > MAX_SHARDS:
            return
        at = self.rng.randrange(len(opened))
        merges = len(opened) > 1 and at + 1 < len(opened) and self.rng.random() < 0.5
        parents = opened[at : at + 2] if merges else [opened[at]]
        low, high = parents[0].span.low, parents[-1].span.high
        spans = [Span(low, high)] if merges else [Span(low, (low + high) / 2), Span((low + high) / 2, high)]
        for parent in parents:
            parent.stream.shard.close()
            parent.stream.closed_at = self.world.now
            parent.lease.changes += 1  # its row names its children from now on
        for span in spans:
            child = self._add(parents, created=parents[0].stream.created, start="plain")
            child.span = span
            self.sites.append(child)
        self.world.happened("stream: two shards are merged" if merges else "stream: a shard is split")

    def site(self) -> Site:
        """Return a shard to do something to, of those that KCL would start by preference."""
        ready = [
            site for site in self.shard_sites if site.may_start() and site.lease.checkpoint != SHARD_END
        ] or self.shard_sites
        return self.rng.choice(ready)

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
        kind = self.kind
        given: dict[str, Any] = {
            "claims": {"event_id": EVENT_ID},
            "watermark": {
                "producer_sequence": SEQUENCE,
                "producer_key": KEY if kind.keyed else None,
                "producer_ordered": kind.ordered,
            },
        }.get(kind.dedupe or "", {})
        return replace(super().settings(adopt=adopt), dedupe=kind.dedupe, **given)

    def _consumer(self, host: Host, site: Site, settings: Settings) -> Consumer:
        table = self.table if self.kind.dedupe else None
        return Consumer(host, site.lease, site.stream, self.bucket, settings, table)

    def _settle(self, site: Site) -> bool:
        try:
            site.settle_start()
        except SafetyRefusal as exc:
            raise Violation(f"consume was refused without cause: {exc}") from exc
        return True

    def _refusal_is_right(self, consumer: Consumer) -> bool:
        site = self.site_of(consumer)
        moved = site.record is not None and site.record.start_at_ms is not None and site.lease.start == "TRIM_HORIZON"
        return self.kind.trims and (site.stream.shard.trimmed > 0 or moved)

    def _may_die_of(self, error: MinutebookError, consumer: Consumer, *, healthy: bool) -> bool:
        vanished = bool(self.table.lost_at) and self.table.lost_at[-1] >= consumer.began_at
        if type(error).__name__ == "StoreRefused":
            return vanished
        return super()._may_die_of(error, consumer, healthy=healthy)

    def _prologue(self) -> None:
        for _ in range(self.rng.randint(1, 4)):
            self.producer.put(self)
            self.world.now += self.rng.choice((5, 40, 70))
            for site in self.shard_sites:
                worker = self.owner_of(site) or self.start(site, healthy=True)
                if worker is not None:
                    self.deliver(worker, self.rng.choice((2, None)), healthy=True)
        for worker in list(self.consumers):
            end = self.rng.random()
            if end < 0.3:
                self.give(worker, "shutdownRequested", healthy=True)
            elif end < 0.5:
                worker.task.kill()
                self.consumers.remove(worker)
            else:
                worker.host.holdup = self.rng.choice(self.kind.holdups)
                worker.host.fault_rate = self.rng.choice(self.kind.faults)

    def owner_of(self, site: Site) -> Consumer | None:
        """Return the consumer that reads the shard and has its lease, if it waits for work."""
        found = (one for one in self.consumers if one.lease is site.lease and one.owns_lease)
        return next((one for one in found if one.idle and one.opened and not one.leaving and not one.orphan), None)

    # What comes to be

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
        if self.world.trace is not None:
            self.world.note("S3", key)

    def _deleted(self, key: str) -> None:
        self.operator.judge_deletion(key)

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
        for errand in list(self.errands):
            errand.host.holdup = 0
            errand.go_on()
        wake(self, 0.4)
        for site in self.shard_sites:
            site.stream.fault_rate = 0
        for site in self.shard_sites:
            if site.may_start() and send_heirs(self, site):
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
        if self.kind.healthy and not drained:
            raise Violation("a healthy history did not come to its end")
        for site in self.shard_sites:
            site.ledger.check(drained=site.number in self.drained, may_break=self.kind.trims)
        if self.kind.dedupe is None or any(site.ledger.beyond_promise for site in self.shard_sites):
            return
        (check_claims if self.kind.dedupe == "claims" else check_watermarks)(self)
