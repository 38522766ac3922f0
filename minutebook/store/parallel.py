"""Requests in parallel."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol, TypeVar

T = TypeVar("T")
U = TypeVar("U")

REQUESTS_AT_ONCE: Final = 16
_BATCH: Final = 64


class ReadMany(Protocol):
    """Makes a request for each item, in parallel or sequentially; results keep the order of the items."""

    def __call__(self, work: Callable[[T], U], items: Sequence[T], /) -> list[U]:
        """Return `work(item)` for every item."""


def in_parallel(work: Callable[[T], U], items: Sequence[T], at_once: int = REQUESTS_AT_ONCE) -> list[U]:
    """Return `work(item)` for every item, in order, with `at_once` threads; the first error is raised.

    Threads take batches: a future costs more than an answer from a fast server.
    """
    if len(items) <= 1:
        return [work(item) for item in items]
    step = max(1, min(_BATCH, len(items) // (4 * at_once)))
    batches = [items[start : start + step] for start in range(0, len(items), step)]
    with ThreadPoolExecutor(max_workers=min(at_once, len(batches)), thread_name_prefix="minutebook") as pool:
        return [row for rows in pool.map(lambda batch: [work(item) for item in batch], batches) for row in rows]
