"""Lines that one bad minute of a store would make by the thousand."""

import io
import json

import structlog

from minutebook.logs import Limit, configure_logging
from tests.fakes.clock import ManualClock


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
