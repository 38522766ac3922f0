"""The time of events: where it is, how far from the arrival it may lie, and what a day's audit says of it."""

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from compaction.columns.columns import Columns
from compaction.columns.counts import StatedCounts
from compaction.columns.decode.decoder import new_payload_columns
from compaction.columns.event_time import EventWindow, day_numbers, with_event_time
from compaction.report.page import render_page
from compaction.report.screen import show_audit
from minutebook.errors import SettingsError
from minutebook.format.day import Day
from minutebook.published.schema import SCHEMA
from minutebook.terminal import TerminalConsole
from tests.corpus.desk import DAY, Desk
from tests.corpus.typed_day import miscounting, payload_day
from tests.fakes.typed_lines import columns_of, lines_of, mapping

_US = 86_400_000_000


def asked(text: str, columns: dict[str, Any] | None = None, window: int = 30) -> Columns:
    """Return the columns of `--event-time`, beside those of a file."""
    return with_event_time(None if columns is None else mapping(columns), text, window, SCHEMA.names)


@pytest.mark.parametrize(
    ("text", "path", "kind"),
    [
        ("meta.ts", "meta.ts", "timestamp"),
        ("meta.ts as timestamp(ms)", "meta.ts", "timestamp(ms)"),
        ("a || b  as timestamp(%d/%m/%Y %H:%M)", "a || b", "timestamp(%d/%m/%Y %H:%M)"),
        ("departs", "flight.departs", "timestamp(s)"),
        ("departs as timestamp", "departs", "timestamp"),
    ],
)
def test_where_the_time_is(text: str, path: str, kind: str) -> None:
    """A path, a path and its form, or the name of a column, whose path and form it takes."""
    columns = asked(text, {"departs": {"path": "flight.departs", "type": "timestamp(s)"}})
    assert [each.name for each in columns.columns] == ["departs", "event_time"]
    assert (columns.columns[-1].path, columns.columns[-1].type.text) == (path, kind)


@pytest.mark.parametrize(
    ("text", "columns", "window", "message"),
    [
        ("meta.", None, 30, "is not a JMESPath expression"),
        (" ", None, 30, "--event-time is empty"),
        ("ts as timestamp(hours)", None, 30, "timestamp takes s, ms, us"),
        ("ts", None, 401, "--event-window 401"),
        ("ts", {"event_time": "timestamp"}, 30, "and --columns names one, too"),
        ("ts", {"Event_Time": "timestamp"}, 30, "and --columns names one, too"),
        ("flown", {"flown": "date"}, 30, "the column is date, not a timestamp"),
        ("flown", {"flown": "local_timestamp"}, 30, "nobody knows its zone"),
    ],
)
def test_what_cannot_be_the_time_is_refused(
    text: str, columns: dict[str, Any] | None, window: int, message: str
) -> None:
    """Before anything is read."""
    with pytest.raises(SettingsError, match=message):
        asked(text, columns, window)


