"""The store as a task opens it."""

from typing import Final

from archive.clock import SystemClock, new_random
from archive.retry import Backoff
from archive.store.places import open_storage
from archive.store.retrying import RetryingStorage
from archive.store.storage import Address

_BUDGET_SECONDS: Final = 180


def open_in_task(address: Address) -> RetryingStorage:
    """Return the storage at an address; a worker repeats each of its requests for three minutes."""
    return RetryingStorage(
        open_storage(address), lambda: Backoff(SystemClock(), new_random(), budget_seconds=_BUDGET_SECONDS)
    )
