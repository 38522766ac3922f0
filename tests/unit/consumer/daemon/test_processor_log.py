"""Reading the processors' log lines, whatever else is printed on their stderr."""

import pytest

from consumer.daemon.processor_log import ProcessorEvent, read_event


@pytest.mark.parametrize(
    "line",
    [
        b"Traceback (most recent call last):\n",
        b"\n",
        b"{half a line",
        b'{"no": "event"}\n',
        b'{"event": 7}\n',
        b'{"event": "x", "records": "many"}\n',
        b'{"event": "\xff"}\n',
        b"[1]\n",
    ],
)
def test_other_lines_are_no_events(line: bytes) -> None:
    """A line that is not an event of ours is only passed on."""
    assert read_event(line) is None


def test_an_event_keeps_what_is_counted() -> None:
    """Fields that nobody counts are left out."""
    line = b'{"event": "processor_failed", "exit_code": 6, "error": "e", "next_step": "n", "stack": [1]}\n'

    assert read_event(line) == ProcessorEvent(event="processor_failed", exit_code=6, error="e", next_step="n")
