"""A command over the streams of a folder: who stops whom, the table, the document, the exit code."""

import json
from typing import Any

import msgspec
import pytest
import structlog

from minutebook.errors import SettingsError, StoreUnavailable, worst
from minutebook.format.day import Day
from minutebook.properties_file import PropertiesFile
from minutebook.properties_folder import PropertiesFolder, StreamFile
from minutebook.streams_run import StreamEnd, StreamsRun, in_turn


def folder_of(*names: str) -> PropertiesFolder:
    """Return a folder of streams."""
    files = (PropertiesFile({"applicationName": f"app-{name}"}, (), name, stem=name) for name in names)
    return PropertiesFolder("streams", tuple(map(StreamFile, names, files)))


def run(names: str, ends: dict[str, StreamEnd | Exception], **options: Any) -> int:  # noqa: ANN401 - fields of the run
    """Run a command that ends so for each stream."""

    def work(each: StreamFile, _: PropertiesFile) -> StreamEnd:
        end = ends.get(each.name, StreamEnd(outcome="all is well"))
        if isinstance(end, Exception):
            raise end
        return end

    return StreamsRun("status", folder_of(*names.split()), **options).run(work)


def test_a_stream_that_fails_stops_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    """Its row has the error and what to do, and the run ends with its code."""
    code = run("a b c", {"b": StoreUnavailable("no answer", next_step="wait")})
    assert code == 5
    assert capsys.readouterr().out.splitlines() == [
        "stream  exit",
        "a          0  all is well",
        "b          5  no answer",
        "              → wait",
        "c          0  all is well",
        "2 of 3 stream(s) of streams ended with 0",
    ]


def test_a_bug_that_one_stream_meets_is_logged_and_stops_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, the worst; the trace is in the log, with the stream's name."""
    with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        assert run("a b", {"a": ZeroDivisionError("by zero"), "b": StreamEnd(3, "lost")}) == 1
    told = capsys.readouterr().out
    assert "ZeroDivisionError: by zero" in told
    assert "lost" in told
    assert [(line["event"], line["properties"]) for line in lines] == [("stream_failed", "a")]


def test_one_document_holds_a_list_of_the_streams(capsys: pytest.CaptureFixture[str]) -> None:
    """Each with the document that the command prints for one file; a stream that failed has none."""

    class Report(msgspec.Struct):
        shards: int

    ends = {"a": StreamEnd(0, report=Report(7)), "b": SettingsError("a wrong line", next_step="correct it")}
    assert run("a b", ends, as_json=True) == 2
    assert json.loads(capsys.readouterr().out) == {
        "format": 1,
        "command": "status",
        "exit_code": 2,
        "streams": [
            {
                "stream": "a",
                "application": "app-a",
                "exit_code": 0,
                "outcome": "",
                "next_step": "",
                "report": {"shards": 7},
            },
            {
                "stream": "b",
                "application": "app-b",
                "exit_code": 2,
                "outcome": "a wrong line",
                "next_step": "correct it",
            },
        ],
    }


def test_a_signal_ends_the_run_over_streams(capsys: pytest.CaptureFixture[str]) -> None:
    """It outweighs the streams' codes; the streams behind are not begun, and it is said."""
    assert run("a b c", {"a": StreamEnd(3, "lost"), "b": StreamEnd(143, "stopped")}) == 143
    assert "stopped before 1 of them: run the command again" in capsys.readouterr().out


def test_side_by_side_is_the_same_table(capsys: pytest.CaptureFixture[str]) -> None:
    """In the order of the folder."""
    ends: dict[str, StreamEnd | Exception] = {"b": StoreUnavailable("no answer", next_step="wait")}
    assert run("a b c d", ends, headings=("shards",), at_once=3) == 5
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:6]] == ["a", "b", "→", "c", "d"]


@pytest.mark.parametrize(
    ("codes", "expected"), [((0, 4), 4), ((4, 7), 7), ((5, 7), 5), ((5, 2), 2), ((6, 2), 6), ((6, 3), 3), ((3, 1), 1)]
)
def test_the_worst_code(codes: tuple[int, ...], expected: int) -> None:
    """Lost records are hidden by nothing but a bug."""
    assert worst(codes) == expected


def test_a_budget_that_is_spent_leaves_out_other_streams_each_night() -> None:
    """Another stream is the first one each day, and each is in its turn."""
    folder = folder_of("a", "b", "c")
    turns = [[each.name for each in in_turn(folder, Day(day)).streams] for day in range(30_000, 30_003)]
    assert sorted(turn[0] for turn in turns) == ["a", "b", "c"]
    assert all(sorted(turn) == ["a", "b", "c"] for turn in turns)
