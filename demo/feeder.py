"""The producer of the demo: puts flights at a steady pace, and some of them twice: at once, late, or on demand.

Putting twice is what producers do when an answer is lost: the stream then holds the same event under two
positions. Both are physical records; which of them belong into the archive, the mode of deduplication says.
"""

import random
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from demo.flights import Event
from demo.ledger import Ledger
from minutebook.clock import Clock
from minutebook.errors import MinutebookError, StreamUnavailable

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

_ATTEMPTS = 20
_PAUSE_SECONDS = 0.2
_RECENT = 100


class Pace(NamedTuple):
    """How much is fed: distinct events, spread evenly over seconds, in batches.

    A share of the batches goes twice at once; of each batch, `late_retries` events go again `late_seconds` later, if
    the feed lasts that long.
    """

    events: int
    seconds: float
    batch: int = 50
    retry_share: float = 0.02
    late_retries: int = 0
    late_seconds: float = 70.0


class Feeder(threading.Thread):
    """Feeds in a thread of its own until all is acknowledged, or `stop` is called.

    Batches are small because kinesis-local compares each record of a batch with all records in its shard. The
    client must have its own retries off: a retry that nobody counts is a record missing in the ledger.
    """

    def __init__(
        self,
        client: "KinesisClient",
        stream: str,
        events: Iterator[Event],
        ledger: Ledger,
        pace: Pace,
        *,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        super().__init__(name="feeder", daemon=True)
        self._client = client
        self._stream = stream
        self._events = events
        self._ledger = ledger
        self._pace = pace
        self._clock = clock
        self._rng = rng
        self._stop_asked = threading.Event()
        self._later: deque[tuple[float, list[Event]]] = deque()
        self._recent: deque[Event] = deque(maxlen=_RECENT)
        self._recent_lock = threading.Lock()
        self._error: Exception | None = None

    def run(self) -> None:
        """Feed; an error is kept for `finish`."""
        try:
            self._feed()
        except Exception as exc:  # noqa: BLE001 - handed to the main thread, which raises it
            self._error = exc

    def stop(self) -> None:
        """Stop after the batch that is under way."""
        self._stop_asked.set()
        if self.is_alive():
            self.join()

    def check(self) -> None:
        """Raise the error that ended the thread, if any."""
        if self._error is not None:
            raise MinutebookError(f"the feeder failed: {self._error}") from self._error

    def retry_recent(self) -> None:
        """Put the last events that were acknowledged again, from the caller's thread.

        Raises:
            StreamUnavailable: the stream refused some of them again and again.
        """
        with self._recent_lock:
            events = list(self._recent)
        if events:
            self._put(events, is_retry=True)

    def feed_more(self, count: int) -> None:
        """Put the next events, once the feed is over, from the caller's thread; raises as `retry_recent`."""
        for _ in range(0, count, self._pace.batch):
            self._put(list(islice(self._events, self._pace.batch)), is_retry=False)

    def sent(self) -> int:
        """Return how many records the stream has acknowledged."""
        return self._ledger.totals().records

    def _feed(self) -> None:
        started = self._clock.monotonic()
        sent = 0
        while sent < self._pace.events and not self._stop_asked.is_set():
            batch = list(islice(self._events, min(self._pace.batch, self._pace.events - sent)))
            if not batch:
                raise MinutebookError(f"there are only {sent} events to feed, not {self._pace.events}")
            self._put(batch, is_retry=False)
            with self._recent_lock:
                self._recent.extend(batch)
            if self._rng.random() < self._pace.retry_share:
                self._put(batch, is_retry=True)
            self._retry_late(batch)
            sent += len(batch)
            due = started + self._pace.seconds * sent / self._pace.events
            self._stop_asked.wait(max(0.0, due - self._clock.monotonic()))

    def _retry_late(self, batch: Sequence[Event]) -> None:
        """Remember some of this batch, and put what is due of earlier ones."""
        now = self._clock.monotonic()
        if self._pace.late_retries:
            self._later.append((now + self._pace.late_seconds, list(batch[: self._pace.late_retries])))
        due: list[Event] = []
        while self._later and self._later[0][0] <= now:
            due += self._later.popleft()[1]
        if due:
            self._put(due, is_retry=True)

    def _put(self, batch: Sequence[Event], *, is_retry: bool) -> None:
        """Put a batch, the refused part of it again, until every record is acknowledged and written down."""
        left = list(batch)
        for _ in range(_ATTEMPTS):
            answer = self._client.put_records(
                StreamName=self._stream,
                Records=[{"Data": event.data, "PartitionKey": event.partition_key} for event in left],
            )
            refused = []
            for event, row in zip(left, answer["Records"], strict=True):
                if row.get("ErrorCode"):
                    refused.append(event)
                else:
                    self._ledger.add(row["ShardId"], row["SequenceNumber"], event, is_retry=is_retry)
            if not refused:
                return
            left = refused
            self._stop_asked.wait(_PAUSE_SECONDS)
        raise StreamUnavailable(f"{len(left)} records of a batch were refused {_ATTEMPTS} times")
