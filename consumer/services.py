"""The services of a processor's parts, in one value."""

import random
from dataclasses import replace
from typing import NamedTuple

from consumer.settings.settings import Settings
from consumer.stream.port import StreamPort
from minutebook.clock import Clock, IdSource
from minutebook.retry import Backoff
from minutebook.store.objects import ObjectStore
from minutebook.store.retrying import RetryingStore


class Services(NamedTuple):
    """Settings, S3, Kinesis, clock, random numbers and ids of one processor."""

    settings: Settings
    raw_store: ObjectStore
    stream: StreamPort
    clock: Clock
    rng: random.Random
    new_id: IdSource

    def backoff(self, budget_seconds: float | None = None) -> Backoff:
        """Return the backoff of one request; the default budget is `storeTimeoutSeconds`."""
        budget = self.settings.store_timeout_seconds if budget_seconds is None else budget_seconds
        return Backoff(self.clock, self.rng, budget_seconds=budget)

    @property
    def store(self) -> RetryingStore:
        """The archive's store; each request has a budget of `storeTimeoutSeconds`."""
        return RetryingStore(self.raw_store, self.backoff)

    def within(self, budget_seconds: float) -> "Services":
        """Return the same services with this retry budget for each request; 0 means one attempt."""
        settings = replace(self.settings, store_timeout_seconds=budget_seconds)
        return self._replace(settings=settings, stream=self.stream.within(budget_seconds))

    def store_within(self, budget_seconds: float | None = None) -> RetryingStore:
        """Return the store for several requests that share one budget."""
        backoff = self.backoff(budget_seconds)
        return RetryingStore(self.raw_store, lambda: backoff)
