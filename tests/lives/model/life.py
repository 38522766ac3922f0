"""One life of the model from one seed: what happens, its nights, and what must hold after each of them.

The acts are those of `tests.lives.life`, and more, at any step of a night: see the lists below. After a night that
did not die:

    clean       no verdict of it that readers see, by the pointer or in the table, covers a record that was wrong when
                the night began and has been since; its rows are the records of its time, each once, as they were sent
    named       every settled day of the window has a row; one that is neither clean, as a whole, nor accepted has an
                exit code, and so has an expired one to which something was written since
    accepted    no record is wrong that was right when the day was accepted
    proven      a day that the night found current would be clean if it was judged afresh (some days of some nights)
    whole       the files that the pointer and the table name are there, and are the same

and in a sound life, in which all that happened was undone: in the end every day is clean, and a day that was clean
for three nights is left alone.

Not modelled: event ids, dropped records, typed columns, several compressions, copies under other keys, damaged
documents, archives of earlier versions. `tests.lives` and the unit tests have these.
"""

import random
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from minutebook.errors import MinutebookError
from minutebook.format.day import Day, day_of_ms
from minutebook.format.minute import MINUTE_MS, iso_time, parse_iso_time
from minutebook.format.read_mark import MarkKind
from minutebook.published.generation import Pointer
from minutebook.published.verdict import CLEAN
from tests.corpus.model import PREFIX
from tests.fakes.failing_storage import Crash
from tests.lives.life import SOUND_TAIL, Act, Violation
from tests.lives.model.expiry import expire
from tests.lives.model.night import Night, Rule, Site, Steps
from tests.lives.model.output import DayOutput, InTable, Table
from tests.lives.model.world import Name, World
from tests.lives.world import FIRST_DAY, HOUR

T = TypeVar("T")
_DAY_MS: Final = 24 * HOUR
_FINDABLE: Final = frozenset({"nothing", "swept"})

CALM: Final = ("reshard", "quiet", "so far", "so far", "expire", "host skips", "twice")
STORMY: Final = (
    "pause", "night dies", "night dies", "two hosts", "two hosts", "meanwhile", "meanwhile", "late night",
    "slow night", "table away", "table loses", "host moves", "zombie",
)  # fmt: skip
REVERSIBLE: Final = (
    "delete", "delete", "touch", "copy", "mark", "marker", "checkpoint", "foreign", "beside", "file",
)  # fmt: skip
LASTING: Final = (
    "skip", "skip", "stream", "double", "double", "lose", "delete for good", "damage", "accept", "accept", "edit",
    "edit", "edit and repair", "drop lines", "launder",
)  # fmt: skip
OF_NIGHTS: Final = frozenset(
    {
        "host skips",
        "twice",
        "night dies",
        "two hosts",
        "meanwhile",
        "late night",
        "slow night",
        "accept",
    }
)
"""What happens to the night after it."""


NOTICED_BY: Final[Mapping[Rule | None, Sequence[str]]] = {
    Rule.SWAP: ("so far", "so far", "two hosts"),
    Rule.WITHDRAW: ("double", "damage", "delete for good"),
    Rule.PART: ("so far", "so far", "double", "damage"),
    Rule.UNTIL: ("so far", "so far", "quiet"),
    Rule.GONE: ("launder", "launder", "accept", "accept"),
    Rule.FOLLOW: ("table loses", "table away", "night dies"),
    Rule.EACH_NIGHT: ("delete", "foreign", "checkpoint"),
}
"""What has to happen that it is noticed that a rule is left out."""


class Shape(NamedTuple):
    """What kind of life it is."""

    days: int
    window: int
    shards: int
    is_sound: bool
    is_calm: bool
    is_stepping: bool
    expires: bool
    has_table: bool

    @classmethod
    def of(cls, rng: random.Random, days: int) -> "Shape":
        """Choose one."""
        return cls(
            days=days,
            window=rng.choice([3, 5, 7]),
            shards=rng.choice([1, 1, 2]),
            is_sound=rng.random() < 0.4,
            is_calm=rng.random() < 0.1,
            is_stepping=rng.random() < 0.3,
            expires=rng.random() < 0.3,
            has_table=rng.random() < 0.4,
        )


