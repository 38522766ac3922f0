"""One life from one seed: an archive, what happens to it, its nights, and an oracle that knows every record.

After each night that did not die:

    clean       a verdict of it that readers see covers no record that was wrong when the night began, as far as the
                archive tells; its rows are the records of its time, each once
    named       every settled day of the window has a row; one that is neither clean nor accepted has an exit code

and in a sound life, in which all that happened was undone: in the end every day is clean, and a day that was clean
for three nights is left alone.
"""

import random
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from minutebook.errors import MinutebookError
from minutebook.format.day import Day, day_of_ms
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.published.generation import Manifest
from minutebook.published.verdict import CLEAN
from tests.corpus.model import PREFIX, parse_iso_ms
from tests.fakes.failing_storage import Crash
from tests.fakes.published_archive import expire_published_now
from tests.lives.memory import in_one_thread
from tests.lives.night import Night, Site
from tests.lives.store import Interruptions
from tests.lives.world import FIRST_DAY, HOUR, World

Name = tuple[str, Position]
SOUND_TAIL: Final = 5
"""So many days at the end of a life nothing happens any more."""


class Act(NamedTuple):
    """Something that happens at a time; `seed` makes its choices."""

    time_ms: int
    kind: str
    seed: int

    def __str__(self) -> str:
        at = self.time_ms - FIRST_DAY.begin_ms
        return f"{at // (24 * HOUR)}d{at // HOUR % 24:02d}:{at // MINUTE_MS % 60:02d} {self.kind} {self.seed}"


class Shape(NamedTuple):
    """What kind of life it is."""

    days: int
    window: int
    shards: int
    is_sound: bool
    is_calm: bool
    has_ids: bool
    drops: float
    is_stepping: bool
    expires: bool

    @classmethod
    def of(cls, rng: random.Random, days: int) -> "Shape":
        """Choose one."""
        return cls(
            days=days,
            window=rng.choice([3, 5, 7]),
            shards=rng.choice([1, 2, 2, 3]),
            is_sound=rng.random() < 0.5,
            is_calm=rng.random() < 0.15,
            has_ids=rng.random() < 0.25,
            drops=rng.choice([0, 0, 0.1]),
            is_stepping=rng.random() < 0.3,
            expires=rng.random() < 0.3,
        )


class Violation(Exception):  # noqa: N818 - it is what a life shows
    """Something that must not be; the history is in `log`."""


REVERSIBLE: Final = (
    "delete", "delete", "touch", "mark", "marker", "checkpoint", "foreign", "beside", "duplicates",
)  # fmt: skip
LASTING: Final = ("skip", "skip", "double", "double", "lose", "delete for good", "damage", "accept", "output")
CALM: Final = ("reshard", "quiet", "so far", "expire", "host skips", "twice")
STORMY: Final = ("pause", "night dies", "night dies", "two hosts", "meanwhile", "late night")


def acts_of(rng: random.Random, shape: Shape) -> list[Act]:
    """Choose what happens."""
    kinds = list(CALM)
    if not shape.is_calm:
        kinds += [*STORMY, *REVERSIBLE, *REVERSIBLE]
        if not shape.is_sound:
            kinds += [*LASTING, *LASTING]
    if not shape.expires:
        kinds = [kind for kind in kinds if kind != "expire"]
    end = FIRST_DAY.shift(shape.days - SOUND_TAIL).begin_ms
    count = rng.randint(4, 18)
    return sorted(
        Act(rng.randrange(FIRST_DAY.begin_ms, end), rng.choice(kinds), rng.randrange(1 << 30)) for _ in range(count)
    )