def test_days_of_times_before_1970_are_not_rounded_up() -> None:
    """Integers are divided towards zero."""
    times = [-1, 0, -_US, -_US - 1, _US - 1, None]
    days = day_numbers(pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC")))
    assert days.to_pylist() == [-1, 0, -1, -2, 0, None]


@pytest.mark.parametrize(("late", "taken"), [(3, True), (4, False), (-1, True), (-2, False), (20_000, False)])
@pytest.mark.parametrize("second", [0, 86_399])
def test_the_window_is_in_days(late: int, second: int, taken: bool) -> None:  # noqa: FBT001 - a case
    """So many before that of the arrival, and one after, whatever the hour; what lies outside is null and counted."""
    events = pa.array([((DAY.number - late) * 86_400 + second) * 1_000_000, None], pa.int64())
    arrivals = pa.array([DAY.number * _US + 1, DAY.number * _US], pa.int64()).cast(pa.timestamp("us", "UTC"))
    window = EventWindow(3)
    bounded, misfits = window.bound(events.cast(pa.timestamp("us", "UTC")), arrivals)
    assert (bounded[0].is_valid, list(misfits)) == (taken, [] if taken else [0])
    assert dict(window.days()) == ({None: 1, DAY.number - late: 1} if taken else {None: 2})


def payload(number: int) -> bytes:
    """Return an event: on time, late, early, without a time, with what is none, and of 1970, in turn."""
    days = (DAY, DAY.shift(-1), DAY.shift(1))
    times = [*(f"{day}T10:00:00Z" for day in days), None, "soon", "1970-01-01T00:00:00Z"]
    return json.dumps({"n": number, "ts": times[number % 6]}).encode()


def test_a_day_counts_its_rows_by_event(tmp_path: Path) -> None:
    """Rows = on time + late + early + without; no row is lost, each without a time that it should have says why."""
    desk = Desk(tmp_path, payload_day(DAY, 2, payload))
    done = desk.compact(columns=asked("placed", {"n": "int64", "placed": {"path": "ts", "type": "timestamp"}}))
    assert done.manifest is not None
    assert done.result is not None
    typed = done.result.audit.typed
    assert typed is not None
    events = typed.events
    assert events is not None
    assert (typed.rows, typed.balanced, done.result.audit.verdict) == (36, True, "clean")
    assert (events.on_time, events.late, events.early, events.without, events.balanced) == (6, 6, 6, 18, True)
    assert {each.day: each.rows for each in events.days} == {str(DAY.shift(days)): 6 for days in (-1, 0, 1)}
    assert {(each.column, each.reason): each.rows for each in typed.misfits} == {
        ("placed", "invalid"): 6,
        ("event_time", "invalid"): 6,
        ("event_time", "far_off"): 6,
    }
    files = [desk.storage.uri(file.key) for file in done.manifest.files]
    with duckdb.connect() as engine:
        engine.read_parquet(files).create_view("day")
        reasons = engine.execute("select _unfit, count(*) from day group by 1").fetchall()
    assert dict(reasons) == {
        f"event_time: {DAY.number} days before its arrival, more than 30 are not taken": 6,
        'placed: "soon" is not timestamp; event_time: "soon" is not timestamp': 6,
        None: 24,
    }
    console = TerminalConsole(width=200)
    with console.capture() as capture:
        show_audit(done.result.audit, console)
    assert "events: on time 6 + late 6 + early 6 + without 18, 3 day(s)\n" in capture.get()
    page = " ".join(render_page(done.result).split())
    assert "6 on time + 6 late + 6 early + 18 without" in page
    assert f'<th scope="row">{DAY.shift(-1)}</th>' in page


def test_another_window_or_path_is_another_generation(tmp_path: Path) -> None:
    """The same one is published once."""
    desk = Desk(tmp_path, payload_day(DAY, 2, payload))
    names = [
        desk.compact(columns=asked(text, window=window), rewrite_columns=True, is_confirmed=True).manifest
        for text, window in (("ts", 30), ("ts", 31), ("n as timestamp(s)", 30), ("ts", 30))
    ]
    generations = [found.generation for found in names if found is not None]
    assert (len(set(generations)), generations[0]) == (3, generations[-1])
    assert names[0] is not None
    assert names[0].columns == {"event_time": "timestamp"}


def test_counts_by_event_survive_in_a_document() -> None:
    """A night that goes on after a kill takes them from there."""
    lines = lines_of([b'{"ts":"2026-11-19T00:00:00Z"}', b"{}"])
    arrivals = pa.array([DAY.begin_ms * 1000] * 2, pa.int64()).cast(pa.timestamp("us", "UTC"))
    payload_columns = new_payload_columns(asked("ts"))
    columns_of(payload_columns, lines.append_column("arrival_time", arrivals))
    counts = payload_columns.counts()
    assert counts.events == ((None, 1), (Day.parse("2026-11-19").number, 1))
    assert StatedCounts.of(counts).counts() == counts


def test_numbers_that_do_not_add_up_hold_the_day_back(tmp_path: Path) -> None:
    """A row that is counted with no day would lie in a partition that nobody reckons with."""
    engine = miscounting(lambda counts: counts._replace(events=counts.events[1:]))
    done = Desk(tmp_path, payload_day(DAY, 2, payload)).compact(columns=asked("ts"), engine=engine)
    assert done.result is not None
    assert (done.state, done.result.audit.verdict) == ("held", "defects")


@pytest.mark.parametrize(
    ("text", "payload"),
    [
        ("at", b'{"at":"2026-11-25T08:00:00.1234567Z"}'),
        ("at", b'{"at":"2026-11-25T10:00:00.123456789+02:00"}'),
        ("at as timestamp(ns)", b'{"at":1795593600123456789}'),
        ("at as timestamp(ms)", b'{"at":"1795593600123.4567"}'),
        ("at as timestamp in Europe/Berlin", b'{"at":"2026-11-25T09:00:00.123456"}'),
    ],
)
def test_events_are_read_by_the_clocks_of_columns(text: str, payload: bytes) -> None:
    """Nanoseconds, seven digits and local times, to the microsecond."""
    columns = asked(text)._replace(event=None)
    times, unfit = columns_of(new_payload_columns(columns), lines_of([payload]))
    assert (times.cast(pa.int64()).to_pylist(), unfit.to_pylist()) == ([1795593600123456], [None])
