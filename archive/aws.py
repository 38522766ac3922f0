"""Sending a Kinesis request until its answer is known: one loop for the consumer and the nightly job."""

from collections.abc import Callable
from typing import TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from archive.errors import StreamRefused, StreamUnavailable
from archive.retry import Backoff

T = TypeVar("T")
Passing = Callable[[ClientError | BotoCoreError], bool]
"""Tells whether an error may be gone when the request is sent again."""


def ask(request: Callable[[], T], what: str, backoff: Backoff, is_passing: Passing) -> T:
    """Return the answer; `what` names request and stream in errors.

    Raises:
        StreamRefused: an error that does not pass.
        StreamUnavailable: the backoff's budget is spent.
    """
    while True:
        try:
            return request()
        except (ClientError, BotoCoreError) as exc:
            if not is_passing(exc):
                raise StreamRefused(
                    f"{what}: {exc}",
                    next_step="look at streamName, regionName and the permissions in docs/operations.md",
                ) from exc
            if not backoff.wait():
                raise StreamUnavailable(
                    f"{what} kept failing: {exc}",
                    next_step="look at the health of Kinesis and at the read limits of the shard",
                ) from exc
