"""The producer of a chaos run: a steady trickle of odd records, each noted with the position that Kinesis gave it.

Batches are small: kinesis-local compares each record of a batch with all that its shard holds.
"""

import random
import threading
from collections.abc import Callable
from typing import Final

from minutebook.errors import MinutebookError
from tests.witness.ledger import Producer, Sent

_BATCH: Final = 6
_AGGREGATE_EVERY: Final = 25
"""Batches between two KPL aggregates."""
_AGGREGATE: Final = 30
_WORDS: Final = ("p", "café", "日本", "a b", "😀", "\\u0000", '"')


class Feeder(threading.Thread):
    """Puts about `rate` records a second until `stop`. An error is kept for `check`.

    `count` is the number of acknowledged user records.
    """

    def __init__(self, producer: Producer, rng: random.Random, rate: float) -> None:
        super().__init__(name="feeder", daemon=True)
        self._producer = producer
        self._rng = rng
        self._pause = (1 + _BATCH) / 2 / rate
        self._stop_asked = threading.Event()
        self._error: Exception | None = None

    @property
    def count(self) -> int:
        """Records acknowledged so far."""
        return len(self._producer.ledger)

    def run(self) -> None:
        """Feed."""
        try:
            batches = 0
            while not self._stop_asked.wait(self._pause):
                batches += 1
                self._next_put(is_aggregate=batches % _AGGREGATE_EVERY == 0)()
        except Exception as exc:  # noqa: BLE001 - handed to the main thread, which raises it
            self._error = exc

    def stop(self) -> None:
        """Stop after the put that is under way, and wait for it."""
        self._stop_asked.set()
        if self.is_alive():
            self.join()

    def check(self) -> None:
        """Raise the error that ended the thread, if any."""
        if self._error is not None:
            raise MinutebookError(f"the feeder failed: {self._error}") from self._error

    def _next_put(self, *, is_aggregate: bool) -> Callable[[], object]:
        if is_aggregate:
            key = self._key()  # one for all: an aggregate belongs to one shard
            return lambda: self._producer.put_aggregate([Sent(key, self._payload()) for _ in range(_AGGREGATE)])
        records = [Sent(self._key(), self._payload()) for _ in range(self._rng.randint(1, _BATCH))]
        return lambda: self._producer.put(records)

    def _key(self) -> str:
        return f"{self._rng.choice(_WORDS)}-{self._rng.randrange(10_000)}"

    def _payload(self) -> bytes:
        size = self._rng.choice((0, 1, 20, 80, 300))
        return self._rng.randbytes(size) if self._rng.random() < 0.3 else f'{{"n":"{"x" * size}"}}'.encode()
