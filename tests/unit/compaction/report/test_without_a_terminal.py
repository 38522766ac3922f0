"""What a night tells without a terminal: progress in lines, and each day's verdict for CloudWatch."""

import io
import json

import pytest
import structlog
from jsonschema import Draft202012Validator
from structlog.testing import capture_logs

from compaction.report.metric_line import METRICS, NIGHT_METRICS, CloudWatchLines, DayMetrics, NightMetrics
from compaction.report.screen import ProgressLines
from tests.fakes.clock import START_MS, ManualClock
from tests.unit.consumer.monitoring.test_cloudwatch import EMF_SCHEMA


@pytest.fixture(autouse=True)
def _plain_logs() -> None:
    structlog.reset_defaults()


def _lines(steps: list[tuple[float, str, int, int]]) -> list[tuple[str, int, float]]:
    clock = ManualClock()
    progress = ProgressLines("compact", clock)
    with capture_logs() as logs:
        for seconds, phase, done, total in steps:
            clock.advance(seconds)
            progress(phase, done, total)
    return [(line["phase"], line["done"], line["seconds"]) for line in logs]


def test_a_line_at_each_tenth_and_no_more() -> None:
    """A thousand tasks that end one by one are eleven lines."""
    found = _lines([(0.1, "read", done, 1000) for done in range(1001)])
    assert [done for _, done, _ in found] == [0, *range(100, 1001, 100)]


def test_a_line_each_minute_while_nothing_ends() -> None:
    """Whoever looks sees that it is alive."""
    found = _lines([(1, "read", 0, 5) for _ in range(181)])
    assert [seconds for _, _, seconds in found] == [0, 60, 120, 180]


def test_phases_are_told_apart_and_may_come_again() -> None:
    """Each with its own time; the end of one is told once."""
    steps = [
        (0.0, "read", 0, 2),
        (5.0, "read", 2, 2),
        (0.0, "read", 2, 2),
        (1.0, "merge", 0, 1),
        (2.0, "merge", 1, 1),
    ]
    found = _lines([*steps, (9.0, "read", 0, 2), (1.0, "read", 2, 2)])
    assert found == [
        ("read", 0, 0),
        ("read", 2, 5),
        ("merge", 0, 0),
        ("merge", 1, 2),
        ("read", 0, 0),
        ("read", 2, 1),
    ]


def _metrics(judged: DayMetrics) -> dict[str, object]:
    sink = io.BytesIO()
    CloudWatchLines("app", "compact", ManualClock(), sink).write(judged)
    line: dict[str, object] = json.loads(sink.getvalue())
    Draft202012Validator(EMF_SCHEMA).validate(line)
    return line


def test_a_day_is_one_line_of_metrics() -> None:
    """All of them, under application and command; the day and its verdict stand beside."""
    line = _metrics(DayMetrics("2026-11-20", "unknown", 61.5, 700, (0, 2, 1), "published", "abc", 4000, 12, 3))
    named = {name: line[name] for name in METRICS}
    assert named == {
        "DayClean": 0,
        "DayPublished": 1,
        "DayDefects": 0,
        "DayUnknowns": 2,
        "DayWarnings": 1,
        "DayArrivalStepBack": 4000,
        "DayRows": 700,
        "DayUnfit": 12,
        "DayUnknownKeys": 3,
        "DaySeconds": 61.5,
    }
    assert (line["day"], line["verdict"], line["Application"], line["Command"]) == (
        "2026-11-20",
        "unknown",
        "app",
        "compact",
    )
    assert (line["event"], line["timestamp"], line["generation"]) == ("day_judged", "2026-11-21T10:16:00.000Z", "abc")
    assert line["_aws"]["Timestamp"] == START_MS  # type: ignore[index]


def test_what_a_run_does_not_know_is_no_metric() -> None:
    """A day that nobody read again has no findings of this run; 0 of them would be a claim."""
    line = _metrics(DayMetrics("2026-11-20", "clean", 1, 7, None, "already"))
    assert (
        not {"DayDefects", "DayUnknowns", "DayWarnings", "DayArrivalStepBack", "DayUnfit", "generation"} & line.keys()
    )
    assert (line["DayClean"], line["DayPublished"]) == (1, 1)
    held = _metrics(DayMetrics("2026-11-20", "defects", 1, state="held"))
    assert (held["DayClean"], held["DayPublished"], "DayRows" in held) == (0, 0, False)


def test_a_day_of_a_night_says_what_its_row_says() -> None:
    """What readers see of it, what was done, and how it is in the table: for whoever searches the log."""
    day = DayMetrics("2026-11-20", "defects", 1, 7, None, "already")
    line = _metrics(day._replace(due={"pointer": "accepted", "done": ("judged again", "swept"), "table": "same"}))
    assert (line["pointer"], line["done"], line["table"]) == ("accepted", ["judged again", "swept"], "same")
    assert not {"pointer", "done", "table"} & _metrics(day).keys()


def test_a_night_is_one_line_of_metrics() -> None:
    """Also one that did nothing: a line that is missing is a night that did not run."""
    sink = io.BytesIO()
    lines = CloudWatchLines("app", "compact", ManualClock(), sink)
    lines.write_night(NightMetrics(days_open=2, days_left=1, days_not_in_table=3))
    lines.write_night(NightMetrics())
    told = [json.loads(line) for line in sink.getvalue().splitlines()]
    for line in told:
        Draft202012Validator(EMF_SCHEMA).validate(line)
    assert [[line.get(name) for name in NIGHT_METRICS] for line in told] == [[2, 1, 3], [0, 0, None]]
    assert {line["event"] for line in told} == {"night_ended"}
