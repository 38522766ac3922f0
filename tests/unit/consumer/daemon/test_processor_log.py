"""Reading the processors' log lines, whatever else is printed on their stderr."""

import pytest

from consumer.daemon.metrics import Metrics
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


def test_counters() -> None:
    """Each kind of line moves its counters, by shard."""
    metrics = Metrics()
    for event in (
        ProcessorEvent(
            event="segment_committed", shard="s-1", records=10, payload_bytes=100, body_bytes=50, attempts=2
        ),
        ProcessorEvent(
            event="segment_committed", shard="s-1", records=5, payload_bytes=50, body_bytes=20, attempts=1
        ),
        ProcessorEvent(event="slot_lost", shard="s-2"),
        ProcessorEvent(event="id_conflict", shard="s-2", records=7),
        ProcessorEvent(event="checkpoint_written", shard="s-1"),
        ProcessorEvent(event="processor_failed", exit_code=5),
        ProcessorEvent(event="shard_opened", shard="s-1"),
    ):
        metrics.count(event)
    metrics.count_restart()

    shard = {"shard": "s-1"}
    sample = metrics.registry.get_sample_value
    assert sample("minutebook_segments_total", shard) == 2
    assert sample("minutebook_records_total", shard) == 15
    assert sample("minutebook_payload_bytes_total", shard) == 150
    assert sample("minutebook_body_bytes_total", shard) == 70
    assert sample("minutebook_put_attempts_total", shard) == 3
    assert sample("minutebook_checkpoints_total", shard) == 1
    assert sample("minutebook_slots_lost_total", {"shard": "s-2"}) == 1
    assert sample("minutebook_id_conflicts_total", {"shard": "s-2"}) == 7
    assert sample("minutebook_processor_failures_total", {"exit_code": "5"}) == 1
    assert sample("minutebook_daemon_restarts_total") == 1
