"""The registered consumer that a run reads by: found, or registered for the run and removed behind it.

    an ARN ..................... it is used, and left
    a name that is there ....... it is used, and left; the log says so: a consumer costs for as long as it is there
    a name that is not there ... it is registered when the stream is first read, and deregistered when the run ends

What is ours is known by its ARN, which holds the time at which it was made: a namesake is never deregistered. Where a
registration was not answered nobody knows whose the consumer is that is found behind it, so it is left, and told.
"""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog
from botocore.exceptions import BotoCoreError, ClientError

from archive.aws import KINESIS, ask, error_code, is_passing
from archive.errors import StreamRefused, StreamUnavailable
from archive.retry import Backoff

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

CONSUMER_NAME: Final = re.compile(r"[a-zA-Z0-9_.-]{1,128}")
CONSUMER_ARN: Final = re.compile(r"arn:aws[^:]*:kinesis:[^:]+:[0-9]{12}:stream/[^/]+/consumer/[a-zA-Z0-9_.-]+:[0-9]+")
_NOT_APPLIED: Final = frozenset({"LimitExceededException", "ResourceInUseException"})
"""A registration that is answered so was not made."""


class _Consumer(NamedTuple):
    arn: str
    status: str


class FanOut:
    """The consumer of one run, for one day at a time: a second subscription to a shard would take over the first.

    `asked` is a name or an ARN. `waits` are those of the run, which a signal ends; `last_waits` those of its end.
    """

    def __init__(
        self,
        client: "KinesisClient",
        asked: str,
        waits: Callable[[], Backoff],
        last_waits: Callable[[], Backoff],
    ) -> None:
        self._client = client
        self._asked = asked
        self._waits = waits
        self._last_waits = last_waits
        self._lock = threading.Lock()
        self._found: str | None = None
        self._ours: str | None = None
        self._in_doubt = False

    @contextmanager
    def lent(self, stream_arn: str) -> Iterator[str]:
        """Yield the ARN of the consumer, which is active; nobody else has it meanwhile.

        Raises:
            StreamRefused: it belongs to another stream, or may not be registered.
            StreamUnavailable: it did not become active; or the stream has as many consumers as it may have.
        """
        with self._lock:
            if self._found is None:
                self._found = self._find(stream_arn)
            yield self._found

    def close(self) -> None:
        """Deregister the consumer if this run registered it. What cannot be removed is told: it costs."""
        log = structlog.get_logger()
        if self._ours is None:
            if self._in_doubt:
                log.error("fan_out_consumer_in_doubt", consumer=self._asked, next_step=_LOOK)
            return
        try:
            ask(self._deregister, f"DeregisterStreamConsumer of {self._ours}", self._last_waits(), KINESIS)
        except (StreamRefused, StreamUnavailable) as exc:
            log.error("fan_out_consumer_left", consumer=self._ours, error=str(exc), next_step=_LOOK)  # noqa: TRY400 - no defect
        self._ours = None

    def _find(self, stream_arn: str) -> str:
        """Return the consumer's ARN once it is active; register it if there is none."""
        is_arn = CONSUMER_ARN.fullmatch(self._asked) is not None
        if is_arn and not self._asked.startswith(f"{stream_arn}/consumer/"):
            raise StreamRefused(
                f"{self._asked} is not a consumer of {stream_arn}", next_step="name one of --stream-fan-out's stream"
            )
        waits = self._waits()
        state = "was not registered"
        while True:
            found = self._look(stream_arn, by_arn=is_arn)
            if found is not None and found.status == "ACTIVE":
                if not is_arn and found.arn != self._ours:
                    self._tell(found.arn)
                return found.arn
            if is_arn and (found is None or found.status == "DELETING"):
                raise StreamRefused(f"there is no consumer {self._asked}", next_step="name one that is registered")
            state = self._register(stream_arn) or state if found is None else f"stayed {found.status}"
            if not waits.wait():
                raise StreamUnavailable(
                    f"the consumer {self._asked} of {stream_arn} {state}",
                    next_step="look at the stream's consumers: it may have 20, and 5 that are being created",
                )

    def _tell(self, arn: str) -> None:
        if self._in_doubt:
            return  # said at the end
        structlog.get_logger().warning(
            "fan_out_consumer_found",
            consumer=arn,
            next_step="it was registered before this run, which will leave it: if a run that was killed left it, "
            "deregister it, because it costs by the hour",
        )

    def _look(self, stream_arn: str, *, by_arn: bool) -> _Consumer | None:
        """Return the consumer as it is; None where there is none."""

        def request() -> _Consumer | None:
            try:
                answer = (
                    self._client.describe_stream_consumer(ConsumerARN=self._asked)
                    if by_arn
                    else self._client.describe_stream_consumer(StreamARN=stream_arn, ConsumerName=self._asked)
                )
            except ClientError as exc:
                if error_code(exc) == "ResourceNotFoundException":
                    return None
                raise
            found = answer["ConsumerDescription"]
            return _Consumer(found["ConsumerARN"], found["ConsumerStatus"])

        return ask(request, f"DescribeStreamConsumer of {self._asked}", self._waits(), KINESIS)

    def _register(self, stream_arn: str) -> str:
        """Register the consumer; returns why it is not, empty where it is. Sent once: who asks looks before the next.

        Raises:
            StreamRefused: the stream is gone, or the right to register is missing.
        """
        before, self._in_doubt = self._in_doubt, True  # whatever ends this, the run's end tells what nobody knows
        try:
            answer = self._client.register_stream_consumer(StreamARN=stream_arn, ConsumerName=self._asked)
        except (ClientError, BotoCoreError) as exc:
            if not is_passing(exc):
                self._in_doubt = before
                message = f"RegisterStreamConsumer of {self._asked}: {exc}"
                raise StreamRefused(message, next_step=KINESIS.refused_step) from exc
            self._in_doubt = before or error_code(exc) not in _NOT_APPLIED
            return f"could not be registered: {exc}"
        self._ours, self._in_doubt = answer["Consumer"]["ConsumerARN"], False
        return ""

    def _deregister(self) -> None:
        try:
            self._client.deregister_stream_consumer(ConsumerARN=self._ours or "")
        except ClientError as exc:
            if error_code(exc) != "ResourceNotFoundException":  # somebody else has done it, or an answer was lost
                raise


_LOOK: Final = "see aws kinesis list-stream-consumers, and deregister what nobody uses: it costs by the hour"
