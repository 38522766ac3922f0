"""What each act does. An act is a generator: it yields while it waits, so that several play at once in one thread."""

import os
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from botocore.exceptions import ClientError

from demo.processes import Frozen, descendants, has_unread_input
from tests.chaos.faults import DYNAMODB_FAULTS, Rates, even
from tests.chaos.proxy import FaultProxy
from tests.chaos.schedule import Act, Kind, pick
from tests.chaos.site import Seat, Site
from tests.e2e.worker import Worker

Play = Generator[None, None, None]

BACKGROUND_S3: Final[Rates] = even(0.15)
BACKGROUND_DYNAMODB: Final[Rates] = even(0.02, DYNAMODB_FAULTS)
_STORM_S3: Final[Rates] = even(0.5)
_STORM_DYNAMODB: Final[Rates] = even(0.3, DYNAMODB_FAULTS)
_MOST_OPEN_SHARDS: Final = 6
_FEWEST_OPEN_SHARDS: Final = 2
_FROZEN_SECONDS: Final = 10
"""At least: three times KCL's fail-over."""
_TAKEOVER_SECONDS: Final = 60
_LEADER_TAKEOVER_SECONDS: Final = 150
"""A dead leader's lock lasts two minutes."""
_FENCE_SECONDS: Final = 4
_SUCCESSOR_SECONDS: Final = 30
_LATE_SECONDS: Final = 1.5
_STOP_SECONDS: Final = 45
_WORK_SECONDS: Final = 60
_HOLD_SECONDS: Final = 1.0
"""After a commit, until a processor holds records again."""


