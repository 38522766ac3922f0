"""One schema for all lines of a task: KCL's, the processors', and what the JVM or a library prints."""

import json
from pathlib import Path
from typing import Any

import pytest

from consumer.child_logs.kcl_log import read_kcl_error, read_kcl_line
from consumer.child_logs.processor_log import read_event
from consumer.monitoring.log_lines import format_message, of_daemon, of_processor
from tests.fakes.clock import START_MS

_LINES = Path(__file__).parents[3] / "data" / "kcl-log"
_OURS = b'{"event": "x", "level": "%s", "timestamp": "2026-11-21T10:16:00.5Z", "records": "many"}\n'
_SAID = [line for path in sorted(_LINES.glob("*.json*")) for line in path.read_bytes().splitlines(keepends=True)]


def _daemon(line: bytes) -> dict[str, Any]:
    entry = json.loads(of_daemon(line, "debug", START_MS))
    assert isinstance(entry, dict)
    return entry


@pytest.mark.parametrize("number", range(len(_SAID)))
def test_each_line_that_kcl_was_seen_to_write_has_the_schema(number: int) -> None:
    """Time in ISO 8601, level in small letters, the event, and each argument in its place."""
    raw = json.loads(_SAID[number])
    entry = _daemon(_SAID[number])
    assert (entry["event"], entry["logger"]) == ("kcl", raw["loggerName"])
    assert entry["timestamp"].endswith("Z")
    assert entry["level"] == {"INFO": "debug", "WARN": "warning", "ERROR": "error"}[raw["level"]]
    assert all(argument in entry["message"] for argument in raw.get("arguments", [])[: raw["message"].count("{}")])
    assert ("error" in entry) == ("stack" in entry) == (raw.get("throwable") is not None)


def test_an_exception_keeps_its_causes_and_frames() -> None:
    """As Java prints them, in one text."""
    entry = _daemon((_LINES / "not_initialised.json").read_bytes())
    assert entry["error"].partition(":")[0].startswith("java.")
    assert "\n\tat " in entry["stack"]
    assert "\nCaused by: " in entry["stack"]


@pytest.mark.parametrize(
    ("message", "arguments", "said"),
    [
        ("plain", [], "plain"),
        ("{} of {}", ["a", "b"], "a of b"),
        ("{} of {}", ["a"], "a of {}"),
        ("{}", ["a", "too many"], "a"),
        ("{}", ["{}"], "{}"),
        ("{} {}", ["{}", "b"], "{} b"),
        ("", [], ""),
    ],
)
def test_arguments_fill_the_braces(message: str, arguments: list[str], said: str) -> None:
    """In order; braces inside of an argument are its own."""
    assert format_message(message, arguments) == said


_ENDLESS = b'"cause":{"className":"a",' * 5000 + b'"cause":null' + b"}" * 5000


@pytest.mark.parametrize(
    "line",
    [
        b'{"timestamp":1000000000000000000,"level":"INFO","loggerName":"x"}',
        b'{"timestamp":1,"level":"ERROR","loggerName":"x","throwable":{"className":"a",%b}}' % _ENDLESS,
    ],
)
def test_no_line_ends_the_reading(line: bytes) -> None:
    """Who reads the daemon's log hears of skipped batches by it."""
    assert json.loads(of_daemon(line, "debug", START_MS))["event"] == "printed"
    assert read_kcl_line(line) is None
    assert read_kcl_error(line) is None


@pytest.mark.parametrize(
    ("level", "passes"), [("debug", {"INFO", "WARN", "ERROR"}), ("info", {"WARN", "ERROR"}), ("error", {"ERROR"})]
)
def test_the_level_decides_which_of_kcls_lines_are_passed_on(level: str, passes: set[str]) -> None:
    """KCL's info is our debug: warnings and errors are all that a life of the daemon shows at level info."""
    passed = [json.loads(line)["level"] for line in _SAID if of_daemon(line, level, START_MS)]
    assert passed == [json.loads(line)["level"] for line in _SAID if json.loads(line)["level"] in passes]


def test_lines_that_the_supervisor_acts_on_are_not_left_out_of_its_reading() -> None:
    """A skipped batch and a denied permission are warnings or errors: each is shown at level info as well."""
    acted_on = [line for line in _SAID if read_kcl_line(line) or read_kcl_error(line)]
    assert acted_on
    assert all(of_daemon(line, "info", START_MS) for line in acted_on)


@pytest.mark.parametrize("line", [b"Terminating due to memory\n", b'{"event": 7}\n', b"{half", b'"\xff"\n', b"[1]\n"])
def test_what_else_is_printed_gets_the_schema(line: bytes) -> None:
    """At any log level; on stderr as a warning: our own code prints nothing there."""
    for entry, level in (
        (json.loads(of_daemon(line, "error", START_MS)), "info"),
        (json.loads(of_processor(line, "error", START_MS)), "warning"),
    ):
        said = line.decode(errors="replace").rstrip()
        assert entry == {"timestamp": "2026-11-21T10:16:00.000Z", "level": level, "event": "printed", "message": said}
    assert of_daemon(b"\r\n", "debug", START_MS) == b""


@pytest.mark.parametrize(
    ("level", "passes"),
    [
        ("debug", "debug info warning error critical"),
        ("info", "info warning error critical"),
        ("error", "error critical"),
    ],
)
def test_the_level_decides_what_of_the_processors_lines_is_passed_on(level: str, passes: str) -> None:
    """Unchanged; a level that nobody knows passes."""
    lines = {name: _OURS % name.encode() for name in ("debug", "info", "warning", "error", "critical")}
    passed = {name: of_processor(line, level, START_MS) for name, line in lines.items()}
    assert passed == {name: lines[name] if name in passes.split() else b"" for name in lines}
    assert of_processor(_OURS % b"odd", level, START_MS) == _OURS % b"odd"


@pytest.mark.parametrize("text", ["\x9b2J", "\u202e", "\x7f", "\x1b[31m"])
def test_what_producers_wrote_does_nothing_to_a_terminal(text: str) -> None:
    """KCL repeats the bytes and keys of a malformed aggregate; JSON alone escapes less."""
    kcl = json.dumps({"timestamp": START_MS, "level": "ERROR", "loggerName": "x", "message": f"oops {text}é"})
    for line in (of_daemon(kcl.encode(), "info", START_MS), of_processor(f"oops {text}é".encode(), "info", START_MS)):
        assert json.loads(line)["message"] == f"oops {text}é"
        assert line.decode().rstrip("\n").isprintable()


def test_deep_nesting_is_an_ordinary_line() -> None:
    """A program of the user's may print anything."""
    deep = b'{"event": "x", "level": "info", "timestamp": "", "a": ' + b"[" * 9_000 + b"]" * 9_000 + b"}"
    assert read_event(deep) is None
    assert json.loads(of_processor(deep, "info", START_MS))["event"] == "printed"
