"""One shard by enhanced fan-out: the service sends its records as events, to a consumer with a throughput of its own.

A subscription ends after five minutes, and is made again at the place where the last whole event ended. So it is
however it ended: the service closed it, somebody else subscribed with the same consumer, the connection was cut
within an event, or an error came that passes. Where nothing comes for the budget of a request, reading ends.

The place is the highest sequence number that the events have named. Whether a record of that number has come, or is
next, the service does not say (AT_SEQUENCE_NUMBER and AFTER_SEQUENCE_NUMBER are both allowed, SubscribeToShardEvent,
API reference). So reading goes on at that number, and what has come before is left out here.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from archive.answers import TornEventsError, read_events
from archive.aws import KINESIS, error_code, is_passing
from archive.clock import Clock
from archive.errors import StreamRefused, StreamUnavailable
from archive.retry import Backoff
from compaction.stream.pages import Asking, Page, date_ms

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient
    from mypy_boto3_kinesis.type_defs import RecordTypeDef

_BETWEEN_SECONDS: Final = 5
"""A second subscription within these is refused (SubscribeToShard, API reference)."""


class _Event(NamedTuple):
    """What an event holds: the records that had not come before, the number that it names, and where it stands."""

    records: list["RecordTypeDef"]
    reached: int
    behind_ms: int
    goes_on: bool
    is_end: bool


class Subscriber:
    """One shard, sent to one registered consumer (`consumer` is its ARN)."""

    def __init__(
        self,
        client: "KinesisClient",
        consumer: str,
        shard_id: str,
        *,
        ask: Asking,
        clock: Clock,
        waits: Callable[[], Backoff],
    ) -> None:
        self._client = client
        self._consumer = consumer
        self._shard_id = shard_id
        self._ask = ask
        self._clock = clock
        self._waits = waits
        self._place: Mapping[str, Any] = {"Type": "TRIM_HORIZON"}
        self._reached = self._last = 0
        self._stream: Any = None
        self._events: Iterator[Mapping[str, Any]] = iter(())
        self._date_ms: int | None = None
        self._sent_at = self._free_at = 0.0
        self._problem = "nothing comes"

    def subscribe(self, place: Mapping[str, Any]) -> int | None:
        """Subscribe from a place on; returns the service's time of the answer, before which no record is promised.

        Raises:
            StreamRefused, StreamUnavailable: Kinesis.
        """
        self._place = place
        self._open()
        return self._date_ms

    def pages(self) -> Generator[Page]:
        """Yield what comes until the shard's end, and end the subscription when nobody wants more.

        Raises:
            StreamRefused: the consumer or the stream is gone, or a key of KMS may not be used.
            StreamUnavailable: nothing came for too long.
        """
        waits: Backoff | None = None  # since the last event that brought anything
        with closing(self):
            while True:
                event = self._next()
                if event is not None and self._is_news(event):
                    waits = None
                    yield self._page(event)
                    if event.is_end:
                        return
                    if event.goes_on:
                        continue
                if waits is None:
                    waits = self._waits()
                if event is not None and event.goes_on and not waits.is_spent:
                    continue
                if not waits.wait():
                    raise StreamUnavailable(
                        f"{self._shard_id} by enhanced fan-out: {self._problem}",
                        next_step=KINESIS.unavailable_step,
                    )
                self._open()

    def close(self) -> None:
        """End the subscription."""
        if self._stream is not None:
            self._stream.close()
        self._stream, self._events = None, iter(())

    def _open(self) -> None:
        self.close()
        left = self._free_at - self._clock.monotonic()
        if left > 0:
            self._clock.sleep(left)

        def request() -> Any:  # noqa: ANN401 - boto3's types know a stream that cannot be closed
            self._sent_at = self._clock.monotonic()
            return self._client.subscribe_to_shard(
                ConsumerARN=self._consumer,
                ShardId=self._shard_id,
                StartingPosition=self._place,  # type: ignore[arg-type] # botocore takes seconds for a time
            )

        answer = self._ask(request, f"SubscribeToShard of {self._shard_id}")
        self._free_at = self._clock.monotonic() + _BETWEEN_SECONDS
        self._date_ms = date_ms(answer)
        self._stream = answer["EventStream"]
        self._events = read_events(self._stream)

    def _next(self) -> _Event | None:
        """Return the next event; None where the subscription has ended, however it did."""
        try:
            for event in self._events:
                if "SubscribeToShardEvent" in event:
                    return self._taken(event["SubscribeToShardEvent"])
        except (ClientError, BotoCoreError) as exc:
            if not is_passing(exc) and not _is_unnamed(exc):
                message = f"{self._shard_id} by enhanced fan-out: {exc}"
                raise StreamRefused(message, next_step=KINESIS.refused_step) from exc
            self._problem = str(exc)
        return None

    def _taken(self, event: Mapping[str, Any]) -> _Event:
        """Read an event; one of another shape is as good as torn."""
        try:
            rows = [(int(record["SequenceNumber"]), record) for record in event["Records"]]
            named, behind_ms = event.get("ContinuationSequenceNumber"), event["MillisBehindLatest"]
            reached = max([int(named or 0), *(sequence for sequence, _ in rows)])
        except (LookupError, TypeError, ValueError) as exc:
            raise TornEventsError(error=f"{type(exc).__name__}: {exc}") from exc
        records = [record for sequence, record in rows if sequence > self._last]
        is_end = bool(event.get("ChildShards"))
        # Only at its end a shard has no place to go on at; what says neither is no end that can be believed.
        return _Event(records, reached, behind_ms, named is not None and not is_end, is_end)

    def _is_news(self, event: _Event) -> bool:
        """Tell whether an event brought anything, and go to where it ends."""
        is_news = bool(event.records) or event.is_end or event.behind_ms == 0 or event.reached > self._reached
        if event.records:
            self._last = int(event.records[-1]["SequenceNumber"])
        if event.reached > self._reached:
            self._reached = event.reached
            self._place = {"Type": "AT_SEQUENCE_NUMBER", "SequenceNumber": str(event.reached)}
        return is_news

    def _page(self, event: _Event) -> Page:
        """Return an event's page: given after the answer was dated, and before now.

        Events are not dated, and may have waited in the connection. A Date has no parts of a second.
        """
        until_ms = None
        if self._date_ms is not None:
            until_ms = self._date_ms + 1000 + int((self._clock.monotonic() - self._sent_at) * 1000) + 1
        return Page(event.records, event.behind_ms, self._date_ms, until_ms)


def _is_unnamed(error: Exception) -> bool:
    """Tell whether the service sent an exception that botocore's model does not know: it loses the code of those.

    The model knows whatever lasts: keys that may not be used, a consumer or stream that is gone. So this may pass.
    """
    return isinstance(error, ClientError) and not error_code(error)
