"""Days side by side: what one of them meets is its own affair, and memory is given back."""

import gc
import json
import signal
import threading
import weakref
from collections.abc import Callable, Iterator

import pytest

from compaction.inventory.memory import Turns, collector_paused
from compaction.night.days.run import DayRow, DaysRun, row_of_due_plan, row_of_error, row_of_plan
from compaction.night.days.side_by_side import DayDone, DayWorkers
from compaction.night.days.stop import StoppableClock, Stopped, StopRequest, stopped_by_signals
from compaction.night.dry_run import DryRun
from compaction.night.due import DueDay
from compaction.tasks.progress import no_progress
from minutebook.errors import SafetyRefusal, SettingsError, StoreRefused, StoreUnavailable
from minutebook.format.day import Day
from tests.fakes.clock import ManualClock

BEGIN = Day.parse("2026-11-01")
DAYS = [BEGIN.shift(number) for number in range(6)]


def run(
    work: Callable[[Day], str],
    *,
    parallel: int = 1,
    stop: StopRequest | None = None,
    cancel: Callable[[], None] = lambda: None,
    days: list[Day] = DAYS,
) -> dict[Day, DayDone[str]]:
    """Work on the days; returns what became of each.

    Nothing is given back behind them: that walks through all that a whole suite holds, at each day.
    """
    found: dict[Day, DayDone[str]] = {}
    workers = DayWorkers(parallel, stop or StopRequest(), ManualClock(), cancel, give_back=lambda: None)
    workers.run(days, work, lambda done: found.update({done.day: done}))
    return found


def failing(day: Day) -> str:
    """Refuse one day, and lose the store on another."""
    if day == DAYS[1]:
        raise SafetyRefusal("expired")
    if day == DAYS[3]:
        raise StoreUnavailable("503")
    return str(day)


@pytest.mark.parametrize("parallel", [1, 2, 8])
def test_a_day_that_fails_fails_alone(parallel: int) -> None:
    """The others are done, whatever came before them."""
    found = run(failing, parallel=parallel)
    assert [found[day].result for day in DAYS] == [
        None if number in {1, 3} else str(day) for number, day in enumerate(DAYS)
    ]
    assert isinstance(found[DAYS[1]].error, SafetyRefusal)
    assert isinstance(found[DAYS[3]].error, StoreUnavailable)


def test_days_are_at_work_at_once() -> None:
    """As many as were asked for: each waits for the others here."""
    together = threading.Barrier(3, timeout=30)

    def work(day: Day) -> str:
        together.wait()
        return str(day)

    assert len(run(work, parallel=3)) == len(DAYS)


def test_a_fault_of_the_program_is_raised_and_no_day_begins_after_it() -> None:
    """It is nobody's row: what it means for the other days is not known."""
    begun: list[Day] = []

    def work(day: Day) -> str:
        begun.append(day)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(work)
    assert begun == DAYS[: len(begun)]
    assert len(begun) <= 2, "the thread may have begun the next day before the fault was seen"


def test_a_stop_ends_days_at_work_and_begins_no_other() -> None:
    """Spark's jobs are cancelled until the days at work have noticed; an error that comes of it is no failure."""
    stop, cancelled = StopRequest(), threading.Event()

    def work(_: Day) -> str:
        stop.ask()
        assert cancelled.wait(30)
        raise StoreUnavailable("Spark gave up: the job was cancelled")

    found = run(work, stop=stop, cancel=cancelled.set)
    assert [type(found[day].error) for day in DAYS] == [Stopped] * len(DAYS)


def test_no_day_begins_once_the_run_is_to_end() -> None:
    """They are rows of the table all the same."""
    stop, begun = StopRequest(), list[Day]()

    def work(day: Day) -> str:
        begun.append(day)
        stop.ask()
        return str(day)

    found = run(work, stop=stop)
    assert begun == DAYS[:1]
    assert (found[DAYS[0]].error, len(found)) == (None, len(DAYS))


