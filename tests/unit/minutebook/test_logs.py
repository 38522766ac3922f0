"""The log format."""

import io
import json
import logging

import pytest
import structlog

from minutebook.logs import configure_logging


@pytest.fixture
def stream() -> io.StringIO:
    """Return where the lines go, with logging set up at info."""
    lines = io.StringIO()
    configure_logging("info", lines)
    return lines


def test_a_line_is_json_with_time_level_and_ids(stream: io.StringIO) -> None:
    """One event, one line of plain ASCII, its time in UTC."""
    structlog.get_logger().bind(shard="é").warning("slot_lost", key="k")

    line = json.loads(stream.getvalue())
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "slot_lost", "level": "warning", "shard": "é", "key": "k"}
    assert stream.getvalue().isascii()


def test_lines_below_the_level_are_left_out(stream: io.StringIO) -> None:
    """Debug lines do not appear at level info."""
    structlog.get_logger().debug("detail")

    assert stream.getvalue() == ""


def test_a_librarys_own_warning_is_a_line_too(stream: io.StringIO) -> None:
    """Text between the lines, and a traceback above all, would break whoever reads them."""
    error = ValueError("denied")
    logging.getLogger("botocore.credentials").warning("Refreshing %s failed", "credentials", exc_info=error)

    line = json.loads(stream.getvalue())
    assert (line["event"], line["level"], line["logger"]) == ("printed", "warning", "botocore.credentials")
    assert line["message"] == "Refreshing credentials failed"
    assert "ValueError: denied" in line["exception"]
