"""The process loop: strict turns, typed decoding, nothing swallowed, and a daemon that is gone is named."""

import base64
import io
import json
import os
import socket
from collections.abc import Callable
from typing import cast

import pytest

from consumer.processor.protocol import Processor, run_process
from minutebook.errors import DaemonGone, DeliveryDoubt, MinutebookError, StoreRefused
from tests.fakes.memory_store import EndlessFault, Fault
from tests.fakes.world import World


def test_one_process_serves_a_whole_life(world: World) -> None:
    """initialize, batches, an empty batch, shutdownRequested, leaseLost, end of input: all in one run."""
    worker = world.worker()
    daemon = worker.daemon
    daemon.run(
        [
            daemon.initialize_message,
            lambda: daemon.records_message(daemon.waiting()[:2]),
            lambda: daemon.records_message(daemon.waiting()),
            lambda: daemon.records_message([]),
            lambda: b'{"action":"shutdownRequested"}\n',
            lambda: b'{"action":"leaseLost"}\n',
        ]
    )
    world.check_everything_archived()
    assert world.lease.checkpoint == world.shard.everything[3].position


def line(**changes: object) -> bytes:
    """Return a batch of one record with fields changed; None in `drop` removes one."""
    record = {
        "action": "record",
        "data": "eA==",
        "partitionKey": "p",
        "sequenceNumber": "49680000000000000000000000000000000000000000000000000009",
        "subSequenceNumber": 0,
        "approximateArrivalTimestamp": 1_795_256_161_000,
        **changes,
    }
    kept = {name: value for name, value in record.items() if value != "absent"}
    return json.dumps({"action": "processRecords", "records": [kept], "millisBehindLatest": None}).encode() + b"\n"


@pytest.mark.parametrize(
    "message",
    [
        b"\n",
        b"x\n",
        b"null\n",
        b"[]\n",
        b"{}\n",
        b'{"action":"unknown"}\n',
        b'{"action":"processRecords"}\n',
        b'{"action":"processRecords","records":null}\n',
        b'{"action":"processRecords","records":[],"millisBehindLatest":0}',
        b'{"action":"checkpoint","sequenceNumber":null,"subSequenceNumber":null,"error":null}\n',
        b'{"action":"initialize"}\n',
        b"\xff\n",
        line(approximateArrivalTimestamp=None),
        line(approximateArrivalTimestamp="absent"),
        line(approximateArrivalTimestamp=1.5),
        line(sequenceNumber=None),
        line(sequenceNumber="absent"),
        line(subSequenceNumber=None),
        line(partitionKey=None),
        line(data=None),
        line(data="no base64!"),
    ],
)
def test_a_malformed_line_ends_the_process(world: World, message: bytes) -> None:
    """A clear error, exit code 1, nothing committed, nothing checkpointed, no answer."""
    worker = world.started()
    with pytest.raises(DeliveryDoubt) as caught:
        worker.daemon.send(message)
    assert caught.value.exit_code == 1
    assert caught.value.next_step
    assert world.chain() == []
    assert worker.daemon.requests == []


def test_nothing_of_a_message_is_committed_whose_end_is_malformed(world: World) -> None:
    """Long enough to be decoded in pieces, and its first minute would end in the first of them."""
    worker = world.started()
    start_ms = world.clock.now_ms() // 60_000 * 60_000
    records = [
        {
            "action": "record",
            "data": base64.b64encode(b"x" * 1000).decode(),
            "partitionKey": "p" if n < 2999 else None,
            "sequenceNumber": str(10**55 + n),
            "subSequenceNumber": 0,
            "approximateArrivalTimestamp": start_ms - (n < 3) * 60_000,
        }
        for n in range(3000)
    ]
    message = {"action": "processRecords", "records": records, "millisBehindLatest": 0}
    with pytest.raises(DeliveryDoubt, match=r"records\[2999\].partitionKey"):
        worker.daemon.send(json.dumps(message, separators=(",", ":")).encode() + b"\n")
    assert world.chain() == []
    assert worker.daemon.requests == []


@pytest.mark.parametrize(
    "field",
    [
        *({"sequenceNumber": text} for text in ("", "-1", "x", "01", "1e5", "1" * 130)),
        {"subSequenceNumber": -1},
        *({"approximateArrivalTimestamp": time_ms} for time_ms in (-1, 253_402_300_800_000)),
    ],
    ids=str,
)
def test_a_number_outside_its_range_ends_the_process(world: World, field: dict[str, object]) -> None:
    """A position or time that could not be read back from the archive: one clear error, not a stack."""
    worker = world.started()
    with pytest.raises(MinutebookError):
        worker.daemon.send(line(**field))


