"""One history from one seed: an archive that is followed by one process or two, its nights, and what others do.

At each snapshot that Minutebook commits:

    once        the rows of each day are different positions, and as many as the snapshot says
    true        each is a record of the archive
    monotonous  what the snapshot before showed is still there, but for what a person deleted from the archive

and in the end, when everybody has done their work undisturbed once more: each day holds exactly its records.
"""

import random
from collections.abc import Callable
from typing import Final, NamedTuple

from compaction.follow.follower import Follower
from compaction.tables.commit import DAY_PROPERTY, ROWS_PROPERTY
from minutebook.errors import MinutebookError
from minutebook.format.day import Day, day_of_ms
from minutebook.format.markers import JSON_TYPE
from minutebook.format.minute import MINUTE_MS
from minutebook.published.generation import DayFolder
from minutebook.published.live import live_pointer_key
from tests.fakes.failing_storage import Crash
from tests.follows.house import Between, follow_ports
from tests.follows.table import MemoryTable, Row, Snapshot
from tests.lives.memory import in_one_thread
from tests.lives.night import OUT, Site
from tests.lives.store import Interruptions
from tests.lives.world import FIRST_DAY, HOUR, World

_REQUESTS: Final = 60
_ABOUT_MIDNIGHT: Final = (*range(2, 240), *range(1200, 1439))
ACTS: Final = (
    *("tick",) * 12,
    *("other tick",) * 3,
    *("tick dies",) * 4,
    *("tick among", "tick among", "night among tick", "restart", "night", "night", "night dies", "tick among night"),
    *("so far", "so far", "rewrite", "roll back", "double", "delete double", "pause", "late", "lose answer"),
    "set back",
)


class Outcome(NamedTuple):
    """What was wrong (empty: nothing), and counts."""

    wrong: tuple[str, ...]
    log: tuple[str, ...]
    commits: int