def test_a_signal_is_a_stop_and_its_number_the_exit_code() -> None:
    """SIGTERM: 143, as shells count. Handlers are given back."""
    before = signal.getsignal(signal.SIGTERM)
    stop = StopRequest()
    with stopped_by_signals(stop):
        signal.raise_signal(signal.SIGTERM)
        assert (stop.is_asked, stop.exit_code) == (True, 143)
    assert signal.getsignal(signal.SIGTERM) is before


def test_nobody_sleeps_on_once_the_run_is_to_end() -> None:
    """A budget of retries is not waited out."""
    clock, stop = ManualClock(), StopRequest()
    clock.on_sleep = lambda _: stop.ask()
    with pytest.raises(Stopped):
        StoppableClock(clock, stop).sleep(60)
    assert sum(clock.slept) < 1


class Held:
    """What a day holds, in a cycle, as clients and exceptions are."""

    def __init__(self) -> None:
        self.itself = self


def test_what_a_day_held_is_given_back() -> None:
    """Also what a pause of the collector put aside."""
    held: list[weakref.ref[Held]] = []

    def work(day: Day) -> str:
        with collector_paused():
            held.append(weakref.ref(Held()))
        return str(day)

    workers = DayWorkers(2, StopRequest(), ManualClock(), cancel=lambda: None)
    asked = DaysRun("compact", many=False, as_json=False, workers=workers, report=no_progress)
    asked.run(DAYS[:2], work, lambda day, *_: DayRow(day=str(day), state="published", exit_code=0))
    assert [each() for each in held] == [None, None]


@pytest.mark.parametrize(("code", "hides"), [(3, True), (2, False), (0, False)])
def test_no_error_beside_a_day_hides_its_defects(
    capsys: pytest.CaptureFixture[str], code: int, *, hides: bool
) -> None:
    """Of one day that is named, as of one of many: the report cannot be written, and the day has defects."""
    workers = DayWorkers(1, StopRequest(), ManualClock(), cancel=lambda: None)
    run = DaysRun("compact", many=False, as_json=False, workers=workers, report=no_progress)
    row = DayRow(day="2026-11-20", state="held", exit_code=code)
    error = StoreRefused("no room", next_step="make some")
    if not hides:
        with pytest.raises(StoreRefused):
            run.reported(row, error)
        return
    assert run.reported(row, error) == row
    assert capsys.readouterr().err == "minutebook: no room\nnext step: make some\n"


def test_pauses_of_the_collector_may_overlap() -> None:
    """It is off until the last one ends, and on then."""
    first, second = collector_paused(), collector_paused()
    with first:
        second.__enter__()
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()
    gc.unfreeze()


def many(code_of: dict[int, int], *, is_many: bool = True) -> int:
    """Return the exit code of a run whose days end with these codes, or with errors of these."""

    def work(day: Day) -> int:
        if DAYS.index(day) == 0 and -1 in code_of:
            raise SettingsError("before the archive begins")
        return code_of.get(DAYS.index(day), 0)

    workers = DayWorkers(2, StopRequest(), ManualClock(), cancel=lambda: None, give_back=lambda: None)
    asked = DaysRun("compact", is_many, as_json=True, workers=workers, report=no_progress)
    days = DAYS if is_many else DAYS[:1]
    return asked.run(days, work, lambda day, code, _: DayRow(day=str(day), state="published", exit_code=code))


