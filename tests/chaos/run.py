"""One run: start everything, play acts for a while, let it drain, read the archive back."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from tests.chaos.hostile import CLAIMS, HostileFeeder, judge
from tests.chaos.proxy import FaultProxy
from tests.chaos.report import Findings, table
from tests.chaos.schedule import STRIKE_WORKERS, Act, Kind, schedule
from tests.chaos.site import WORKERS, ChaosApplication, Site
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


class Run:
    """A run of `seconds` of faults. Everything that the seed can decide, it decides."""

    def __init__(
        self, folder: Path, *, seed: int, seconds: float, rate: float, is_loud: bool, is_hostile: bool = False
    ) -> None:
        self._folder = folder
        self._seconds = seconds
        self._rate = rate
        self._clock: Clock = SystemClock()
        self._is_loud = is_loud
        self._is_hostile = is_hostile
        self._sampled = 0.0
        self._stalls = 0
        # A generator for each, so that what one of them does not use up does not shift the others.
        self._rngs = {name: random.Random(f"{seed} {name}") for name in ("acts", "feeder", "s3", "dynamodb")}

    def play(self) -> Findings:
        """Play the run and return what it found; logs, properties and the bucket's files stay in the folder."""
        folder, rngs = self._folder, self._rngs
        with (
            Timeline(folder, self._clock, is_loud=self._is_loud) as timeline,
            EmbeddedAws(folder / "aws", clock=self._clock) as aws,
            FaultProxy(aws.s3_endpoint, S3, rngs["s3"]) as s3,
            FaultProxy(aws.dynamodb_endpoint, DYNAMODB, rngs["dynamodb"], longest_delay_seconds=3) as dynamodb,
        ):
            app = ChaosApplication(aws, folder, s3, dynamodb, **(CLAIMS if self._is_hostile else {}))
            site = Site(app, aws, folder, self._clock, timeline)
            feeder = (
                HostileFeeder(app.producer, rngs["feeder"], self._rate, app.shards)
                if self._is_hostile
                else Feeder(app.producer, rngs["feeder"], self._rate)
            )
            self._site, self._feeder, self._timeline = site, feeder, timeline
            self._watch = BoundaryWatch(app.store)
            self._proxies = {"s3": s3, "dynamodb": dynamodb}
            with self._ended():
                self._begin()
                self._storm()
                self._drain()
                stop_codes = self._stop()
            return self._look(stop_codes)

    @contextmanager
    def _ended(self) -> Iterator[None]:
        """Whatever happens: no producer and no process is left, and every log is written."""
        try:
            yield
        finally:
            self._feeder.stop()
            self._site.write_logs()
            self._site.end()

    def _begin(self) -> None:
        """Start the workers on seeded lease rows, and wait until each shard is open."""
        app, site = self._site.app, self._site
        shards = app.open_shards()
        app.seed_leases({shard: WORKERS[number % len(WORKERS)] for number, shard in enumerate(shards)})
        site.keep()
        self._feeder.start()
        self._until(lambda: site.opened() >= set(shards), _START_SECONDS, "every shard is opened")

    def _storm(self) -> None:
        """Play acts until the time is over, then let the ones under way come to their ends."""
        acts = Acts(
            self._site, self._proxies["s3"], self._proxies["dynamodb"], is_long=self._seconds >= _LONG_SECONDS
        )
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
                    playing.append((able.kind, acts.begin(able)))
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
        self._feeder.stop()
        self._feeder.check()
        for proxy in self._proxies.values():
            proxy.set_rates(CALM)
        self._timeline.note("faults_end", sent=self._feeder.count)
        deadline = self._clock.monotonic() + _DRAIN_SECONDS
        archived, moved_at = 0, self._clock.monotonic()
        while archived < self._feeder.count and self._clock.monotonic() < deadline:
            for _ in range(10):
                self._tick([])
            count, now = self._site.count_archived(), self._clock.monotonic()
            if count > archived:
                archived, moved_at = count, now
            elif now - moved_at > _STALL_SECONDS:
                moved_at = now
                self._timeline.note("stalled", archived=archived, sent=self._feeder.count)
                self._stalls += 1
                for place in self._site.places:
                    self._site.kill(place)
        self._timeline.note("drained", archived=archived, sent=self._feeder.count)
        # A processor that has been frozen may fail late; its worker then ends with that failure's code, as it should.
        self._until(lambda: not self._site.mending(), _MEND_SECONDS, "each worker runs a daemon that has not failed")

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

    def _look(self, stop_codes: list[int]) -> Findings:
        self._watch.look()
        segments = read_archive(self._site.app.store, PREFIX)
        ends = {(segment.metadata.shard_id, str(segment.metadata.last)) for segment in segments}
        events = self._site.events()
        findings = Findings(
            verdict=compare(segments, self._site.app.producer.fingerprints()),
            strikes=self._timeline.strikes,
            skipped=self._timeline.skipped,
            injected={name: proxy.injected for name, proxy in self._proxies.items()},
            requests={name: proxy.requests for name, proxy in self._proxies.items()},
            events=events,
            exits=[code for place in self._site.places for code in place.exits],
            restores=self._site.restores,
            stop_codes=stop_codes,
            stalls=self._stalls,
            wrong_checkpoints=sorted(self._site.checkpoints - ends),
            boundaries=self._watch.published(),
            false_boundaries=self._watch.judge(segments),
            hostile=judge(self._feeder, segments, events),
        )
        (self._folder / "report.txt").write_text(table(findings) + "\n")
        return findings

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
        self._feeder.check()
        for act in list(playing):
            if next(act[1], self) is self:
                playing.remove(act)
        self._site.keep()
        if self._clock.monotonic() - self._sampled >= _SAMPLE_SECONDS:
            self._sampled = self._clock.monotonic()
            self._site.leases()
            self._watch.look()
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