class Life:
    """One life. `acts` replaces what the seed chooses: to find the shortest history."""

    def __init__(self, seed: int, *, days: int = 20, acts: Sequence[Act] | None = None) -> None:
        rng = random.Random(seed)
        self.shape = Shape.of(rng, days)
        chosen = acts_of(rng, self.shape)
        self.acts = chosen if acts is None else list(acts)
        begin_ms = FIRST_DAY.begin_ms - rng.choice([0, HOUR, 30 * HOUR, -7 * HOUR])
        self.world = World(None, rng.randrange(1 << 30), begin_ms=begin_ms, shards=self.shape.shards)
        self.world.events_a_day = rng.choice([2, 5, 9])
        self.world.has_ids, self.world.drops = self.shape.has_ids, self.shape.drops
        self.world.is_stepping = self.shape.is_stepping
        self.site = Site(None, self.world, event_id="n" if self.shape.has_ids else None)
        self.log: list[str] = []
        self.moved: list[str] = []
        self.counts = {"nights": 0, "clean": 0, "rows": 0}
        self._night_acts: dict[str, list[Act]] = {}
        self._accepted: set[Day] = set()
        self._rows: dict[str, dict[Name, bytes]] = {}
        self._looked_at: dict[Day, int] = {}
        self._last_act_ms = max((act.time_ms for act in self.acts), default=0)
        self._is_output_damaged = False

    def note(self, what: str) -> None:
        """Write down what happened."""
        at = self.world.clock.now_ms() - FIRST_DAY.begin_ms
        self.log.append(f"{at // (24 * HOUR)}d{at // HOUR % 24:02d}:{at // MINUTE_MS % 60:02d} {what}")

    def run(self) -> None:
        """Live. Raises Violation."""
        world = self.world
        first = day_of_ms(world.begin_ms)
        for number in range(first.number, FIRST_DAY.shift(self.shape.days).number + 1):
            world.plan_day(Day(number))
        for act in self.acts:
            world.at(act.time_ms, lambda act=act: self._act(act))  # type: ignore[misc]  # bound at once
        for number in range(1, self.shape.days + 1):
            day = FIRST_DAY.shift(number)
            acts = {act.kind: act for act in self.acts if day.begin_ms - 24 * HOUR <= act.time_ms < day.begin_ms}
            rng = random.Random(self.world.begin_ms + number)
            late = rng.randrange(20, 90) if "late night" not in acts else rng.randrange(90, 1200)
            world.live_until(day.begin_ms + late * MINUTE_MS)
            if "host skips" in acts:
                self.note("no night")
                continue
            self._one_night(acts, number)
        if self.shape.is_sound or self.shape.is_calm:
            self._all_clean()

    # What happens

    def _act(self, act: Act) -> None:  # noqa: C901, PLR0912, PLR0915 - a table of what happens
        rng, world = random.Random(act.seed), self.world
        names = [name for name, reading in world.readings.items() if not reading.is_ended]
        name = rng.choice(names)
        today = day_of_ms(world.clock.now_ms())
        day = today.shift(-rng.choice([0, 0, 1, 1, 2, 3]))
        keys = [key for key in world.segments(day) if key not in world.gone]
        done: object = None
        hours = rng.choice([1, 5, 20, 30, 50])
        end_ms = FIRST_DAY.shift(self.shape.days - SOUND_TAIL).begin_ms
        undo_ms = min(world.clock.now_ms() + hours * HOUR, end_ms)
        match act.kind:
            case "reshard":
                done = len(world.readings) < 9 and world.reshard(name)
            case "quiet":
                world.readings[name].quiet_until = min(world.clock.now_ms() + rng.choice([5, 30, 60]) * HOUR, end_ms)
            case "pause":
                world.pause(name, min(world.clock.now_ms() + rng.choice([1, 3, 9, 11]) * HOUR, end_ms))
            case "lose":
                world.pause(name, min(world.clock.now_ms() + 30 * HOUR, end_ms))
            case "skip":
                done = world.skip(name, rng.choice([0, 10 * MINUTE_MS, 3 * HOUR]))
            case "double" if keys:
                done = world.double(rng.choice(keys))
            case "delete" | "delete for good" | "damage" if keys:
                key = rng.choice([rng.choice(keys), keys[0], keys[-1]])
                done = key
                (world.damage if act.kind == "damage" else world.delete)(key)
                if act.kind != "delete for good":
                    world.at(undo_ms, lambda: self._undo(key))
            case "touch" if keys:
                done = rng.choice(keys)
                world.restore(rng.choice(keys))
            case "mark" | "marker" | "duplicates":
                folder = {"mark": f"_read/{day}/", "marker": "_shards/", "duplicates": f"_duplicates/{day.path('')}"}
                rows = [row.key for row in world.store.list_objects(f"{PREFIX}{folder[act.kind]}")]
                rows = [row for row in rows if row not in world.gone]
                if rows:
                    done = rng.choice(rows)
                    world.delete(str(done))
                    world.at(undo_ms, lambda: self._undo(str(done)))
            case "checkpoint":
                world.ahead[name] = 7
                world.at(undo_ms, lambda: self._repair(name))
            case "foreign" | "beside":
                key = f"{day.path(PREFIX)}{'' if act.kind == 'beside' else '05/'}stray-{act.seed}"
                world.foreign(key)
                world.at(undo_ms, lambda: self._remove(key))
            case "output":
                files = [row.key for row in self.site.out.list_objects("") if row.key.endswith(".parquet")]
                if files:
                    done = rng.choice(files)
                    self.site.out.delete([str(done)])
                    self._is_output_damaged = True
            case "expire":
                if not self.shape.has_ids:
                    done = expire_published_now(
                        self.site.world.store, self.site.out, self.site.place, world.clock, "8d", world.begin_ms
                    )
        self.note(f"{act.kind} {name[-2:]} {day} {done}")

    def _undo(self, key: str) -> None:
        self.world.restore(key)
        self.world.gone.pop(key, None)
        self.note(f"restored {key}")

    def _remove(self, key: str) -> None:
        self.world.store.delete([key])
        self.note(f"removed {key}")

    def _repair(self, name: str) -> None:
        self.world.ahead.pop(name, None)
        self.note(f"repaired {name}")

    # Nights

    def _one_night(self, acts: dict[str, Act], number: int) -> None:
        world, rng = self.world, random.Random(self.world.begin_ms * 7 + number)
        self.counts["nights"] += 1
        if "so far" in acts:
            self._so_far(acts["so far"])
        begun_ms = world.clock.now_ms()
        before = self.world.wrong()
        world.touched.clear()
        between = self._interruptions(acts, rng)
        accept = {}
        if "accept" in acts:
            accept = {FIRST_DAY.shift(number - rng.randint(1, 3)): "looked at"}
        try:
            night = self.site.night(self.shape.window, between, accept=accept)
            self.note(f"night {self._told(night)}")
            if "twice" in acts:
                before = self.world.wrong()
                world.touched.clear()
                begun_ms = world.clock.now_ms()
                night = self.site.night(self.shape.window)
                self.note(f"again {self._told(night)}")
        except Crash:
            self.note("the night died")
            return
        except MinutebookError as exc:
            self.note(f"the night failed: {exc!r}")
            return
        self._check(night, before, begun_ms)

    def _interruptions(self, acts: dict[str, Act], rng: random.Random) -> Interruptions | None:
        world = self.world
        at = rng.choice([rng.randrange(1, 60), rng.randrange(1, 400)])

        def die() -> None:
            raise Crash(f"at request {at}")

        def other() -> None:
            night = self.site.night(self.shape.window)
            self.note(f"other host {self._told(night)}")

        def meanwhile() -> None:
            world.live_until(world.clock.now_ms() + rng.choice([1, 30, 180]) * MINUTE_MS)
            act = acts["meanwhile"]
            kinds = REVERSIBLE if self.shape.is_sound else (*REVERSIBLE, *LASTING, "skip", "reshard")
            if world.clock.now_ms() < FIRST_DAY.shift(self.shape.days - SOUND_TAIL).begin_ms:
                self._act(act._replace(kind=rng.choice(kinds)))
            self.note("... during the night")

        for kind, what in (("night dies", die), ("two hosts", other), ("meanwhile", meanwhile)):
            if kind in acts:
                return Interruptions({at: what}, after=rng.random() < 0.5)
        return None

    def _so_far(self, act: Act) -> None:
        day, rng = day_of_ms(act.time_ms), random.Random(act.seed)
        until_ms = day.begin_ms + rng.randrange(1, 24) * HOUR
        try:
            done = self.site.so_far(day, until_ms)
            self.note(f"so far {day} {until_ms % (24 * HOUR) // HOUR}h {done.state} {done.verdict}")
        except MinutebookError as exc:
            self.note(f"so far {day}: {exc}")

    def _told(self, night: Night) -> str:
        whys = {each.day: each.why for each in night.due.by_day.values()}
        return "; ".join(
            f"{day} {row.pointer} {row.exit_code} {row.done} {row.reason[:80]} ({whys[day][:90]})"
            for day, row in sorted(night.rows.items())
        )

    # The oracle

    def _scopes(self) -> Iterator[tuple[Day, int, int]]:
        first = day_of_ms(self.world.begin_ms)
        for number in range(first.number, day_of_ms(self.world.clock.now_ms()).number + 1):
            day = Day(number)
            yield day, max(day.begin_ms, self.world.begin_ms), day.end_ms

    def _check(self, night: Night, before: dict[Day, set[Name]], begun_ms: int) -> None:
        world = self.world
        now_wrong = self.world.wrong()
        expired = {
            Day.parse(row.key.rpartition("/")[2].removesuffix(".json"))
            for row in world.store.list_objects(f"{PREFIX}_expired/")
        }
        newest = day_of_ms(begun_ms).shift(-1)
        for day, begin, end in self._scopes():
            is_settled = day <= newest
            if is_settled and day > newest.shift(-self.shape.window) and day not in night.rows:
                raise Violation(f"{day} has no row")
            row = night.rows.get(day)
            if row is not None and row.pointer not in {"clean", "accepted", "expired"} and row.exit_code == 0:
                raise Violation(f"{day} is not named: {row}")
            publisher = self.site.publisher(day)
            pointer, manifest = publisher.published()
            if pointer is None or manifest is None or pointer.verdict != CLEAN:
                continue
            if not day > newest.shift(-self.shape.window):
                continue
            self.counts["clean"] += 1
            if damage := "" if self._is_output_damaged else publisher.damage(pointer, manifest):
                raise Violation(f"{day} is clean, and {damage}")
            until = end if pointer.until is None else parse_iso_ms(pointer.until)
            seen = before.get(day, set()) & now_wrong.get(day, set())
            seen &= world.due(begin, until).keys() if seen else seen
            if seen and day not in expired:
                raise Violation(f"{day} is clean, and {len(seen)} records are wrong: {sorted(seen)[:3]}")
            self._check_rows(day, manifest, begin, until)
        self._check_rest(night)

    def _check_rows(self, day: Day, manifest: Manifest, begin: int, end: int) -> None:
        rows = self._read(manifest)
        self.counts["rows"] += len(rows)
        wanted = self.world.rows(begin, end)
        touched = self.world.touched | self.world.unseen
        missing = wanted.keys() - rows.keys() - touched
        if self.shape.has_ids and manifest.removed:
            missing = self._without_repeats(missing, set(rows), begin)
        more = rows.keys() - self.world.due(begin, end).keys()
        if missing or more:
            raise Violation(f"{day} is clean, and its rows lack {sorted(missing)[:3]} or have {sorted(more)[:3]}")
        if any(wanted[name] != data for name, data in rows.items() if name in wanted):
            raise Violation(f"{day}: a row is another one")

    def _without_repeats(self, missing: set[Name], rows: set[Name], begin: int) -> set[Name]:
        """Leave out records whose event the day before has, or another row of the day."""
        every = self.world.due(begin - 24 * HOUR, begin + 24 * HOUR)
        kept = {sent.data for name, sent in every.items() if name in rows or sent.arrival_ms < begin}
        return {name for name in missing if every[name].data not in kept}

    def _read(self, manifest: Manifest) -> dict[Name, bytes]:
        key = f"{manifest.generation}-{manifest.writer}"
        if key not in self._rows:
            rows: dict[Name, bytes] = {}
            for file in manifest.files:
                stored = self.site.out.get(file.key)
                if stored is None:
                    raise Violation(f"{file.key} is published and gone")
                for row in pq.ParquetFile(pa.BufferReader(stored.body)).read().to_pylist():
                    name = row["shard_id"], Position(int(row["sequence_number"]), row["sub_sequence_number"])
                    if name in rows:
                        raise Violation(f"{name} is there twice")
                    rows[name] = row["data_bytes"] if row["data"] is None else row["data"].encode()
            self._rows[key] = rows
        return self._rows[key]

    def _check_rest(self, night: Night) -> None:
        """Note days that are judged again though nothing happened since a night that looked at them.

        By then everything was undone for a day. Older days are looked at in turn: what happened to one may be told by
        a night many days later.
        """
        now_ms = self.world.clock.now_ms()
        still_ms = self._last_act_ms + 3 * 24 * HOUR
        is_calm = self.shape.is_calm or self.shape.is_sound
        for day, row in night.rows.items():
            due = night.due.by_day[day]
            is_still = is_calm and self._looked_at.get(day, 0) > still_ms
            self._looked_at[day] = now_ms
            if row.pointer == "clean" and not due.why:
                if row.done not in {("nothing",), ("swept",)}:
                    raise Violation(f"{day} is current, and {row.done}")
            elif is_still and due.why and day_of_ms(now_ms).number - day.number > 3:
                self.moved.append(f"{day} at {day_of_ms(now_ms)}: {due.why}")

    def _all_clean(self) -> None:
        night = self.site.night(self.shape.days + 3)
        self.note(f"last {self._told(night)}")
        for day, row in night.rows.items():
            if row.pointer not in {"clean", "expired"}:
                raise Violation(f"{day} is {row.pointer} in the end of a sound life: {row.reason}")
        night = self.site.night(self.shape.days + 3)
        for day, row in night.rows.items():
            if row.done not in {("nothing",), ("swept",)}:
                raise Violation(f"{day} is not at rest: {row.done} {night.due.by_day[day].why}")


def live(seed: int, *, days: int = 20, acts: Sequence[Act] | None = None) -> tuple[Life, str]:
    """Live a life; return it and what it violates, or nothing."""
    life = Life(seed, days=days, acts=acts)
    try:
        with in_one_thread():
            life.run()
    except Violation as exc:
        return life, str(exc)
    except Exception as exc:  # noqa: BLE001 - a bug of the product is a violation
        return life, f"{exc!r}\n{traceback.format_exc()[-1500:]}"
    return life, ""


class Living(Protocol):
    """Lives a life of a seed; returns it, and what it violates."""

    def __call__(self, seed: int, *, days: int = 20, acts: Sequence[Act] | None = None) -> tuple[object, str]:
        """Live."""


def shortest(
    seed: int,
    acts: Sequence[Act],
    *,
    days: int = 20,
    is_same: Callable[[str], bool] = bool,
    live: Living = live,
) -> list[Act]:
    """Leave out what a violation does not need."""
    left = list(acts)
    for act in list(acts):
        without = [one for one in left if one is not act]
        if is_same(live(seed, days=days, acts=without)[1]):
            left = without
    return left
