"""One schema for all lines of a task: KCL's, the processors', and what the JVM or a library prints."""

import json
from pathlib import Path
from typing import Any

import pytest

from consumer.child_logs.kcl_log import read_kcl_error, read_kcl_line
from consumer.monitoring.log_lines import format_message, of_daemon, of_processor
from tests.fakes.clock import START_MS

_LINES = Path(__file__).parents[3] / "data" / "kcl-log"
_OURS = b'{"event": "x", "level": "%s", "timestamp": "2026-11-21T10:16:00.5Z", "records": "many"}\n'
_SAID = [line for path in sorted(_LINES.glob("*.json*")) for line in path.read_bytes().splitlines(keepends=True)]


def _daemon(line: bytes) -> dict[str, Any]:
    entry = json.loads(of_daemon(line, START_MS))
    assert isinstance(entry, dict)
    return entry


@pytest.mark.parametrize("number", range(len(_SAID)))
def test_each_line_that_kcl_was_seen_to_write_has_the_schema(number: int) -> None:
    """Time in ISO 8601, level in small letters, the event, and each argument in its place."""
    raw = json.loads(_SAID[number])
    entry = _daemon(_SAID[number])
    assert (entry["event"], entry["logger"]) == ("kcl", raw["loggerName"])
    assert entry["timestamp"].endswith("Z")
    assert entry["level"] in {"info", "warning", "error"}
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
    assert json.loads(of_daemon(line, START_MS))["event"] == "printed"
    assert read_kcl_line(line) is None
    assert read_kcl_error(line) is None


def test_what_kcl_repeats_all_the_time_is_left_out() -> None:
    """Which shards are assigned, twice a minute; a warning of the same logger is not."""
    noise = {
        "timestamp": START_MS,
        "level": "INFO",
        "loggerName": "software.amazon.kinesis.coordinator.Scheduler",
        "message": "{}",
        "arguments": ["Sleeping ..."],
    }
    assert of_daemon(json.dumps(noise).encode(), START_MS) == b""
    assert of_daemon(json.dumps({**noise, "level": "WARN"}).encode(), START_MS)
    assert _daemon(json.dumps({**noise, "message": "Initialization complete."}).encode())["level"] == "info"


@pytest.mark.parametrize("line", [b"Terminating due to memory\n", b'{"event": 7}\n', b"{half", b'"\xff"\n', b"[1]\n"])
def test_what_else_is_printed_gets_the_schema(line: bytes) -> None:
    """On stderr as a warning: our own code prints nothing there."""
    for entry, level in (
        (json.loads(of_daemon(line, START_MS)), "info"),
        (json.loads(of_processor(line, "error", START_MS)), "warning"),
    ):
        said = line.decode(errors="replace").rstrip()
        assert entry == {"timestamp": "2026-11-21T10:16:00.000Z", "level": level, "event": "printed", "message": said}
    assert of_daemon(b"\r\n", START_MS) == b""


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
