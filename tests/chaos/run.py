"""One run: start everything, play acts for a while, let it drain, read the archives back."""

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from demo.embedded import EmbeddedAws
from demo.readback import compare, read_archive
from minutebook.clock import Clock, SystemClock
from minutebook.errors import MinutebookError
from tests.chaos.acts import BACKGROUND_DYNAMODB, BACKGROUND_S3, Acts, Play
from tests.chaos.boundaries import BoundaryWatch
from tests.chaos.faults import CALM
from tests.chaos.feeder import Feeder
from tests.chaos.followed import FollowedTable
from tests.chaos.hostile import CLAIMS, HostileFeeder, judge
from tests.chaos.proxy import FaultProxy
from tests.chaos.report import Findings, tables
from tests.chaos.schedule import STRIKE_WORKERS, Act, Kind, schedule
from tests.chaos.site import SHARDS, WORKERS, ChaosApplication, Fleet, Site
from tests.chaos.timeline import Timeline
from tests.chaos.upstream import DYNAMODB, S3
from tests.e2e.harness import PREFIX
from tests.witness.waiting import PATIENCE_SECONDS

_TICK_SECONDS: Final = 0.1
_BETWEEN_SECONDS: Final = 2.0
"""Between the beginnings of two acts, also of those that had to wait."""
_SAMPLE_SECONDS: Final = 1.0
_START_SECONDS: Final = 240
_ACTS_END_SECONDS: Final = 200
_DRAIN_SECONDS: Final = 480
_STALL_SECONDS: Final = 150
_LONG_SECONDS: Final = 240
_MEND_SECONDS: Final = 120


_SHARDS_OF_MANY: Final = 2
"""Of each stream, where there are several."""
_OF_ALL: Final = frozenset({Kind.KILL_S3, Kind.S3_STORM, Kind.DYNAMODB_STORM})
"""Acts on what all streams share."""


