"""One history from one seed: what happens, and whether what boundaries say is true at each moment.

    true        whatever arrived in [since, boundary) on any shard, outside its named gaps, is archived when a marker
                is stored, when it is read, and when an hour is called a success; a row says the same of its shard
    in order    markers come one after the other, none is left out
    not stuck   after 2,000 s of calm the newest boundary is at most two boundaries and five minutes old
    no gap      none is named where nothing was skipped, and no worker was away for long
    whole       in the end each whole hour without a gap has its `_SUCCESS`

A batch that KCL skipped may be missing where its marker was not stored yet and another run's row covers it: that is
the risk that the contract names, and is counted apart.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from minutebook.completeness.objects import BoundaryObjects
from minutebook.completeness.query import Answer, judge, read_completeness
from minutebook.coverage.evidence import SURELY_HELD_MS
from minutebook.errors import MinutebookError, StoreUnavailable
from minutebook.format.arrival import ARRIVAL_STEP_BACK_MS
from minutebook.format.boundaries import (
    COMPLETE,
    UNTIL,
    CompleteMarker,
    NamedGap,
    Since,
    decode_complete,
    decode_rows,
    encode_boundary,
    parse_marker_key,
    since_key,
    success_key,
)
from minutebook.format.coverage_markers import SKIPPED, parse_skipped_key
from minutebook.format.metadata import Continuity
from minutebook.format.minute import iso_time
from minutebook.format.position import Position
from minutebook.format.read_mark import MarkKind, ReadMark, encode_read_mark, mark_days, read_mark_key
from minutebook.retry import Backoff
from minutebook.store.retrying import RetryingStore
from tests.boundaries.store import Entry, Store
from tests.boundaries.stream import HOUR, MINUTE, SECOND, Kept, Shard
from tests.boundaries.world import HostClock, Lease, Skip, Worker, World
from tests.fakes.archive_scene import PREFIX, ArchiveScene
from tests.fakes.world import settings

CALM_MS: Final = 2000 * SECOND
ACTS: Final = (
    *("kill", "kill", "kill", "redeploy", "redeploy", "pause", "pause", "split", "split", "merge", "steal", "stale"),
    *("skip", "store", "stream", "damage", "audit", "outage", "blackout", "quiet"),
)

_LOSSES: Final = frozenset({"outage", "blackout", "skip"})


class Violation(NamedTuple):
    """What was not true. `risk`: the contract names it."""

    what: str
    is_risk: bool = False


class Outcome(NamedTuple):
    """The end of a history."""

    violations: list[Violation]
    log: list[str]
    counts: Counter[str]


class History:
    """One history; `skippy`: KCL skips batches often."""

    def __init__(self, seed: int, *, acts: Iterable[str] = ACTS, skippy: bool = False) -> None:
        self.world = world = World(seed)
        self.violations: list[Violation] = []
        self.acts = tuple(acts)
        self.skippy = skippy
        self._newest: CompleteMarker | None = None
        self._away_until_ms = 0
        self._is_gapless = False
        self._damages_next = False
        self._skip_keys: dict[str, list[int]] = {}
        self._seen: set[tuple[object, bool]] = set()
        clock = HostClock(world, 0)
        store = Store(world, _nothing, _nothing)
        self._scene = ArchiveScene(store, PREFIX)
        self._store = RetryingStore(
            store,
            lambda: Backoff(clock, world.rng, budget_seconds=60),
            lambda work, items: [work(item) for item in items],
        )
        world.bucket.on_created = self._created
        world.stream.on_arrived = self._arrived

    # Life

    def run(self) -> Outcome:
        """Live it."""
        world, rng = self.world, self.world.rng
        self._begin()
        end_ms = world.now_ms + rng.choice([15, 25, 40]) * MINUTE
        acts = rng.choices(self.acts, k=rng.choice([0, 1, 2, 3, 5, 8]))
        self._is_gapless = not self.skippy and _LOSSES.isdisjoint(acts)
        times = sorted(rng.randrange(world.now_ms + 5 * SECOND, end_ms) for _ in acts)
        world.store_faults = rng.choice([0, 0, 0.01, 0.03])
        world.stream_faults = rng.choice([0, 0, 0.02])
        world.odd_answers = rng.choice([0, 0, 0.1, 0.5])
        if self.skippy:
            world.late_log = 0.7
            acts += ["skip"] * 4
            times = sorted([*times, *(rng.randrange(world.now_ms + MINUTE, end_ms) for _ in range(4))])
        away_ms = 0
        for time_ms, act in zip(times, acts, strict=True):
            world.live_until(time_ms + away_ms)
            world.counts[f"act: {act}"] += 1
            away_ms += self._act(act)
        world.live_until(end_ms + away_ms)
        self._calm()
        return Outcome(self.violations, world.log, world.counts)

    def _begin(self) -> None:
        world, rng = self.world, self.world.rng
        start_ms = None
        if rng.random() < 0.5:
            start_ms = world.now_ms // SECOND * SECOND
            world.begin_ms = world.stream.floor_ms = start_ms
        else:
            world.begin_ms = world.stream.created_ms
        view = Worker(world, speaks=False).stream
        self._scene.settle(view.describe(), start_at_ms=start_ms, application=settings().application_name)
        self._scene.first(*world.stream.shards)
        for name in world.stream.shards:
            world.leases[name] = Lease(name, "TRIM_HORIZON" if start_ms is None else "AT_TIMESTAMP")
        if rng.random() < 0.1:
            since = Since(since=iso_time((world.now_ms // HOUR - 50) * HOUR), writer="old")
            world.bucket.place(since_key(PREFIX), encode_boundary(since))
        for _ in range(rng.choice([1, 1, 2, 2, 3])):
            self._start_worker(speaks=rng.random() < 0.93)

    def _start_worker(self, *, speaks: bool = True) -> Worker:
        world = self.world
        skew_ms = world.rng.choice([0, 0, 0, 3 * MINUTE, -4 * MINUTE, 90 * SECOND])
        worker = Worker(world, speaks=speaks, skew_ms=skew_ms)
        world.workers.append(worker)
        world.note(f"{worker.run} starts{'' if speaks else ', of an older release'}")
        self._tick(worker)
        return worker

    def _tick(self, worker: Worker) -> None:
        world = self.world
        if worker not in world.workers:
            if not world.workers:
                soon_ms = world.now_ms + world.rng.choice([5, 40, 120]) * SECOND
                world.at(max(soon_ms, self._away_until_ms), self._replace)
            return
        worker.step(worker.work)
        if world.rng.random() < 0.02:
            self._read()
        wait_ms = 45 * SECOND if world.is_calm else world.rng.choice([5, 10, 20, 30, 60]) * SECOND
        if world.stream.least_spacing_ms:
            wait_ms = 10 * MINUTE
        world.at(world.now_ms + wait_ms, lambda: self._tick(worker))

    def _replace(self) -> None:
        if not self.world.workers:
            self._start_worker()

    # What happens

    def _act(self, act: str) -> int:  # noqa: C901 - a table of what happens
        """Let something happen; return by how much all that is planned moves."""
        world, rng, stream = self.world, self.world.rng, self.world.stream
        worker = rng.choice(world.workers) if world.workers else None
        done: object = None if worker is None else worker.run
        moved_ms = 0
        if act == "split" and len(stream.shards) < 6:
            done = stream.reshard(world.now_ms, merges=False)
        elif act == "merge" and len(stream.shards) < 6 and len(stream.open_shards()) > 1:
            done = stream.reshard(world.now_ms, merges=True)
        elif act in {"outage", "blackout"}:
            moved_ms = done = rng.choice([20 * MINUTE, 2 * HOUR, 23 * HOUR + 50 * MINUTE, 25 * HOUR, 30 * HOUR])
            self._away(moved_ms, is_outage=act == "outage")
        elif act == "store":
            self._fail(0.5, 0.0)
        elif act == "stream":
            self._fail(0.0, 0.7)
        elif act == "damage":
            self._damages_next = True  # nobody can read the next rows
        elif act == "audit":
            done = self._audit()
        elif act == "quiet":
            for shard in stream.shards.values():
                shard.spacing_ms = 0
        elif worker is not None:
            done = self._act_on(worker, act)
        world.note(f"{act}: {done}")
        return moved_ms

    def _act_on(self, worker: Worker, act: str) -> object:  # noqa: C901, PLR0912 - a table of what happens
        world, rng = self.world, self.world.rng
        match act:
            case "kill":
                worker.requests_left = rng.choice([0, rng.randrange(10), rng.randrange(60)])
                self._after(rng.choice([30, 60, 200]), self._start_worker)
            case "redeploy":
                if rng.random() < 0.5:
                    self._start_worker()
                    self._after(20, lambda: worker.step(worker.stop))
                else:
                    worker.step(worker.stop)
                    self._after(rng.choice([1, 20, 100]), self._start_worker)
            case "pause":
                worker.is_paused = True
                if not any(not other.is_paused for other in world.workers):
                    self._start_worker()
                self._after(rng.choice([20, 60, 300, 900]), lambda: setattr(worker, "is_paused", False))
            case "steal" if leases := [lease for lease in world.leases.values() if lease.owner is worker]:
                lease = rng.choice(leases)
                lease.owner, lease.token, lease.free_ms = None, lease.token + 1, world.now_ms
                return lease.shard
            case "stale" if leases := [one for one in world.leases.values() if len(one.written) > 1]:
                lease = rng.choice(leases)
                if lease.checkpoint != "SHARD_END":
                    lease.checkpoint = rng.choice(lease.written[-4:-1])
                    lease.owner, lease.token = None, lease.token + 1
                return lease.shard, lease.checkpoint
            case "skip" if worker.readings:
                reading = rng.choice(list(worker.readings.values()))
                reading.skips_next = True
                if rng.random() < 0.5:  # KCL is late, and what comes behind the batch is of later minutes
                    reading.late_until_ms = world.now_ms + rng.choice([2, 4]) * MINUTE
                if reading.index >= len(reading.shard.records) and reading.shard.closed_ms is None:
                    world.stream.arrive(reading.shard, world.now_ms)
                    if rng.random() < 0.7:
                        world.stream.arrive(reading.shard, world.now_ms)
                return reading.shard.name
        return worker.run

    def _after(self, seconds: int, act: Callable[[], object]) -> None:
        self.world.at(self.world.now_ms + seconds * SECOND, act)

    def _away(self, span_ms: int, *, is_outage: bool) -> None:
        """Let all workers be dead for long, or none of them publish; little arrives meanwhile."""
        world = self.world
        if is_outage:
            for worker in list(world.workers):
                worker.bury()
            self._away_until_ms = world.now_ms + span_ms
            world.at(self._away_until_ms, self._replace)
        for worker in world.workers:
            worker.publishes = False
        world.stream.least_spacing_ms = HOUR
        if world.rng.random() < 0.3 and len(world.stream.shards) < 5:
            world.at(world.now_ms + int(span_ms * world.rng.random()), lambda: self._act("split"))
        world.at(world.now_ms + span_ms - SECOND, self._back)

    def _back(self) -> None:
        self.world.stream.least_spacing_ms = 0
        for worker in self.world.workers:
            worker.publishes = True

    def _fail(self, of_store: float, of_stream: float) -> None:
        world = self.world
        before = world.store_faults, world.stream_faults
        world.store_faults, world.stream_faults = max(before[0], of_store), max(before[1], of_stream)

        def end() -> None:
            world.store_faults, world.stream_faults = (0.0, 0.0) if world.is_calm else before

        self._after(world.rng.choice([60, 200, 600]), end)

    def _audit(self) -> object:
        """Compare what the stream holds with the archive, as an audit of level `stream` does."""
        world = self.world
        now_ms = world.now_ms
        writer, until_ms = world.new_id(), now_ms // SECOND * SECOND - ARRIVAL_STEP_BACK_MS
        begin_ms = max(world.begin_ms, now_ms - 36 * HOUR)
        for shard in world.stream.shards.values():
            held = shard.records[shard.trimmed :]
            from_ms = now_ms - SURELY_HELD_MS
            if held:
                from_ms = min(from_ms, min(kept.stamp_ms for kept in held[:1]) + ARRIVAL_STEP_BACK_MS)
            from_ms = max(from_ms, begin_ms)
            last, lasts = self._tail(shard), [kept.sequence for kept in held]
            missing = {at: stamp for at, stamp in shard.missing.items() if at.sequence in lasts and stamp >= from_ms}
            lost = [stamp for at, stamp in missing.items() if last is not None and at < last and stamp < until_ms]
            if lost:
                mark = ReadMark(shard.name, MarkKind.STREAM, Continuity.LOST, min(lost) - 1, max(lost), None, writer)
            elif from_ms < until_ms and last is not None and not any(stamp < until_ms for stamp in missing.values()):
                mark = ReadMark(shard.name, MarkKind.STREAM, Continuity.PROVEN, from_ms, until_ms, last, writer)
            else:
                continue
            for day in mark_days(mark):
                world.bucket.put(read_mark_key(PREFIX, day, mark), encode_read_mark(mark), {})
            world.counts["stream marks"] += 1
        return None

    def _tail(self, shard: Shard) -> Position | None:
        """Return the end of a shard's last segment."""
        entries = self.world.bucket.entries
        lasts = (
            Position.parse(entries[key].metadata["last"])
            for key, _ in self.world.contents
            if key in entries and entries[key].metadata["shard"] == shard.name
        )
        return max(lasts, default=None)

    def _calm(self) -> None:
        """Let nothing fail any more, and ask whether all is said in time."""
        world = self.world
        world.store_faults = world.stream_faults = world.odd_answers = 0
        world.is_calm = True
        world.stream.least_spacing_ms = 0
        for worker in list(world.workers):
            worker.is_paused, worker.requests_left, worker.publishes = False, None, True
            if worker.boundaries is None:
                worker.step(worker.stop)
        if not world.workers:
            self._start_worker()
        wait_ms = CALM_MS + (3 * world.every_ms if world.every_ms > CALM_MS else 0)
        world.note("calm")
        world.live_until(world.now_ms + wait_ms)
        self._read()
        newest_ms = 0 if self._newest is None else self._newest.boundary_ms
        if newest_ms < world.now_ms - 2 * world.every_ms - 5 * MINUTE:
            self._violated(f"stuck at {'nothing' if self._newest is None else self._newest.boundary}")
            for worker in world.workers:
                if worker.boundaries is not None:
                    worker.step(lambda worker=worker: self._say_holds(worker))  # type: ignore[misc]  # bound at once
        self._judge_hours()

    def _say_holds(self, worker: Worker) -> None:
        assert worker.boundaries is not None
        try:
            attempt = worker.boundaries._publisher.attempt(self.world.now_ms)
        except MinutebookError as exc:
            self.world.note(f"{worker.run} cannot publish: {exc}")
        else:
            self.world.note(f"{worker.run}: {attempt.holds}")

    # Whether it is true

    def _violated(self, what: str, *, about: object = None, is_risk: bool = False) -> None:
        """Write down what is not true; once for everything that it is about."""
        about = what if about is None else about
        if (about, is_risk) not in self._seen:
            self._seen.add((about, is_risk))
            self.violations.append(Violation(what, is_risk))
            self.world.note(f"{'risk' if is_risk else 'VIOLATION'}: {what}")

    def _created(self, key: str, entry: Entry) -> None:
        """Judge what was stored."""
        self.world.stream.advance(self.world.now_ms)
        if entry.metadata:
            self.world.archived(key, entry)
        elif key.startswith(f"{PREFIX}{COMPLETE}"):
            self._judge_complete(key, entry)
        elif key.startswith(f"{PREFIX}{UNTIL}"):
            if self._damages_next:
                self._damages_next = False
                self.world.bucket.place(key, entry.body[:-9])
            self._judge_rows(key, entry)
        elif key.startswith(f"{PREFIX}{SKIPPED}"):
            parsed = parse_skipped_key(PREFIX, key)
            run = parsed.writer.rpartition("_")[0]
            self._skip_keys.setdefault(f"{run} {parsed.shard_id}", []).append(self.world.now_ms)

    def _arrived(self, shard: Shard, kept: Kept) -> None:
        """Judge that no marker has said already that everything of this time is archived."""
        marker = self._newest
        if marker is not None and kept.users and marker.since_ms <= kept.stamp_ms < marker.boundary_ms:
            named = (gap.times_ms for gap in marker.gaps if gap.shard == shard.name)
            if not any(low <= kept.stamp_ms < high for low, high in named):
                self._violated(f"a record of {iso_time(kept.stamp_ms)} arrives behind marker {marker.boundary}")

    def _judge_complete(self, key: str, entry: Entry) -> None:
        parsed = parse_marker_key(PREFIX, key)
        if key.endswith("_SUCCESS"):
            self.world.counts["successes"] += 1
            marker = self._newest
            hour = key.removeprefix(f"{PREFIX}{COMPLETE}")[:13].replace("/", "T")
            begin_ms = next(
                hour_ms
                for hour_ms in range(self.world.now_ms // HOUR * HOUR, 0, -HOUR)
                if iso_time(hour_ms)[:13] == hour
            )
            if marker is None or not marker.since_ms <= begin_ms <= marker.boundary_ms - HOUR:
                self._violated(f"{key} is not within the boundaries")
            elif any(_touches(gap, begin_ms, begin_ms + HOUR) for gap in marker.gaps):
                self._violated(f"{key} has a gap")
            self._judge_time(begin_ms, begin_ms + HOUR, (), f"the success of {hour}")
        elif parsed is not None and parsed.withdrawal is None:
            marker = decode_complete(entry.body, key)
            self.world.counts["markers"] += 1
            self.world.counts["gaps"] += bool(marker.gaps)
            self._judge_order(marker)
            self._newest = marker
            if marker.gaps and self._is_gapless:
                self._violated(f"marker {marker.boundary} names {marker.gaps[0]}", about="gap")
            self._judge_time(marker.since_ms, marker.boundary_ms, marker.gaps, f"marker {marker.boundary}")
        elif parsed is not None:
            self.world.counts["withdrawals"] += 1

    def _judge_order(self, marker: CompleteMarker) -> None:
        before, every_ms = self._newest, self.world.every_ms
        if before is None or before.since_ms != marker.since_ms:
            is_right = marker.boundary_ms == marker.since_ms // every_ms * every_ms + every_ms
            is_right &= before is None or before.boundary_ms <= marker.since_ms
        else:
            is_right = marker.boundary_ms == before.boundary_ms + every_ms
        if not is_right:
            was = "nothing" if before is None else f"{before.boundary} since {before.since}"
            self._violated(f"marker {marker.boundary} since {marker.since} comes after {was}")

    def _judge_time(self, from_ms: int, until_ms: int, gaps: Iterable[NamedGap], whose: str) -> None:
        """Judge that everything of a time that no gap names is archived."""
        by_shard: dict[str, list[tuple[int, int]]] = {}
        for gap in gaps:
            by_shard.setdefault(gap.shard, []).append(gap.times_ms)
        for shard in self.world.stream.shards.values():
            named = by_shard.get(shard.name, ())
            for position, stamp_ms in shard.missing.items():
                if from_ms <= stamp_ms < until_ms and not any(low <= stamp_ms < high for low, high in named):
                    is_risk = self._is_risk(shard.name, position)
                    self._violated(
                        f"{whose}: {shard.name[-2:]} {str(position)[-8:]} of {iso_time(stamp_ms)} is not archived",
                        about=("marker", shard.name, position.sequence),
                        is_risk=is_risk,
                    )

    def _is_risk(self, shard: str, position: Position) -> bool:
        """Return whether a record was skipped, and the marker of that is not stored."""
        skips = [skip for skip in self.world.skips if skip.shard == shard and position in skip.records]
        return any(not self._is_told(skip, 2 * MINUTE) for skip in skips)

    def _is_told(self, skip: Skip, since_ms: int) -> bool:
        """Return whether the marker of a skipped batch was stored, as long ago as an attempt to publish may take."""
        times = self._skip_keys.get(f"{skip.run} {skip.shard}", ())
        return any(skip.at_ms <= stored_ms <= self.world.now_ms - since_ms for stored_ms in times)

    def _judge_rows(self, key: str, entry: Entry) -> None:
        """Judge what a row says: of its own daemon's skipped batches, too."""
        self.world.counts["rows"] += 1
        document = decode_rows(entry.body, key)
        for name, rows in document.rows.items():
            shard = self.world.stream.shards[name]
            for row in rows:
                for position, stamp_ms in shard.missing.items():
                    if not row.from_ms < stamp_ms <= row.until_ms or stamp_ms < self.world.begin_ms:
                        continue
                    skips = [skip for skip in self.world.skips if skip.shard == name and position in skip.records]
                    if not any(self._is_told(skip, 0) for skip in skips):
                        self._violated(
                            f"a row of {document.run}: {name[-2:]} {str(position)[-8:]} of {iso_time(stamp_ms)} "
                            f"is not archived; {row}",
                            about=("row", name, position.sequence),
                            is_risk=any(skip.run != document.run for skip in skips),
                        )

    def _read(self) -> None:
        """Ask as a reader does."""
        world, rng = self.world, self.world.rng
        objects = BoundaryObjects(self._store, PREFIX)
        try:
            known = read_completeness(objects, world.now_ms)
        except StoreUnavailable:
            world.counts["failed reads"] += 1
            return
        world.counts["reads"] += 1
        if known is None:
            return
        self._judge_time(known.since_ms, known.until_ms, known.gaps, "a reader")
        from_ms = known.since_ms + rng.randrange(max(1, known.until_ms - known.since_ms))
        until_ms = from_ms + rng.randrange(1, 2 * HOUR)
        if judge(known, from_ms, until_ms).answer is Answer.COMPLETE:
            self._judge_time(from_ms, until_ms, (), "wait")

    def _judge_hours(self) -> None:
        """Judge that no hour's success is missing in the end."""
        marker, world = self._newest, self.world
        if marker is None:
            return
        for hour_ms in range(-(-marker.since_ms // HOUR) * HOUR, marker.boundary_ms - HOUR + 1, HOUR):
            is_whole = not any(_touches(gap, hour_ms, hour_ms + HOUR) for gap in marker.gaps)
            if is_whole and success_key(PREFIX, hour_ms) not in world.bucket.entries:
                self._violated(f"no success of {iso_time(hour_ms)[:13]}")


def _touches(gap: NamedGap, from_ms: int, until_ms: int) -> bool:
    begin_ms, end_ms = gap.times_ms
    return begin_ms < until_ms and end_ms > from_ms


def _nothing(_verb: str, _key: str) -> None:
    pass


__all__ = ["ACTS", "History", "Outcome", "Violation"]
