"""A daemon that cannot be told, or read, any more: named as what it is, and never taken for one that was told."""

import io
import os
import socket
from collections.abc import Callable
from typing import cast

import pytest

from consumer.processor.protocol import Processor, run_process
from minutebook.errors import DaemonGone


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