def test_unknown_fields_of_a_newer_daemon_are_ignored(world: World) -> None:
    """Within the protocol only what is needed is read."""
    worker = world.started(checkpoint_interval_seconds=3600)
    worker.daemon.send(line(explicitHashKey="1", encryptionType="NONE"))
    world.clock.advance(66)
    worker.daemon.tick()
    assert len(world.bucket.keys("raw/20")) == 1


def test_a_daemon_that_is_gone_while_a_checkpoint_is_asked_for_ends_the_process(world: World) -> None:
    """The input ends where the answer was due: whether the checkpoint was written nobody knows."""
    worker = world.started()
    worker.daemon.deliver()
    daemon = worker.daemon
    setattr(daemon, "_answer_checkpoint", lambda _action, _message: b"")  # noqa: B010 - KCL is gone
    with pytest.raises(DeliveryDoubt, match="ended in the middle"):
        daemon.request_shutdown()


def test_work_before_initialize_ends_the_process(world: World) -> None:
    """The shard is not known."""
    with pytest.raises(DeliveryDoubt):
        world.worker().daemon.deliver()


def test_an_error_in_a_callback_leaves_the_process_loop(world: World) -> None:
    """Kclpy would print it and answer OK, which skips the records."""
    worker = world.started()
    worker.daemon.deliver()
    worker.store.faults = EndlessFault(Fault.REFUSED)
    with pytest.raises(StoreRefused):
        worker.daemon.request_shutdown()
    assert not worker.daemon.alive


def test_any_partition_key_and_payload_comes_through(world: World) -> None:
    """Non-ASCII keys, every byte value, an empty payload."""
    for key, data in [("caf\u00e9-\u65e5", bytes(range(256))), ("\U0001f9ff", b""), ('"\\\n', b"\xed\xa0\x80")]:
        world.shard.put(data, world.clock.now_ms(), key)
    world.archive_all()
    world.check_everything_archived()


def test_a_record_of_a_mebibyte_comes_through(world: World) -> None:
    """Kinesis' default largest record."""
    world.put(2, data=bytes(range(256)) * 4096)
    world.archive_all()
    world.check_everything_archived()


class Silent:
    """A processor that does nothing."""

    version = 3

    def lease_lost(self, _: object) -> None:
        """Fall silent."""


def close(daemon_reads: int, _stdout: int) -> None:
    """Close the daemon's end."""
    os.close(daemon_reads)


def fill(_daemon_reads: int, stdout: int) -> None:
    """Let nothing fit any more, and nobody wait for room."""
    os.set_blocking(stdout, False)
    os.write(stdout, bytes(1 << 20))


@pytest.mark.parametrize(
    ("spoil", "said"), [(close, "takes no answer: .*Broken pipe"), (fill, "took 0 bytes of [0-9]+: .*O_NONBLOCK")]
)
def test_an_answer_that_is_not_sent_whole_ends_the_process(spoil: Callable[[int, int], None], said: str) -> None:
    """Gone, or never told: the daemon would wait for ever, or believe half a line."""
    daemon_reads, stdout = os.pipe()
    stdin, daemon_writes = os.pipe()
    os.write(daemon_writes, b'{"action":"leaseLost"}\n')
    os.close(daemon_writes)
    spoil(daemon_reads, stdout)
    with (
        os.fdopen(stdin, "rb") as source,
        os.fdopen(stdout, "wb", buffering=0) as target,
        pytest.raises(DaemonGone, match=said) as told,
    ):
        run_process(cast("Processor", Silent()), source, target)
    assert "delivered again" in told.value.next_step
    if spoil is not close:
        os.close(daemon_reads)


def test_a_pipe_that_cannot_be_read_ends_the_process() -> None:
    """Whatever the system says, here of a connection that was reset: no end of input, which would be no error."""
    ours, theirs = socket.socketpair()
    ours.send(b"never read")
    theirs.close()
    with (
        os.fdopen(ours.detach(), "rb") as source,
        pytest.raises(DaemonGone, match=r"cannot be read: .*reset by peer"),
    ):
        run_process(cast("Processor", Silent()), source, io.BytesIO())