def acts_of(rng: random.Random, shape: Shape, only: Sequence[str] = ()) -> list[Act]:
    """Choose what happens; `only` of these kinds, if there are any."""
    kinds = list(CALM)
    if not shape.is_calm:
        kinds += [*STORMY, *REVERSIBLE, *REVERSIBLE]
        if not shape.is_sound:
            kinds += [*LASTING, *LASTING]
    if not shape.expires:
        kinds = [kind for kind in kinds if kind != "expire"]
    begin, end = FIRST_DAY.begin_ms, FIRST_DAY.shift(shape.days - SOUND_TAIL).begin_ms
    if rng.random() < 0.6:  # much at once: what happens meets what happened just before
        begin = rng.randrange(begin, end - 2 * _DAY_MS)
        end = begin + rng.choice([1, 2]) * _DAY_MS
    times = sorted(rng.randrange(begin, end) for _ in range(rng.randint(3, 14)))
    return [Act(time_ms, rng.choice(only or kinds), rng.randrange(1 << 30)) for time_ms in times]


class Life:
    """One life. `acts` replaces what the seed chooses: to find the shortest history.

    `without` leaves out a rule; only what it takes to notice that happens.
    """

    def __init__(
        self, seed: int, *, days: int = 20, acts: Sequence[Act] | None = None, without: Rule | None = None
    ) -> None:
        rng = random.Random(seed)
        self.shape, only = Shape.of(rng, days), NOTICED_BY.get(without, ())
        if not {*only}.isdisjoint({*LASTING, "two hosts"}):
            self.shape = self.shape._replace(is_sound=False, is_calm=False)
        if without is Rule.FOLLOW:
            self.shape = self.shape._replace(has_table=True)
        chosen = acts_of(rng, self.shape, only)
        self.acts = chosen if acts is None else list(acts)
        begin_ms = FIRST_DAY.begin_ms - rng.choice([0, HOUR, 30 * HOUR, -7 * HOUR])
        self.world = World(rng.randrange(1 << 30), begin_ms, self.shape.shards)
        self.world.events_a_day = rng.choice([0, 1, 2])
        self.world.is_stepping = self.shape.is_stepping
        self.table = Table() if self.shape.has_table else None
        self.site = Site(self.world, self.table, without)
        self.log: list[str] = []
        self.counts = {"nights": 0, "clean": 0, "days": 0}
        self._rng = rng
        self._end_ms = FIRST_DAY.shift(days - SOUND_TAIL).begin_ms
        self._last_act_ms = max((act.time_ms for act in self.acts), default=0)
        self._is_file_lost = False
        self._lost_from_table: set[Day] = set()
        self._again: Counter[Day] = Counter()
        self._reached: dict[Day, int] = {}
        self._wrong_when_accepted: dict[Day, set[Name]] = {}

    def note(self, what: str) -> None:
        """Write down what happened."""
        at = self.world.clock.now_ms() - FIRST_DAY.begin_ms
        self.log.append(f"{at // _DAY_MS}d{at // HOUR % 24:02d}:{at // MINUTE_MS % 60:02d} {what}")

    def run(self) -> None:
        """Live. Raises Violation."""
        world = self.world
        first, last = day_of_ms(world.begin_ms), FIRST_DAY.shift(self.shape.days)
        for number in range(first.number, last.number + 1):
            world.plan_day(Day(number))
        for act in self.acts:
            if act.kind not in OF_NIGHTS:
                world.at(act.time_ms, lambda act=act: self._act(act))  # type: ignore[misc]  # bound at once
        for number in range(1, self.shape.days + 1):
            day = FIRST_DAY.shift(number)
            acts = {act.kind: act for act in self.acts if day.begin_ms - _DAY_MS <= act.time_ms < day.begin_ms}
            rng = random.Random(world.begin_ms + number)
            late = rng.randrange(90, 1200) if "late night" in acts else rng.randrange(20, 90)
            world.live_until(day.begin_ms + late * MINUTE_MS)
            if "host skips" not in acts:
                self._one_night(acts, rng, number)
        if self.shape.is_sound or self.shape.is_calm:
            self._all_clean()

    # What happens

    def _act(self, act: Act) -> None:  # noqa: C901, PLR0912, PLR0915 - a table of what happens
        rng, world = random.Random(act.seed), self.world
        names = [name for name, reading in world.readings.items() if not reading.is_ended]
        name = rng.choice(names)
        now_ms = world.clock.now_ms()
        today = day_of_ms(now_ms)
        day = today.shift(-rng.choice([0, 0, 1, 1, 2, 3]))
        keys = world.segments(day)
        key = rng.choice([rng.choice(keys), keys[0], keys[-1]]) if keys else ""
        undo_ms = min(now_ms + rng.choice([1, 5, 20, 30, 50]) * HOUR, self._end_ms)
        undo: Callable[[], None] | None = None
        done: object = key[-60:]
        match act.kind:
            case "reshard":
                done = len(world.readings) < 6 and world.reshard(name)
            case "quiet":
                world.readings[name].quiet_until = min(now_ms + rng.choice([5, 30, 60]) * HOUR, self._end_ms)
            case "pause" if world.readings[name].paused_until < now_ms - 20 * HOUR:  # no record is trimmed unread
                world.pause(name, min(now_ms + rng.choice([1, 3, 7]) * HOUR, self._end_ms))
            case "lose":
                world.pause(name, min(now_ms + 30 * HOUR, self._end_ms))
            case "skip" | "stream":
                done = self._skip_soon(act, name, rng)
            case "so far":
                self._so_far(today, (now_ms // HOUR - rng.choice([0, 0, 0, 1, 3])) * HOUR)
            case "expire":
                done = self._expire(rng)
            case "host moves":  # a second night at any time of the day, on a host with another window
                self._one_night({}, rng, 0)
            case "double" if keys:
                done = world.double(key)
            case "delete" if keys:
                world.delete(key)
                undo = lambda: world.restore(key)  # noqa: E731 - what undoes it
            case "delete for good" if keys:
                world.delete(key)
            case "damage" if keys:
                world.damage(key)
                undo = lambda: world.restore(key)  # noqa: E731
            case "edit" | "drop lines" if keys:
                world.edit(key, drops=act.kind == "drop lines")
            case "edit and repair" if keys:
                world.edit(key, drops=False)
                undo = lambda: world.restore(key)  # noqa: E731
            case "launder" if keys:
                world.delete(key)
                world.at(undo_ms, lambda: world.launder(key, drops=rng.random() < 0.5))
            case "touch" | "copy" if keys:
                world.restore(key, "-2" if act.kind == "copy" else "")
            case "mark" if marks := [mark for mark in world.archive.marks[day] if mark.kind is not MarkKind.STREAM]:
                undo, done = world.take_mark(day, mark := rng.choice(marks)), mark
            case "marker" if markers := sorted(world.archive.markers):
                undo, done = world.take_marker(marker := rng.choice(markers)), marker
            case "checkpoint":
                world.ahead[name] = 7
                undo = lambda: self._repair(name)  # noqa: E731
            case "foreign" | "beside":
                stray = f"{day.path(PREFIX)}{'' if act.kind == 'beside' else '05/'}stray-{act.seed}"
                world.foreign(stray)
                undo, done = (lambda: world.remove(stray)), stray
            case "zombie" if world.expired:
                done = world.write_late(rng.choice(world.expired))
            case "table away" if self.table is not None:
                self.table.away_until_ms = min(now_ms + rng.choice([20, 60, 120]) * HOUR, self._end_ms)
            case "file":
                done = self._lose_file(rng)
            case "table loses" if self.table is not None and self.table.days:
                lost = rng.choice(sorted(self.table.days))
                self.table.days.pop(lost)
                self._lost_from_table.add(lost)
                self.table.snapshots += 1
        if undo is not None:
            world.at(undo_ms, lambda: self._undo(act, undo))
        self.note(f"{act.kind} {name[-2:]} {day} {done}")

    def _undo(self, act: Act, undo: Callable[[], None]) -> None:
        undo()
        self.note(f"{act.kind} is undone")

    def _repair(self, name: str) -> None:
        self.world.ahead.pop(name, None)

    def _skip_soon(self, act: Act, name: str, rng: random.Random) -> str:
        """Let records come, which KCL skips: at once, or those before midnight after it."""
        world = self.world
        now_ms = world.clock.now_ms()
        if rng.random() < 0.4:
            now_ms = day_of_ms(now_ms).end_ms - MINUTE_MS
        later_ms = rng.choice([0, 10 * MINUTE_MS, 3 * HOUR, 30 * HOUR])
        world.arrive(name, now_ms // MINUTE_MS)
        wait_ms = rng.choice([30_000, 3 * MINUTE_MS])
        lost = world.lose if act.kind == "stream" else world.skip
        world.at(now_ms + wait_ms, lambda: self.note(f"skipped: {lost(name, later_ms)}"))
        return iso_time(now_ms)

    def _lose_file(self, rng: random.Random) -> object:
        """Lose a published file of a day whose raw objects are there."""
        days = [day for day, out in self.site.outputs.days.items() if out.files]
        days = [day for day in days if day not in self.site.archive.tombstones]
        if not days:
            return None
        files = self.site.outputs.of(rng.choice(sorted(days))).files
        self._is_file_lost = True
        files.pop(key := rng.choice(sorted(files)))
        return key

    def _expire(self, rng: random.Random) -> object:
        steps = expire(self.site, rng.choice([3, 5, 8]))
        dies_at = rng.randrange(1, 60) if rng.random() < 0.3 else None
        try:
            return self._drive(steps, dies_at)
        except Crash:
            return "died"

    # Nights

    def _one_night(self, acts: dict[str, Act], rng: random.Random, number: int) -> None:
        world = self.world
        self.counts["nights"] += 1
        accept = {FIRST_DAY.shift(number - rng.randint(1, 3)): "looked at"} if "accept" in acts else {}
        is_alone = acts.keys().isdisjoint({"two hosts", "meanwhile"})  # else a person would accept what comes later
        accept = {day: why for day, why in accept.items() if is_alone and day >= day_of_ms(world.begin_ms)}
        for day in accept:
            self._wrong_when_accepted[day] = {*self._wrong_when_accepted.get(day, ()), *world.since[day.number]}
        begun, newest = world.events, self._newest()
        self._lost_from_table.clear()
        is_slow = "slow night" in acts
        try:
            steps = self.site.night(self.shape.window, accept)
            if "two hosts" in acts:
                night = self._race(steps, acts["two hosts"], rng)
            elif "night dies" in acts:
                night = self._drive(steps, rng.choice([rng.randrange(1, 40), rng.randrange(1, 150)]))
            elif "meanwhile" in acts:
                night = self._disturbed(steps, acts["meanwhile"], rng)
            else:
                night = self._drive(steps, rng=rng if is_slow else None)
            self.note(f"night {_told(night)}")
            if "twice" in acts:
                begun, newest = world.events, self._newest()
                night = self._drive(self.site.night(self.shape.window))
                self.note(f"again {_told(night)}")
        except Crash:
            self.note("the night died")
            return
        except MinutebookError as exc:
            self.note(f"the night failed: {exc!r}")
            return
        self._check(night, begun, newest)
        if not acts.keys() & {"two hosts", "meanwhile", "slow night"}:
            self._check_afresh(night, rng)

    def _check_afresh(self, night: Night, rng: random.Random) -> None:
        """Judge some of the days anew that are clean, and that this night has left alone."""
        if self.world.clock.now_ms() > self._last_act_ms + 3 * _DAY_MS:
            return
        days = [day for day, row in night.rows.items() if row.pointer == "clean" and not night.due[day].why]
        for day in rng.sample(days, min(len(days), rng.choice([0, 0, 0, 1]))):
            verdict = self._drive(self.site.judge_afresh(day))
            if verdict != CLEAN:
                raise Violation(f"{day} is clean and current, and a fresh judgement says {verdict}")

    def _newest(self) -> Day:
        return day_of_ms(self.world.clock.now_ms() - 20 * MINUTE_MS).shift(-1)

    def _drive(self, steps: Steps[T], dies_at: int | None = None, rng: random.Random | None = None) -> T:
        """Go through the steps; `rng`: time passes between them."""
        count = 0
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]  # the steps' own
            count += 1
            if count == dies_at:
                raise Crash(f"at step {count}")
            if rng is not None:
                self.world.live_until(self.world.clock.now_ms() + rng.choice([0, 0, 300, 1000, 20_000]))

    def _race(self, steps: Steps[Night], act: Act, rng: random.Random) -> Night:
        """Let a second host begin while the first one works, and both go on in turns; check each when it ends."""
        night: Night | None = self._some_steps(steps, rng)
        if night is not None:
            return night
        self._disturb(act, rng)
        begun, newest = self.world.events, self._newest()
        hosts = {"first": steps, "second": self.site.night(self.shape.window)}
        while hosts:
            host = rng.choice(list(hosts))
            for _ in range(rng.choice([1, 1, 3, 10, 30])):
                try:
                    next(hosts[host])
                except StopIteration as stop:
                    del hosts[host]
                    if host == "second":
                        self.note(f"the second host {_told(stop.value)}")
                        self._check(stop.value, begun, newest, is_alone=not hosts)
                    else:
                        night = stop.value
                    break
            if rng.random() < 0.1:
                self.world.live_until(self.world.clock.now_ms() + 1000)
        assert night is not None
        return night

    def _disturbed(self, steps: Steps[Night], act: Act, rng: random.Random) -> Night:
        """Let something happen between two steps."""
        if (night := self._some_steps(steps, rng)) is not None:
            return night
        self._disturb(act, rng)
        return self._drive(steps, rng=rng)

    def _some_steps(self, steps: Steps[Night], rng: random.Random) -> Night | None:
        """Go through some steps; return what the night told, if it ended."""
        for _ in range(rng.choice([rng.randrange(1, 40), rng.randrange(1, 150)])):
            try:
                next(steps)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]  # the steps' own
        return None

    def _disturb(self, act: Act, rng: random.Random) -> None:
        """Let time pass and something happen."""
        self.world.live_until(self.world.clock.now_ms() + rng.choice([0, 1, 60, 1800, 10_800]) * 1000)
        if self.world.clock.now_ms() < self._end_ms:
            kinds = [*REVERSIBLE] if self.shape.is_sound else [*REVERSIBLE, *LASTING, "skip", "reshard"]
            self._act(act._replace(kind=rng.choice([kind for kind in kinds if kind not in OF_NIGHTS])))
        self.note("... during the night")

    def _so_far(self, day: Day, until_ms: int) -> None:
        begun = self.world.events
        if until_ms <= max(day.begin_ms, self.world.begin_ms):
            return
        try:
            done = self._drive(self.site.compact(day, until_ms))
            self.note(f"so far {day} {iso_time(until_ms)} {done.state} {done.verdict} {done.reason}")
        except MinutebookError as exc:
            self.note(f"so far {day}: {exc!r}")
            return
        pointer = self.site.outputs.of(day).pointer
        reached_ms = 0 if pointer is None else _until_ms(day, pointer)
        if reached_ms < self._reached.get(day, 0):
            raise Violation(f"{day} was published further than until {iso_time(reached_ms)}")
        self._reached[day] = reached_ms
        self._check_day(day, begun)

    # What must hold

    def _scopes(self) -> Iterator[Day]:
        first, today = day_of_ms(self.world.begin_ms), day_of_ms(self.world.clock.now_ms())
        yield from map(Day, range(first.number, today.number + 1))

    def _check(self, night: Night, begun: int, newest: Day, *, is_alone: bool = True) -> None:
        for day in self._scopes():
            if not newest.shift(-self.shape.window) < day <= newest:
                continue
            row = night.rows.get(day)
            if row is None:
                raise Violation(f"{day} has no row")
            self.counts["days"] += 1
            out = self.site.outputs.of(day)
            is_part = out.pointer is not None and out.pointer.until is not None
            is_settled = row.pointer in {"clean", "accepted", "expired"} and not is_part
            if day in self.site.archive.tombstones:
                is_settled = not self.world.late.get(day, begun + 1) <= begun
            if not is_settled and row.exit_code == 0:
                raise Violation(f"{day} is not named: {row}")
            if row.pointer == "accepted":
                self._check_accepted(day, begun)
            # What another host has published since then is its verdict, of the time at which it began.
            if row.pointer != "none":
                self._check_day(day, begun)
            if self.table is not None:
                is_lost = self._is_file_lost or day in self._lost_from_table  # behind the night's commit
                is_told = is_alone and row.pointer != "none" and not is_lost
                is_same = is_told and row.table in {"same", "mended"} and out.manifest is not None
                self._check_table(day, out, self.table.days.get(day), is_same=is_same)
        self._check_rest(night)

    def _check_day(self, day: Day, begun: int) -> None:
        """Check what readers see of a day."""
        out = self.site.outputs.of(day)
        pointer, manifest = out.pointer, out.manifest
        if pointer is None or pointer.verdict != CLEAN or day in self.site.archive.tombstones:
            return
        if manifest is None:
            raise Violation(f"{day} is clean, and its manifest is gone")
        self.counts["clean"] += 1
        if damage := out.damage(manifest, 0):
            if self._is_file_lost:
                return
            raise Violation(f"{day} is clean, and {damage}")
        begin_ms, until_ms = max(day.begin_ms, self.world.begin_ms), _until_ms(day, pointer)
        if wrong := self.world.wrong(day, begun, begin_ms, until_ms):
            raise Violation(f"{day} is clean, and {len(wrong)} records are wrong: {wrong[:3]}")
        if differing := self.world.rows_differ(day, out.rows(manifest), begun, begin_ms, until_ms):
            raise Violation(f"{day} is clean, and {len(differing)} rows are not the records: {differing[:3]}")

    def _check_accepted(self, day: Day, begun: int) -> None:
        """Check that nothing else is wrong than was then, or lies in a time whose records were accepted as lost."""
        audit, before = self.site.outputs.of(day).audit, self._wrong_when_accepted.get(day, set())
        accepted = audit.accepted.findings if audit is not None and audit.accepted is not None else ()
        lost = [(about.shard, about.begins, about.until) for about in accepted if about.severity == "defect"]
        new = []
        for name in self.world.wrong(day, begun, day.begin_ms, day.end_ms):
            at = iso_time(self.world.truth[day.number][name].arrival_ms)
            if name not in before and not any(shard == name[0] and low <= at <= high for shard, low, high in lost):
                new.append(name)
        if new:
            raise Violation(f"{day} is accepted, and since then {len(new)} records are wrong: {new[:3]}")

    def _check_table(self, day: Day, out: DayOutput, held: InTable | None, *, is_same: bool) -> None:
        files = () if held is None else held.files
        if is_same and (out.manifest is None or files != out.manifest.files):
            raise Violation(f"{day} is another one in the table")
        if any(file.key not in out.files for file in files) and not self._is_file_lost:
            raise Violation(f"the table names files of {day} that are gone")

    def _check_rest(self, night: Night) -> None:
        """Check that days that were clean for three nights are left alone, when nothing happens any more."""
        now_ms = self.world.clock.now_ms()
        is_still = (self.shape.is_calm or self.shape.is_sound) and now_ms > self._last_act_ms + 4 * _DAY_MS
        for day, row in night.rows.items():
            why = night.due[day].why
            if row.pointer == "clean" and not why and not set(row.done or ()) <= _FINDABLE:
                raise Violation(f"{day} is current, and {row.done}")
            if is_still and why and day_of_ms(now_ms).number - day.number > 3:
                self._again[day] += 1
                if self._again[day] > 1:
                    raise Violation(f"{day} is judged again and again, and nothing happened: {why}")

    def _all_clean(self) -> None:
        for word in ("last", "at rest"):
            night = self._drive(self.site.night(self.shape.days + 3))
            self.note(f"{word} {_told(night)}")
            for day, row in night.rows.items():
                if row.pointer not in {"clean", "expired"}:
                    raise Violation(f"{day} is {row.pointer} in the end of a sound life: {row.reason}")
                if word == "at rest" and not set(row.done or ()) <= _FINDABLE:
                    raise Violation(f"{day} is not at rest: {row.done} {night.due[day].why}")


def _until_ms(day: Day, pointer: Pointer) -> int:
    return day.end_ms if pointer.until is None else parse_iso_time(pointer.until)


def _told(night: Night) -> str:
    return "; ".join(
        f"{day} {row.pointer} {row.exit_code} {row.done} {row.reason[:80]} ({night.due[day].why[:90]})"
        for day, row in sorted(night.rows.items())
    )


def live(
    seed: int, *, days: int = 20, acts: Sequence[Act] | None = None, without: Rule | None = None
) -> tuple[Life, str]:
    """Live a life, `without` one of the rules; return it and what it violates, or nothing."""
    life = Life(seed, days=days, acts=acts, without=without)
    try:
        life.run()
    except Violation as exc:
        return life, str(exc)
    except Exception as exc:  # noqa: BLE001 - a bug is a violation
        return life, f"{exc!r}\n{traceback.format_exc()[-1500:]}"
    return life, ""
