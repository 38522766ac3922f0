"""Requests in order, the next ones on their way while the caller works on an answer.

Stages are put one behind the other: the answers of LISTs name the objects of GETs. Nothing that is there waits for
what is not: while a LIST is on its way, the answers of GETs are handed out, so that the first line of a long span
does not wait for the second one to be found.
"""

import enum
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")

_FIRST: Final = 2


class NothingYet(enum.Enum):
    """Why there is nothing."""

    NOT_YET = "it is on its way"
    END = "that was all"


class Upcoming(Protocol[T_co]):
    """Gives one after the other."""

    def take(self, *, wait: bool) -> T_co | NothingYet:
        """Return the next one; NOT_YET only to who does not wait."""
        ...


class Ready(Generic[T]):
    """What is there at once; implements `Upcoming`."""

    def __init__(self, items: Iterator[T]) -> None:
        self._items = items

    def take(self, *, wait: bool) -> T | NothingYet:
        """Return the next one."""
        del wait
        return next(self._items, NothingYet.END)


class Ahead(NamedTuple):
    """How far: so many requests, and so many bytes of answers; the next answer always is, however large."""

    requests: int
    size: int


class Requests(Generic[T, U]):
    """The answers to `work`, in the order of the items; implements `Upcoming`.

    Two requests are on their way at first and one more with each answer that is taken: who wants one line causes few.
    What a request raises is raised in its turn.
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
        self._held = 0
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
        self._held -= self._size_of(item)
        self._most = min(self._most + 1, self._ahead.requests)
        return item, answer

    def _send(self, *, wait: bool) -> None:
        while True:
            if self._following is NothingYet.NOT_YET:
                self._following = self._items.take(wait=wait and not self._waiting)
            item = self._following
            if isinstance(item, NothingYet) or not self._has_room(item):
                return
            self._held += self._size_of(item)
            self._waiting.append((item, self._pool.submit(self._work, item)))
            self._following = NothingYet.NOT_YET

    def _has_room(self, item: T) -> bool:
        fits = len(self._waiting) < self._most and self._held + self._size_of(item) <= self._ahead.size
        return fits or not self._waiting


def each(source: Upcoming[T]) -> Iterator[T]:
    """Yield all that a source gives, waiting for each."""
    while not isinstance(found := source.take(wait=True), NothingYet):
        yield found
