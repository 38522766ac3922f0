"""The demo's reading of a worker's log while it grows."""

from pathlib import Path

from demo.worker import EventLog

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
