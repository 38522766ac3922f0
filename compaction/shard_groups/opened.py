"""Open the store in a task."""

from typing import Final

from minutebook.store.places import open_retrying
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address

_BUDGET_SECONDS: Final = 180


def open_in_task(address: Address) -> RetryingStorage:
    """Return the storage at an address; each request is retried for three minutes."""
    return open_retrying(address, _BUDGET_SECONDS)