class Run:
    """A run of `seconds` of faults. Everything that the seed can decide, it decides.

    Of several `streams` each worker is a fleet that reads them all; `rate` is that of all together. `catalog`: the
    jars of a REST catalog; the first stream is then followed into a table.
    """

    def __init__(
        self,
        folder: Path,
        *,
        seed: int,
        seconds: float,
        rate: float,
        is_loud: bool,
        is_hostile: bool = False,
        streams: int = 1,
        catalog: Path | None = None,
    ) -> None:
        self._folder = folder
        self._seconds = seconds
        self._rate = rate
        self._clock: Clock = SystemClock()
        self._is_loud = is_loud
        self._is_hostile = is_hostile
        self._names = [f"s{number}" for number in range(streams)] if streams > 1 else [""]
        self._catalog = catalog
        self._followed: FollowedTable | None = None
        self._sampled = 0.0
        self._stalls = 0
        # A generator for each, so that what one of them does not use up does not shift the others.
        feeders = [f"feeder{name}" for name in self._names]
        self._rngs = {name: random.Random(f"{seed} {name}") for name in ("acts", *feeders, "s3", "dynamodb", "table")}

    def play(self) -> list[Findings]:
        """Play the run and return what it found of each stream; logs, properties and buckets stay in the folder."""
        folder, rngs = self._folder, self._rngs
        with (
            ExitStack() as stack,
            EmbeddedAws(folder / "aws", clock=self._clock) as aws,
            FaultProxy(aws.s3_endpoint, S3, rngs["s3"]) as s3,
            FaultProxy(aws.dynamodb_endpoint, DYNAMODB, rngs["dynamodb"], longest_delay_seconds=3) as dynamodb,
        ):
            ours = CLAIMS if self._is_hostile else {}
            shards = SHARDS if len(self._names) == 1 else _SHARDS_OF_MANY
            apps: dict[str, ChaosApplication] = {}
            self._timelines: list[Timeline] = []
            for name in self._names:
                (folder / name).mkdir(exist_ok=True)
                apps[name] = ChaosApplication(aws, folder / name, s3, dynamodb, shards=shards, **ours)
                timeline = Timeline(folder / name, self._clock, is_loud=self._is_loud)
                self._timelines.append(stack.enter_context(timeline))
            fleet = Fleet(apps, folder) if len(apps) > 1 else None
            self._sites: list[Site] = []
            for (name, app), timeline in zip(apps.items(), self._timelines, strict=True):
                places = self._sites[0].places if self._sites else None
                site = Site(app, aws, folder, self._clock, timeline, places=places, fleet=fleet, stream=name)
                self._sites.append(site)
            self._site, self._timeline = self._sites[0], self._timelines[0]
            self._feeders = [self._feeder_of(name, app) for name, app in apps.items()]
            self._watches = [BoundaryWatch(app.store) for app in apps.values()]
            self._proxies = {"s3": s3, "dynamodb": dynamodb}
            if self._catalog is not None:
                first = next(iter(apps.values()))
                self._followed = FollowedTable(
                    first, aws, folder, self._clock, self._timeline, rngs["table"], self._catalog
                )
            with self._ended():
                self._begin()
                self._storm()
                self._drain()
                stop_codes = self._stop()
                return self._look(stop_codes)

    def _feeder_of(self, name: str, app: ChaosApplication) -> Feeder:
        rng, rate = self._rngs[f"feeder{name}"], self._rate / len(self._names)
        if self._is_hostile:
            return HostileFeeder(app.producer, rng, rate, app.shards)
        return Feeder(app.producer, rng, rate)

    def _sent(self) -> int:
        return sum(feeder.count for feeder in self._feeders)

    @contextmanager
    def _ended(self) -> Iterator[None]:
        """Whatever happens: no producer and no process is left, and every log is written."""
        try:
            yield
        finally:
            for feeder in self._feeders:
                feeder.stop()
            self._site.write_logs()
            for site in self._sites:
                site.end()
            if self._followed is not None:
                self._followed.end()

    def _begin(self) -> None:
        """Start the workers on seeded lease rows, and wait until each shard is open."""
        for site in self._sites:
            shards = site.app.open_shards()
            site.app.seed_leases({shard: WORKERS[number % len(WORKERS)] for number, shard in enumerate(shards)})
        self._site.keep()
        if self._followed is not None:
            self._followed.begin()
        for feeder in self._feeders:
            feeder.start()
        self._until(
            lambda: all(site.opened() >= set(site.app.open_shards()) for site in self._sites),
            _START_SECONDS,
            "every shard is opened",
        )

    def _storm(self) -> None:
        """Play acts until the time is over, then let the ones under way come to their ends."""
        acts = [
            Acts(site, self._proxies["s3"], self._proxies["dynamodb"], is_long=self._seconds >= _LONG_SECONDS)
            for site in self._sites
        ]
        coming = schedule(self._rngs["acts"], is_long=self._seconds >= _LONG_SECONDS)
        self._proxies["s3"].set_rates(BACKGROUND_S3)
        self._proxies["dynamodb"].set_rates(BACKGROUND_DYNAMODB)
        self._timeline.note("faults_begin", lasts_seconds=self._seconds)
        playing: list[tuple[Kind, Play]] = []
        waiting: list[Act] = []
        held_until = 0.0
        end = self._clock.monotonic() + self._seconds
        act = next(coming)
        due = self._clock.monotonic() + act.gap_seconds
        try:
            while self._clock.monotonic() < end:
                if self._clock.monotonic() >= due and not _is_alone(playing):
                    waiting.append(act)
                    act = next(coming)
                    due = self._clock.monotonic() + act.gap_seconds
                if self._clock.monotonic() >= held_until and (able := _first_able(waiting, playing)):
                    waiting.remove(able)
                    struck = 0 if able.kind in _OF_ALL else int(able.pick * 7919) % len(acts)
                    playing.append((able.kind, acts[struck].begin(able)))
                    held_until = self._clock.monotonic() + _BETWEEN_SECONDS
                self._tick(playing)
            self._until(lambda: not playing, _ACTS_END_SECONDS, "the last acts end", playing)
        finally:
            for _, play in playing:
                play.close()  # thaws, restarts

    def _drain(self) -> None:
        """Stop feeding and all faults; wait until as much is archived as was sent.

        When nothing moves for longer than KCL's leader lock lasts, the workers are restarted, and the report says so.
        """
        for feeder in self._feeders:
            feeder.stop()
            feeder.check()
        for proxy in self._proxies.values():
            proxy.set_rates(CALM)
        sent = self._sent()
        self._timeline.note("faults_end", sent=sent)
        deadline = self._clock.monotonic() + _DRAIN_SECONDS
        archived, moved_at = 0, self._clock.monotonic()
        while archived < sent and self._clock.monotonic() < deadline:
            for _ in range(10):
                self._tick([])
            count, now = sum(site.count_archived() for site in self._sites), self._clock.monotonic()
            if count > archived:
                archived, moved_at = count, now
            elif now - moved_at > _STALL_SECONDS:
                moved_at = now
                self._timeline.note("stalled", archived=archived, sent=sent)
                self._stalls += 1
                for place in self._site.places:
                    self._site.kill(place)
        self._timeline.note("drained", archived=archived, sent=sent)
        # A processor that has been frozen may fail late; its worker then ends with that failure's code, as it should.
        self._until(
            lambda: not any(site.mending() for site in self._sites),
            _MEND_SECONDS,
            "each worker runs a daemon that has not failed",
        )

    def _stop(self) -> list[int]:
        """Stop the workers in order; no request is left on its way. Returns their exit codes."""
        codes = []
        for place in self._site.places:
            if place.worker is not None:
                place.worker.terminate()
        for place in self._site.places:
            if place.worker is not None:
                place.worker.wait()
                codes.append(self._site.bury(place))
        self._until(
            lambda: all(proxy.is_idle() for proxy in self._proxies.values()),
            PATIENCE_SECONDS,
            "no request is under way",
        )
        return codes

    def _look(self, stop_codes: list[int]) -> list[Findings]:
        found = [self._look_at(number, stop_codes) for number in range(len(self._sites))]
        (self._folder / "report.txt").write_text(tables(self._names, found) + "\n")
        return found

    def _look_at(self, number: int, stop_codes: list[int]) -> Findings:
        """Return what was found of one stream."""
        site, timeline, watch = self._sites[number], self._timelines[number], self._watches[number]
        watch.look()
        segments = read_archive(site.app.store, PREFIX)
        ends = {(segment.metadata.shard_id, str(segment.metadata.last)) for segment in segments}
        events = site.events()
        return Findings(
            verdict=compare(segments, site.app.producer.fingerprints()),
            strikes=timeline.strikes,
            skipped=timeline.skipped,
            injected={name: proxy.injected for name, proxy in self._proxies.items()},
            requests={name: proxy.requests for name, proxy in self._proxies.items()},
            events=events,
            exits=[code for place in site.places for code in place.exits],
            restores=site.restores,
            stop_codes=stop_codes,
            stalls=self._stalls,
            wrong_checkpoints=sorted(site.checkpoints - ends),
            boundaries=watch.published(),
            false_boundaries=watch.judge(segments),
            hostile=judge(self._feeders[number], segments, events),
            table=self._followed.finish(segments) if self._followed is not None and not number else None,
        )

    def _until(
        self, ready: Callable[[], bool], seconds: float, what: str, playing: list[tuple[Kind, Play]] | None = None
    ) -> None:
        deadline = self._clock.monotonic() + seconds
        while not ready():
            if self._clock.monotonic() > deadline:
                raise MinutebookError(f"{seconds:g} s without: {what}", next_step=f"read the logs in {self._folder}")
            self._tick(playing or [])

    def _tick(self, playing: list[tuple[Kind, Play]]) -> None:
        """Let a moment pass: every act goes one step, dead workers are started again."""
        for feeder in self._feeders:
            feeder.check()
        for act in list(playing):
            if next(act[1], self) is self:
                playing.remove(act)
        self._site.keep()
        if self._followed is not None:
            self._followed.tick()
        if self._clock.monotonic() - self._sampled >= _SAMPLE_SECONDS:
            self._sampled = self._clock.monotonic()
            for site, watch in zip(self._sites, self._watches, strict=True):
                site.leases()
                watch.look()
        self._clock.sleep(_TICK_SECONDS)


def _is_alone(playing: list[tuple[Kind, Play]]) -> bool:
    """Tell whether the act that wants the workers for itself is under way."""
    return any(kind is Kind.LOSE_TABLE for kind, _ in playing)


def _first_able(waiting: list[Act], playing: list[tuple[Kind, Play]]) -> Act | None:
    """Return the first act that may begin now.

    Losing the lease table waits until nothing else plays. While a worker is frozen, the one that has to take its
    shards over is not killed: else there is no zombie, only a long sleep.
    """
    kinds = {kind for kind, _ in playing}
    if Kind.LOSE_TABLE in kinds:
        return None
    barred = STRIKE_WORKERS if Kind.FREEZE_WORKER in kinds else frozenset()
    able = (act for act in waiting if act.kind not in barred and (act.kind is not Kind.LOSE_TABLE or not playing))
    return next(able, None)
