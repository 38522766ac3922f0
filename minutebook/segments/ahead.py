"""Requests in order, with the next ones in progress while the caller works on an answer.

Stages are chained: the answers of LISTs name the objects of GETs. While a LIST is in progress, available answers of
GETs are returned, so the first line of a long span does not wait for the second one.
"""

import enum
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")

_FIRST: Final = 2


class NothingYet(enum.Enum):
    """Why no item is returned."""

    NOT_YET = "the request is in progress"
    END = "there are no more"


class Upcoming(Protocol[T_co]):
    """A source of items in order."""

    def take(self, *, wait: bool) -> T_co | NothingYet:
        """Return the next item; NOT_YET only without `wait`."""


class Ready(Generic[T]):
    """An `Upcoming` of items that need no request."""

    def __init__(self, items: Iterator[T]) -> None:
        self._items = items

    def take(self, *, wait: bool) -> T | NothingYet:
        """Return the next item."""
        del wait
        return next(self._items, NothingYet.END)


class Ahead(NamedTuple):
    """The largest number of requests in progress and bytes of their answers; one request is always allowed."""

    requests: int
    size: int


class Requests(Generic[T, U]):
    """An `Upcoming` of the items with the results of `work`, in order.

    Two requests are in progress at first, and one more with each answer that is taken: a caller that needs one line
    causes few. An error of a request is raised in its turn.
    """

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        items: Upcoming[T],
        work: Callable[[T], U],
        ahead: Ahead,
        size_of: Callable[[T], int] = lambda _: 0,
    ) -> None:
        self._pool = pool
        self._items = items
        self._work = work
        self._ahead = ahead
        self._size_of = size_of
        self._waiting: deque[tuple[T, Future[U]]] = deque()
        self._following: T | NothingYet = NothingYet.NOT_YET
        self._bytes = 0
        self._most = _FIRST

    def take(self, *, wait: bool) -> tuple[T, U] | NothingYet:
        """Return the next item with its answer."""
        self._send(wait=wait)
        if not self._waiting:
            return NothingYet.END if self._following is NothingYet.END else NothingYet.NOT_YET
        if not wait and not self._waiting[0][1].done():
            return NothingYet.NOT_YET
        item, future = self._waiting.popleft()
        answer = future.result()
        self._bytes -= self._size_of(item)
        self._most = min(self._most + 1, self._ahead.requests)
        return item, answer

    def _send(self, *, wait: bool) -> None:
        while True:
            if self._following is NothingYet.NOT_YET:
                self._following = self._items.take(wait=wait and not self._waiting)
            item = self._following
            if isinstance(item, NothingYet) or not self._has_room(item):
                return
            self._bytes += self._size_of(item)
            self._waiting.append((item, self._pool.submit(self._work, item)))
            self._following = NothingYet.NOT_YET

    def _has_room(self, item: T) -> bool:
        fits = len(self._waiting) < self._most and self._bytes + self._size_of(item) <= self._ahead.size
        return fits or not self._waiting


@contextmanager
def request_pool(workers: int) -> Iterator[ThreadPoolExecutor]:
    """Return threads for a block, whose end waits for no request."""
    pool = ThreadPoolExecutor(workers, thread_name_prefix="segments")
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def iterate(source: Upcoming[T]) -> Iterator[T]:
    """Yield all items of a source, waiting for each."""
    while not isinstance(item := source.take(wait=True), NothingYet):
        yield item