class Acts:
    """The acts on a site. `is_long`: there is time for the leader to freeze until its lock has run out."""

    def __init__(self, site: Site, s3: FaultProxy, dynamodb: FaultProxy, *, is_long: bool) -> None:
        self._site = site
        self._s3 = s3
        self._dynamodb = dynamodb
        self._is_long = is_long
        self._note = site.timeline
        self._storms = {"s3": 0, "dynamodb": 0}
        self._by_kind: dict[Kind, Callable[[Act], Play]] = {
            Kind.KILL_PROCESSOR: self._kill_processor,
            Kind.KILL_DAEMON: self._kill_daemon,
            Kind.KILL_SUPERVISOR: self._kill_supervisor,
            Kind.RESTART_WORKER: self._restart_worker,
            Kind.FREEZE_WORKER: self._freeze_worker,
            Kind.STEAL_LEASE: self._steal_lease,
            Kind.KILL_S3: self._kill_s3,
            Kind.S3_STORM: self._s3_storm,
            Kind.DYNAMODB_STORM: self._dynamodb_storm,
            Kind.SPLIT: self._split,
            Kind.MERGE: self._merge,
            Kind.LOSE_TABLE: self._lose_table,
        }

    def begin(self, act: Act) -> Play:
        """Return the act's play."""
        return self._by_kind[act.kind](act)

    def _kill_processor(self, act: Act) -> Play:
        candidates = [place for place in self._site.idle_places() if _worker(place).processors()]
        if not candidates:
            return self._note.skip(act.kind, "no processor runs")
        place = candidates[int(act.pick * len(candidates))]
        processors = _worker(place).processors()
        victim = processors[int(act.pick * 997) % len(processors)]
        self._note.strike(act.kind, self._site.holds(place), worker=place.name, pid=victim.pid)
        os.kill(victim.pid, signal.SIGKILL)
        yield from ()

    def _kill_daemon(self, act: Act) -> Play:
        candidates = [place for place in self._site.idle_places() if _worker(place).daemons()]
        if not candidates:
            return self._note.skip(act.kind, "no daemon runs")
        place = candidates[int(act.pick * len(candidates))]
        victim = _worker(place).daemons()[0]
        self._note.strike(act.kind, self._site.holds(place), worker=place.name, pid=victim.pid)
        os.kill(victim.pid, signal.SIGKILL)
        yield from ()

    def _kill_supervisor(self, act: Act) -> Play:
        candidates = self._site.idle_places()
        if not candidates:
            return self._note.skip(act.kind, "no worker runs")
        place = candidates[int(act.pick * len(candidates))]
        self._note.strike(act.kind, self._site.holds(place), worker=place.name)
        self._site.kill(place)
        yield from ()

    def _restart_worker(self, act: Act) -> Play:
        candidates = self._site.idle_places()
        if not candidates:
            return self._note.skip(act.kind, "no worker runs")
        place = candidates[int(act.pick * len(candidates))]
        with self._hands_on(place):
            self._note.strike(act.kind, self._site.holds(place), worker=place.name)
            yield from self._stop(place)

    def _stop(self, place: Seat) -> Play:
        """SIGTERM, and SIGKILL when that takes too long."""
        _worker(place).terminate()
        yield from self._wait(lambda: self._site.has_ended(place), _STOP_SECONDS)
        if self._site.has_ended(place):
            self._note.note("worker_stopped", worker=place.name, code=self._site.bury(place))
        else:
            self._note.note("worker_did_not_stop", worker=place.name, waited_seconds=_STOP_SECONDS)
            self._site.kill(place)

    def _freeze_worker(self, act: Act) -> Play:
        """Freeze a worker until another one works on its shards, and wake its processors before its daemon.

        The daemon still hands each processor a call before it freezes: the processors act on that when they wake,
        before anybody can tell them that their leases are gone.
        """
        leader = self._site.app.leader()
        may_be_leader = self._is_long and act.coin and act.pick < 0.5
        candidates = [place for place in self._site.idle_places() if may_be_leader or place.name != leader]
        if not candidates or len(self._site.idle_places()) < 2:
            return self._note.skip(act.kind, "no worker can be spared")
        place = candidates[int(act.pick * len(candidates))]
        if not self._site.holds(place):
            self._give(place)
        begun_ms = self._site.clock.now_ms()
        yield from self._wait(lambda: self._is_at_work(place, begun_ms), _WORK_SECONDS)
        if not self._is_at_work(place, begun_ms):
            return self._note.skip(act.kind, "the worker does not get to work")
        yield from self._wait(lambda: False, _HOLD_SECONDS)
        shards, worker = self._site.holds(place), _worker(place)
        limit = _LEADER_TAKEOVER_SECONDS if place.name == leader else _TAKEOVER_SECONDS
        with self._hands_on(place), ExitStack() as frozen:
            pids = [process.pid for process in worker.processors()]
            hands = frozen.enter_context(Frozen(pids))
            others = {other.name for other in self._site.places if other is not place}
            self._note.strike(act.kind, shards, successors=others, worker=place.name, is_leader=place.name == leader)
            yield from self._wait(lambda: any(map(has_unread_input, pids)), _FENCE_SECONDS)
            frozen_at_ms = self._site.clock.now_ms()
            rest = [process.pid for process in descendants(worker.pid) if process.pid not in pids]
            head = frozen.enter_context(Frozen([*rest, worker.pid]))
            yield from self._wait(lambda: False, _FROZEN_SECONDS)
            yield from self._wait(lambda: self._is_taken_over(place, shards), limit)
            yield from self._wait(lambda: self._site.has_committed(shards, others, frozen_at_ms), _SUCCESSOR_SECONDS)
            taken_over = self._is_taken_over(place, shards)
            contested = self._site.has_committed(shards, others, frozen_at_ms)
            self._note.note("thawed", worker=place.name, taken_over=taken_over, contested=contested)
            hands.thaw()
            yield from self._wait(lambda: False, _LATE_SECONDS)
            head.thaw()

    def _is_at_work(self, place: Seat, since_ms: int) -> bool:
        """Tell whether a worker has committed something lately: it will hold records again soon."""
        if place not in self._site.idle_places():
            return False
        return any(self._site.has_committed({shard}, {place.name}, since_ms) for shard in self._site.holds(place))

    def _is_taken_over(self, place: Seat, shards: set[str]) -> bool:
        rows = self._site.leases()
        return all(shard not in rows or rows[shard].owner != place.name for shard in shards)

    def _give(self, place: Seat) -> None:
        """Give the first half of the other worker's leases to a place."""
        others = sorted(
            shard
            for shard, row in self._site.leases().items()
            if row.owner not in {None, place.name} and row.checkpoint != "SHARD_END"
        )
        for shard in others[: (len(others) + 1) // 2]:
            self._site.give_lease(shard, place.name)

    def _steal_lease(self, act: Act) -> Play:
        """Give a lease to the other worker, as KCL's leader does without asking the owner first."""
        rows = self._site.leases()
        held = sorted(shard for shard, row in rows.items() if row.owner and row.checkpoint != "SHARD_END")
        successors = [place.name for place in self._site.idle_places()]
        held = [shard for shard in held if any(name != rows[shard].owner for name in successors)]
        if not held:
            return self._note.skip(act.kind, "no lease is held")
        shard = pick(held, act.pick)
        successor = next(name for name in successors if name != rows[shard].owner)
        self._note.strike(act.kind, {shard}, successors={successor}, owner=rows[shard].owner, successor=successor)
        self._site.give_lease(shard, successor)
        yield from ()

    def _kill_s3(self, act: Act) -> Play:
        """SIGKILL S3 and start it again later.

        Between two requests: this server writes body and metadata of an object in two steps, and killed between
        them it shows an object that S3 never would. Requests cut in the middle are the proxy's part.
        """
        if not self._site.is_s3_up:
            return self._note.skip(act.kind, "S3 is down already")
        with self._s3.quiet():
            self._note.strike(act.kind, self._site.all_held(), down_seconds=round(act.seconds, 1))
            self._site.kill_s3()
        try:
            yield from self._wait(lambda: False, act.seconds)
        finally:
            self._site.restart_s3()
        self._note.note("s3_restarted")

    def _s3_storm(self, act: Act) -> Play:
        yield from self._storm(act, "s3", self._s3, _STORM_S3, BACKGROUND_S3)

    def _dynamodb_storm(self, act: Act) -> Play:
        yield from self._storm(act, "dynamodb", self._dynamodb, _STORM_DYNAMODB, BACKGROUND_DYNAMODB)

    def _storm(self, act: Act, name: str, proxy: FaultProxy, rates: Rates, after: Rates) -> Play:
        self._note.strike(act.kind, self._site.all_held(), lasts_seconds=round(act.seconds, 1))
        self._storms[name] += 1
        proxy.set_rates(rates)
        yield from self._wait(lambda: False, act.seconds)
        self._storms[name] -= 1
        if self._storms[name] == 0:
            proxy.set_rates(after)

    def _split(self, act: Act) -> Play:
        open_shards = self._site.app.open_shards()
        if len(open_shards) >= _MOST_OPEN_SHARDS:
            return self._note.skip(act.kind, "there are many shards")
        shard = pick(open_shards, act.pick)
        self._note.strike(act.kind, {shard})
        self._note.note("split_done", shard=shard, children=self._site.app.split(shard))
        yield from ()

    def _merge(self, act: Act) -> Play:
        open_shards = self._site.app.open_shards()
        if len(open_shards) <= _FEWEST_OPEN_SHARDS:
            return self._note.skip(act.kind, "there are few shards")
        left = int(act.pick * (len(open_shards) - 1))
        parents = open_shards[left : left + 2]
        try:
            child = self._site.app.merge(*parents)
        except ClientError as exc:
            return self._note.skip(act.kind, str(exc))
        self._note.strike(act.kind, parents)
        self._note.note("merge_done", parents=parents, child=child)
        yield from ()

    def _lose_table(self, act: Act) -> Play:
        """Delete the lease tables under the workers; stop these; rebuild the rows from the archive, or begin anew.

        Not by starting on an empty table: kinesis-local's hash ranges do not fit after a split or merge, and KCL
        then refuses to make rows ("Incomplete hash range").
        """
        site = self._site
        with self._hands_on(*site.places):
            self._note.strike(act.kind, site.all_held())
            site.app.drop_lease_tables()
            yield from self._wait(lambda: False, act.seconds)
            for number, place in enumerate(site.places):
                if (number == 0) == act.coin and not site.has_ended(place):
                    yield from self._stop(place)
                else:
                    site.kill(place)
            site.app.drop_lease_tables()
            if act.pick < 0.5:
                site.app.reset_leases()
                self._note.note("leases_reset_to_the_horizon")
            else:
                self._note.note("leases_restored", code=site.restore())

    @contextmanager
    def _hands_on(self, *places: Seat) -> Iterator[None]:
        """Keep other acts, and the one who restarts workers, away from places."""
        for place in places:
            place.is_busy = True
        try:
            yield
        finally:
            for place in places:
                place.is_busy = False

    def _wait(self, ready: Callable[[], bool], seconds: float) -> Play:
        deadline = self._site.clock.monotonic() + seconds
        while self._site.clock.monotonic() < deadline and not ready():
            yield


def _worker(place: Seat) -> Worker:
    if place.worker is None:
        raise AssertionError(f"nobody stands in place {place.name}")
    return place.worker
