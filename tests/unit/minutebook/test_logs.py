"""The log format, and the limit on lines that one bad minute of a store would make by the thousand."""

import io
import json
import logging

import pytest
import structlog

from minutebook.logs import Limit, configure_logging
from tests.fakes.clock import ManualClock


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


def test_five_lines_a_minute_and_a_count_of_the_rest() -> None:
    """Of each event that repeats; others, and errors, always pass."""
    clock, sink = ManualClock(), io.StringIO()
    configure_logging("info", sink, limit=Limit(clock))
    try:
        log = structlog.get_logger()
        for number in range(1000):
            log.warning("outcome_unknown", number=number)
            log.info("day_published", number=number)
            log.error("printed", number=number)
        clock.advance(60)
        log.warning("outcome_unknown", number=-1)
        log.warning("outcome_unknown", number=-2)
    finally:
        structlog.reset_defaults()
    lines = [json.loads(line) for line in sink.getvalue().splitlines()]
    repeated = [(line["number"], line.get("left_out")) for line in lines if line["event"] == "outcome_unknown"]
    assert repeated == [(0, None), (1, None), (2, None), (3, None), (4, None), (-1, 995), (-2, None)]
    assert sum(line["event"] == "day_published" for line in lines) == 1000
    assert sum(line["event"] == "printed" for line in lines) == 1000