class History:
    """One history."""

    def __init__(self, seed: int, *, steps: int = 40, events_a_day: int = 30, at_midnights: bool = False) -> None:
        self.rng = random.Random(seed)
        self.steps = steps
        self.at_midnights = at_midnights
        shards = self.rng.choice((1, 1, 2)) if at_midnights else 2
        self.world = World(None, self.rng.randrange(1 << 30), begin_ms=FIRST_DAY.begin_ms, shards=shards)
        self.world.events_a_day = events_a_day
        if at_midnights:  # as dense as ever where the steps are, and few records elsewhere
            self.world.events_a_day, self.world.minutes = 8, _ABOUT_MIDNIGHT
        for number in range(3):
            self.world.plan_day(FIRST_DAY.shift(number))
        self.table = MemoryTable(self.world.clock, self._committed)
        self.site = Site(None, self.world)
        self.site.table = self.table.client(lambda request: request())
        self.wrong: list[str] = []
        self.log: list[str] = []
        self.commits = 0
        self.deleted: set[Row] = set()
        self.doubles: list[str] = []
        self.live_pointers: dict[Day, bytes] = {}
        self.followers = [self._follower(), self._follower()]

    def _follower(self) -> tuple[Follower, Between]:
        between = Between()
        return Follower(follow_ports(self.site, self.table.client(between.send), between)), between

    def run(self) -> Outcome:
        """Let the history happen."""
        for step in range(self.steps):
            if self.at_midnights and step in (0, self.steps // 2):
                midnight_ms = FIRST_DAY.shift(1 if step == 0 else 2).begin_ms
                self.world.live_until(midnight_ms - self.rng.randint(0, 120) * MINUTE_MS)
            self.world.live_until(
                self.world.clock.now_ms() + self.rng.choice([1, 1, 2, 5, 12, 40, 90, 200]) * MINUTE_MS
            )
            kind = self.rng.choice(ACTS)
            self.log.append(f"{self._now()} {kind}")
            self.act(kind)
            if self.wrong:
                return self._outcome()
        self._finish()
        return self._outcome()

    def _outcome(self) -> Outcome:
        return Outcome(tuple(self.wrong), tuple(self.log), self.commits)

    def _now(self) -> str:
        at = self.world.clock.now_ms() - FIRST_DAY.begin_ms
        return f"{at // (24 * HOUR)}d{at // HOUR % 24:02d}:{at // MINUTE_MS % 60:02d}"

    def act(self, kind: str) -> None:
        """Let something of `ACTS` happen now."""
        rng, now_ms = self.rng, self.world.clock.now_ms()
        today, minute = day_of_ms(now_ms), now_ms // MINUTE_MS
        at, later, shard = rng.randint(1, _REQUESTS), rng.randint(1, 400), rng.choice(sorted(self.world.readings))
        acts: dict[str, Callable[[], object]] = {
            "tick": lambda: self._tick(0),
            "other tick": lambda: self._tick(1),
            "restart": self._restart,
            "tick dies": lambda: self._dying_tick(at),
            "tick among": lambda: self._tick(0, {at: lambda: self._tick(1)}),
            "night among tick": lambda: self._tick(0, {at: self._night}),
            "tick among night": lambda: self._night({later: lambda: self._tick(0)}),
            "night": self._night,
            "night dies": lambda: self._night({later: _die}),
            "so far": lambda: self._so_far(today),
            "rewrite": lambda: self.table.rewrite(rng.choice([today, today.shift(-1)])),
            "roll back": lambda: self.table.roll_back(rng.randint(1, 4)),
            "double": lambda: self._double(today),
            "delete double": self._delete_double,
            "pause": lambda: self.world.pause(shard, now_ms + rng.randint(1, 300) * MINUTE_MS),
            "late": lambda: self.world.step_back(shard, minute + 1),
            "set back": lambda: self._set_back(today),
            "lose answer": lambda: setattr(self.table, "lose_answer", True),
        }
        acts[kind]()

    def _dying_tick(self, at: int) -> None:
        self._tick(0, {at: _die}, after=self.rng.random() < 0.5)
        self._restart()

    def _restart(self) -> None:
        self.followers[0] = self._follower()

    def _tick(self, who: int, acts: dict[int, Callable[[], object]] | None = None, *, after: bool = False) -> None:
        follower, between = self.followers[who]
        between.use(Interruptions(acts, after=after))
        try:
            tick = follower.tick()
            if tick.exit_code:
                self.log.append(f"  exit code {tick.exit_code}")
        except Crash:
            self.log.append("  died")
        finally:
            between.use(Interruptions())

    def _night(self, acts: dict[int, Callable[[], object]] | None = None) -> None:
        between = Interruptions(acts)
        try:
            self.site.night(3, between)
        except Crash:
            self.log.append("  died")

    def _set_back(self, today: Day) -> None:
        """Let a person delete the live pointer, or set it back to what it was, and a process notice that first."""
        key, out = live_pointer_key(DayFolder(OUT, today)), self.site.out
        self._tick(0)
        stored, earlier = out.get(key), self.live_pointers.get(today)
        if stored is None:
            return
        self.live_pointers[today] = stored.body
        out.delete([key])
        if earlier is not None:
            out.put_if_absent(key, earlier, {}, JSON_TYPE)
        for _ in range(4):
            self._tick(0)

    def _so_far(self, today: Day) -> None:
        until_ms = self.world.clock.now_ms() // HOUR * HOUR - HOUR
        if until_ms > today.begin_ms:
            try:
                self.site.so_far(today, until_ms)
            except MinutebookError as exc:
                self.log.append(f"  {exc}")

    def _double(self, today: Day) -> None:
        keys = self.world.segments(today)
        key = self.world.double(self.rng.choice(keys)) if keys else None
        if key is not None:
            self.doubles.append(key)

    def _delete_double(self) -> None:
        for key in self.doubles:
            if self.world.archive[key].records:
                self.world.delete(key)
        self.doubles.clear()

    def _committed(self, before: Snapshot, made: Snapshot) -> None:
        if not made.summary:
            return
        self.commits += 1
        day = made.summary[DAY_PROPERTY]
        rows = [row for of_day, each in made.files.values() if of_day == day for row in each]
        shown = {row for of_day, each in before.files.values() if of_day == day for row in each}
        if len(rows) != len({*rows}) or len(rows) != int(made.summary[ROWS_PROPERTY]):
            self.wrong.append(f"{day}: {len(rows)} rows, {len({*rows})} positions, {dict(made.summary)}")
        if gone := shown - {*rows}:
            self.wrong.append(f"{day}: {len(gone)} rows disappeared: {dict(made.summary)}")
        if false := {*rows} - self._sent(Day.parse(day)):
            self.wrong.append(f"{day}: {len(false)} rows are no records")

    def _sent(self, day: Day) -> set[Row]:
        due = self.world.due(day.begin_ms, day.end_ms)
        return {(shard, position.sequence, position.sub) for shard, position in due}

    def _finish(self) -> None:
        """Let everything that was begun end, and everybody work undisturbed."""
        self._delete_double()
        self.table.lose_answer = False
        self.world.live_until(max(self.world.clock.now_ms(), FIRST_DAY.shift(3).begin_ms) + 8 * HOUR)
        for _ in range(2):
            self._restart()
            self._night()
            self._tick(0)
            self.world.clock.advance(26 * 3600)
        for number in range(3):
            day = FIRST_DAY.shift(number)
            rows, sent = self.table.rows(day), self._archived(day)
            if sorted(rows) != sorted(sent):
                self.wrong.append(f"{day}: {len(rows)} rows in the end, {len(sent)} records are archived")

    def lacks(self, day: Day) -> set[Row]:
        """Return the archived records of a day that the table has not."""
        return self._archived(day) - {*self.table.rows(day)}

    def _archived(self, day: Day) -> set[Row]:
        return {
            (sent.shard, sent.position.sequence, sent.position.sub)
            for held in self.world.archive.values()
            for sent in held.records or ()
            if held.minute in day
        }


def _die() -> None:
    raise Crash("here")


def run_history(seed: int, *, steps: int = 40, at_midnights: bool = False) -> Outcome:
    """Run one history; `at_midnights`: a half of its steps from up to two hours before each of two midnights on."""
    with in_one_thread():
        return History(seed, steps=steps, at_midnights=at_midnights).run()
