"""Fetching: objects' bodies in order, the next ones on their way while the caller reads."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, NamedTuple

from archive.clock import SystemClock, new_random
from archive.retry import Backoff, until_known
from archive.store.storage import ObjectChanged, Storage
from compaction.tasks.plan import Piece

FETCHES: Final = 8
"""Requests at once."""
_AHEAD_BYTES: Final = 6 << 20
"""Compressed bytes that are fetched ahead of the reader; the next object always is, however large."""
_BUDGET_SECONDS: Final = 180


class Body(NamedTuple):
    """An object's user metadata and its bytes, which are let go as they are read."""

    metadata: Mapping[str, str]
    chunks: deque[bytes]

    def drain(self) -> Iterator[bytes]:
        """Yield the bytes; they can be read once."""
        while self.chunks:
            yield self.chunks.popleft()


class Fetched(NamedTuple):
    """A piece and its body; None when it is another object by now."""

    piece: Piece
    body: Body | None


def fetch_ahead(pool: ThreadPoolExecutor, storage: Storage, pieces: Sequence[Piece]) -> Iterator[Fetched]:
    """Yield bodies in the order of `pieces`.

    Raises:
        StoreUnavailable, StoreRefused: the store.
    """
    waiting = deque(pieces)
    flying: deque[tuple[Piece, Future[Body | None]]] = deque()
    ahead = 0

    def send() -> None:
        nonlocal ahead
        while waiting and (not flying or (ahead + waiting[0].size <= _AHEAD_BYTES and len(flying) < 2 * FETCHES)):
            piece = waiting.popleft()
            ahead += piece.size
            flying.append((piece, pool.submit(_fetch, storage, piece)))

    send()
    while flying:
        piece, future = flying.popleft()
        body = future.result()
        ahead -= piece.size
        send()
        yield Fetched(piece, body)


def _fetch(storage: Storage, piece: Piece) -> Body | None:
    """Read one object, again and again while the outcome is unknown.

    A read may be repeated at will: the ETag makes sure that all attempts see the same bytes.
    """

    def attempt() -> Body | None:
        try:
            body = storage.open_read(piece.key, piece.etag)
            return Body(body.metadata, deque(body.chunks))
        except ObjectChanged:
            return None

    waits = Backoff(SystemClock(), new_random(), budget_seconds=_BUDGET_SECONDS)
    return until_known(attempt, waits, f"GET {piece.key}")
