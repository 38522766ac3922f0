"""Waiting for what no event announces, and how long a test waits for anything."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from minutebook.clock import SystemClock

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

PATIENCE_SECONDS: Final = 180
"""After which a test calls something broken that it waits for. No claim: a busy machine may take its time.

KCL alone waits up to 30 s on an empty lease table, and a first start on a busy machine was seen to take 134 s.
"""
_CLOCK = SystemClock()


def wait_until(ready: Callable[[], bool], what: str, *, seconds: float = PATIENCE_SECONDS) -> None:
    """Poll a condition.

    Raises:
        AssertionError: it did not become true in time.
    """
    deadline = _CLOCK.monotonic() + seconds
    while not ready():
        assert _CLOCK.monotonic() < deadline, f"{seconds:g} s without: {what}"
        _CLOCK.sleep(0.05)


def wait_for_an_early_second(latest: int = 30) -> None:
    """Wait until the present minute is young enough: what is held is not committed because the minute is over."""
    wait_until(lambda: _CLOCK.now_ms() // 1000 % 60 < latest, "the minute is not about to end")


def is_gone(client: "KinesisClient", name: str) -> bool:
    """Tell whether a stream is deleted."""
    try:
        client.describe_stream_summary(StreamName=name)
    except client.exceptions.ResourceNotFoundException:
        return True
    return False
