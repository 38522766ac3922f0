"""What the parts of a processor reach the world with, in one value."""

import random
from typing import NamedTuple

from archive.clock import Clock, IdSource
from archive.retry import Backoff
from archive.store.objects import ObjectStore
from archive.store.retrying import RetryingStore
from consumer.settings.settings import Settings
from consumer.stream.port import Stream


class Services(NamedTuple):
    """Settings, services, time, chance and identity of one processor."""

    settings: Settings
    raw_store: ObjectStore
    stream: Stream
    clock: Clock
    rng: random.Random
    new_id: IdSource

    def backoff(self, budget_seconds: float | None = None) -> Backoff:
        """Return the waits of one request to the store, within `storeTimeoutSeconds` unless told."""
        budget = self.settings.store_timeout_seconds if budget_seconds is None else budget_seconds
        return Backoff(self.clock, self.rng, budget_seconds=budget)

    @property
    def store(self) -> RetryingStore:
        """The archive's store; each request has `storeTimeoutSeconds` of its own."""
        return RetryingStore(self.raw_store, self.backoff)

    def store_within(self, budget_seconds: float | None = None) -> RetryingStore:
        """Return the store for several requests that share one budget."""
        backoff = self.backoff(budget_seconds)
        return RetryingStore(self.raw_store, lambda: backoff)
