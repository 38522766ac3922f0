"""Ticks: follow today, yesterday until its pointer covers all of it, and older days whose rows are not all there.

    columns       read the file of typed columns again
    boundary      until when the workers have proven the archive complete, before anything is listed
    each day      list, write, commit (`follow.day`), the older one first
    properties    minutebook.rows-until, .complete-until and .complete-gaps, with the last commit, if the table
                  goes on from where it was when they were told before: a person may have dropped it, or set it back
    each hour     expire follow's own snapshots that are older than the table keeps them

No error ends it: the step is logged with what to do, and the next tick begins anew, from where the last LIST was
whole. `rows_until_ms` stands still until then, which is the alarm.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

import structlog

from compaction.follow.copies import CopiesLeftOut
from compaction.follow.day import FollowedDay, FollowPorts
from compaction.follow.windows import complete_ms
from compaction.publish.publisher import Publisher
from compaction.tables.commit import TOLD_OF_PROPERTY
from compaction.tables.history import ROWS_UNTIL
from minutebook.completeness.objects import BoundaryObjects
from minutebook.completeness.query import Completeness, read_completeness
from minutebook.errors import MinutebookError, SettingsError, StoreUnavailable
from minutebook.format.day import Day, day_of_ms
from minutebook.format.minute import HOUR_MS, MINUTE_MS, iso_time, parse_iso_time
from minutebook.published.generation import DayFolder, proven_verdict
from minutebook.published.verdict import CLEAN

COMPLETE_UNTIL: Final = "minutebook.complete-until"
COMPLETE_GAPS: Final = "minutebook.complete-gaps"
TELL_MS: Final = 10 * MINUTE_MS
"""How often the properties are set where no rows come: each time is a metadata file."""
_SET_BACK: Final = (
    "nothing, if a person did so: today and yesterday come back at once, other days with nights, or with minutebook "
    "compact --from --to --iceberg; until then minutebook.complete-until is 1970"
)
_STORE: Final = "look at the store, the disk and the catalog; the next tick goes on by itself"


class Tick(NamedTuple):
    """What a tick did.

    `rows_until_ms` is when the last complete poll began: what was archived of the polled minutes by then is in the
    table. It stands still while a day is held. `complete_until_ms` is until when the table is complete, but for gaps.
    0: not known. `is_behind`: segments are waiting, and the next tick may begin at once. `exit_code` is that of the
    first error, or of a day that is held; `has_failed`: a step has.
    """

    begun_ms: int
    seconds: float
    rows_until_ms: int
    complete_until_ms: int
    rows: int
    segments: int
    left_out: int
    is_behind: bool
    exit_code: int = 0
    has_failed: bool = False


class Follower:
    """Follows an archive into a table, tick by tick."""

    def __init__(self, ports: FollowPorts, is_ending: Callable[[], bool] = lambda: False) -> None:
        self._ports = ports
        self._is_ending = is_ending
        self._days: dict[Day, FollowedDay] = {}
        self._rows_until_ms = self._told_ms = 0
        self._complete_ms: int | None = None
        self._place = ""
        self._is_taken_back = False
        self._in_table = set[Day]()
        self._expired_ms = 0
        self._exit_code = 0
        self._has_failed = False

    def tick(self) -> Tick:
        """Do one tick. Raises CopiesLeftOut, and what a step raises when the process was asked to end."""
        clock, begun_ms, begun = self._ports.clock, self._ports.clock.now_ms(), self._ports.clock.monotonic()
        self._exit_code, self._has_failed = 0, False
        if begun_ms < self._told_ms:  # the clock was ahead
            self._told_ms = 0
        self._expired_ms = min(self._expired_ms, begun_ms)
        if self._ports.columns is not None:
            self._ports.columns.begin(begun_ms)
        days = self._followed(begun_ms)
        before = sum(day.rows for day in days), sum(day.segments for day in days)
        known = self._boundary(begun_ms)
        since_ms = self._poll(days, begun_ms)
        is_whole = self._is_whole(days)
        left_out = sum(len(day.left_out) for day in days)
        complete = self._stated_ms()
        if known is not None and is_whole and not left_out:
            complete = complete_ms(complete, known.until_ms, since_ms, self._first_ms(complete, days[0].day, known))
        told = self._properties(begun_ms, complete, known) if is_whole else {}
        is_told = self._commit(days, told)
        is_set_back = days[-1].is_set_back
        # A commit may wait for lost rows.
        is_whole = is_whole and not is_set_back and self._is_whole(days)
        if is_whole:
            self._rows_until_ms = begun_ms
            self._complete_ms = complete
            self._told_ms = begun_ms if is_told else self._told_ms
            if begun_ms - self._told_ms >= TELL_MS:
                with self._step("set_properties"):
                    self._ports.table.set_properties(told | {TOLD_OF_PROPERTY: days[-1].place})
                    self._told_ms = begun_ms
        self._place = days[-1].place or self._place
        if is_set_back:
            self._take_back(days)
        if begun_ms - self._expired_ms >= HOUR_MS:
            # A process that ends before its first hour is over, as with --once, expires by the hour, too.
            overdue_ms = 0 if self._expired_ms else HOUR_MS
            with self._step("expire"):
                self._ports.table.expire(begun_ms, overdue_ms)
                self._expired_ms = begun_ms
            self._in_table.clear()
        return Tick(
            begun_ms,
            clock.monotonic() - begun,
            self._rows_until_ms,
            self._complete_ms or 0,
            sum(day.rows for day in days) - before[0],
            sum(day.segments for day in days) - before[1],
            left_out,
            (is_set_back or any(day.is_behind for day in days)) and self._exit_code == 0,
            self._exit_code,
            self._has_failed,
        )

    def _is_whole(self, days: list[FollowedDay]) -> bool:
        """Return whether everything that was polled is in the table, or is with the next commit; see `Tick`."""
        is_amiss = any(day.is_behind or day.has_changed_objects or day.lacks_rows for day in days)
        return self._exit_code == 0 and not is_amiss

    def _take_back(self, days: list[FollowedDay]) -> None:
        """Believe nothing of what was known of the table: it was dropped and made again, or set back."""
        self._complete_ms, self._told_ms, self._is_taken_back = 0, 0, True
        self._in_table.clear()
        for day in days:
            day.commit_again()
        structlog.get_logger().warning("table_set_back", table=self._ports.table.name, next_step=_SET_BACK)
        with self._step("set_properties"):
            self._ports.table.set_properties({COMPLETE_UNTIL: iso_time(0), TOLD_OF_PROPERTY: self._place})

    def _followed(self, now_ms: int) -> list[FollowedDay]:
        """Return the days of this tick, the older ones first: also earlier ones whose rows are not all there."""
        today = day_of_ms(now_ms)
        missing = [day for day, each in self._days.items() if each.lacks_rows or each.is_behind]
        days = (*sorted(day for day in missing if day < today.shift(-1)), today.shift(-1), today)
        self._days = {day: self._days.get(day) or FollowedDay(self._ports, day) for day in days}
        return [*self._days.values()]

    def _boundary(self, now_ms: int) -> Completeness | None:
        known = list[Completeness | None]()
        with self._step("boundary"):
            known.append(read_completeness(BoundaryObjects(self._ports.archive, self._ports.place.prefix), now_ms))
        return known[0] if known else None

    def _stated_ms(self) -> int:
        """Return until when the table is complete: as this process has said last, else as an earlier one has."""
        if self._complete_ms is not None:
            return self._complete_ms
        stated_ms = 0
        with self._step("boundary"):
            properties = self._ports.table.properties()
            self._place = properties.get(TOLD_OF_PROPERTY, "")
            with suppress(SettingsError):  # nobody has said it, or not in our words
                stated_ms = parse_iso_time(properties.get(COMPLETE_UNTIL, ""))
        return stated_ms

    def _first_ms(self, before_ms: int, day: Day, known: Completeness) -> int:
        """Return from when on polls of the followed days hold all; the first day's begin, where nothing lies before.

        So it is where the days between are published clean, and the table holds that: nothing of them comes any more.
        They begin where the table is complete until, else with the boundaries.
        """
        if known.since_ms >= day.begin_ms:
            return day.begin_ms
        if before_ms >= day.begin_ms:
            return 0
        first = day_of_ms(max(before_ms, known.since_ms))
        for number in range(first.number, day.number):
            if not self._is_in_table(Day(number)):
                return 0
        return day.begin_ms

    def _is_in_table(self, day: Day) -> bool:
        """Return whether a day is published clean, and the table holds that; asked once an hour, if so."""
        if day in self._in_table:
            return True
        with self._step("boundary"):
            output = self._ports.output
            publisher = Publisher(self._ports.out, DayFolder(output.prefix, day))
            pointer, manifest = publisher.published()
            if pointer is None or manifest is None or pointer.until is not None or proven_verdict(pointer) != CLEAN:
                return False
            view = self._ports.table.look(day)
            recorded, uris = view.recorded, {file.uri for file in view.files}
            # The snapshot may have expired since: then the table names the very files.
            is_there = uris == {publisher.address(file.key) for file in manifest.files if file.rows}
            if is_there or (recorded is not None and recorded.generation == pointer.generation):
                self._in_table.add(day)
        return day in self._in_table

    def _poll(self, days: list[FollowedDay], now_ms: int) -> int:
        """List and write; return from which time on everything is known."""
        since = [days[0].day.begin_ms]
        for day in days:
            with self._step("list", day):
                since.append(day.list_new(now_ms))
            with self._step("write", day):
                day.write()
        return max(since)

    def _commit(self, days: list[FollowedDay], told: Mapping[str, str]) -> bool:
        """Commit the days; return whether the table was told these properties with the last one."""
        is_told = False
        for day in days:
            with self._step("commit", day):
                is_last = day is days[-1]
                if not is_last and not day.has_changed(self._ports.clock.now_ms()):
                    continue
                said = told if is_last and self._is_whole(days) else {}
                done = day.commit(said, self._place if is_last else "")
                if done is not None and done.state == "held":
                    self._exit_code = self._exit_code or 2
                is_told = done is not None and done.state == "committed" and bool(said) and not day.is_set_back
        return is_told

    @contextmanager
    def _step(self, step: str, day: FollowedDay | None = None) -> Iterator[None]:
        """Let a failing step end itself alone, and log it."""
        try:
            yield
        except (MinutebookError, OSError) as exc:
            if self._is_ending() or isinstance(exc, CopiesLeftOut):
                raise
            code, next_step = StoreUnavailable.exit_code, ""
            if isinstance(exc, MinutebookError):
                code, next_step = exc.exit_code, exc.next_step
            self._exit_code, self._has_failed = self._exit_code or code, True
            structlog.get_logger().error(
                "follow_failed",
                day=None if day is None else str(day.day),
                step=step,
                error=f"{type(exc).__name__}: {exc}",
                next_step=next_step or _STORE,
            )

    def _properties(self, begun_ms: int, complete: int, known: Completeness | None) -> dict[str, str]:
        """Return what the table is told of a whole tick; of a boundary also that what it was told holds no more."""
        properties = {ROWS_UNTIL: iso_time(begun_ms)}
        if complete and known is not None:
            properties |= {COMPLETE_UNTIL: iso_time(complete), COMPLETE_GAPS: str(len(known.gaps))}
        elif self._is_taken_back:
            properties[COMPLETE_UNTIL] = iso_time(0)
        return properties