@pytest.mark.parametrize(
    ("codes", "worst"), [({}, 0), ({2: 4}, 4), ({2: 4, 4: 3}, 3), ({-1: 0, 3: 4}, 2), ({-1: 0, 3: 3}, 3)]
)
def test_the_worst_day_gives_the_exit_code(
    codes: dict[int, int], worst: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """A defect outweighs a refusal, and both an unknown; JSON is one document with a row for each day, in order."""
    assert many(codes) == worst
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    positions = [printed.index(f'"day":"{day}"') for day in DAYS]
    assert positions == sorted(positions)


def test_the_error_of_one_day_is_raised_as_ever(capsys: pytest.CaptureFixture[str]) -> None:
    """And there is no table."""
    with pytest.raises(SettingsError):
        many({-1: 0}, is_many=False)
    assert capsys.readouterr().out == ""


def test_days_of_a_dry_run_are_rows_of_the_same_table(capsys: pytest.CaptureFixture[str]) -> None:
    """A plan is no failure; a day that is refused has its reason there, and gives the exit code."""

    def work(day: Day) -> DryRun:
        if day == BEGIN:
            raise SettingsError("before the archive begins")
        return DryRun(day=str(day), segments=18, bytes=1, tasks=1, generation="g", state="s", action="nothing to do")

    workers = DayWorkers(1, StopRequest(), ManualClock(), cancel=lambda: None, give_back=lambda: None)
    asked = DaysRun("compact", many=True, as_json=False, workers=workers, report=no_progress, applied=False)
    assert asked.run(DAYS[:2], work, lambda _day, plan, _seconds: row_of_plan(plan)) == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:2] == [str(DAYS[0]), "refused"]
    assert (lines[2].split()[:2], lines[2].endswith("nothing to do")) == ([str(DAYS[1]), "planned"], True)
    asked._replace(as_json=True).run(DAYS[:2], work, lambda _day, plan, _seconds: row_of_plan(plan))
    assert json.loads(capsys.readouterr().out)["applied"] is False


@pytest.mark.parametrize(
    ("due", "reason"),
    [
        (DueDay(BEGIN, "none", "it is not published"), "would be judged, and written where that takes it: it is not"),
        (DueDay(BEGIN, "clean"), "nothing to do"),
        (DueDay(BEGIN, "expired", is_expired=True), "nothing to do: it is expired"),
        (DueDay(BEGIN, "expired", is_expired=True, zombies=("a key",)), "objects came after it was expired: a key"),
        (DueDay(BEGIN, "expired", is_expired=True, damage="its tombstone is no JSON"), "its tombstone is no JSON"),
    ],
    ids=["due", "as it was", "expired", "late objects", "a damaged tombstone"],
)
def test_a_dry_run_of_a_night_says_what_is_due(due: DueDay, reason: str) -> None:
    """In the columns of `--due`; a plan ends with 0."""
    row = row_of_due_plan(due)
    assert (row.state, row.pointer, row.exit_code) == ("planned", due.pointer, 0)
    assert row.reason.startswith(reason)


def test_an_error_says_what_to_do_in_its_row() -> None:
    """Refused for good, unavailable for now, or failed: 2 and 6, 5, and 1."""
    states = [
        row_of_error(BEGIN, error).state for error in (SettingsError(""), StoreUnavailable(""), Stopped("stopped"))
    ]
    assert states == ["refused", "unavailable", "stopped"]
    assert row_of_error(BEGIN, SafetyRefusal("expired", next_step="read it")).next_step == "read it"


class _Cycle:
    """An object that names itself, as py4j's do."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _thawed() -> Iterator[None]:
    """Leave nothing put aside: the collector is the whole process's."""
    yield
    gc.unfreeze()


def test_a_long_loop_keeps_no_cycles_while_the_collector_is_paused() -> None:
    """A night that polled Spark for hours held 1 MB more with each minute."""
    made = []
    with collector_paused():
        turns = Turns(5)
        for _ in range(23):
            made.append(weakref.ref(_Cycle()))
            turns.turn()
        living = sum(cycle() is not None for cycle in made)
    assert living == 3


def test_the_collector_stays_paused() -> None:
    """What a turn collects is young; who paused it has its reasons."""
    with collector_paused():
        Turns(1).turn()
        assert not gc.isenabled()
