"""A process that follows a world's archive, by requests that may be interrupted."""

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from compaction.follow.day import FollowedTable, FollowPorts
from compaction.tasks.task import Order, TaskResult
from minutebook.retry import Backoff
from minutebook.store.places import StorePrefix
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address
from tests.corpus.auditing import in_process
from tests.corpus.model import PREFIX
from tests.lives.night import Site
from tests.lives.store import InterruptedStorage, Interruptions

T = TypeVar("T")
_IDS: Final = itertools.count(1)


class Between(Interruptions):
    """Interruptions that are exchanged for each tick of a process."""

    def __init__(self) -> None:
        super().__init__()
        self._now = Interruptions()

    def use(self, now: Interruptions) -> None:
        """Let these come between the requests from now on."""
        self._now = now

    def send(self, request: Callable[[], T]) -> T:
        """Make a request."""
        return self._now.send(request)


def follow_ports(site: Site, table: FollowedTable, between: Interruptions) -> FollowPorts:
    """Return what a process works with that follows a site's world into a table."""
    world = site.world

    def engine(orders: Sequence[Order]) -> list[TaskResult]:
        results: list[TaskResult] = between.send(lambda: in_process(orders))
        site.stamp_files()
        return results

    def opened(storage: Any) -> RetryingStorage:  # noqa: ANN401 - a stamped directory of either kind
        waits = lambda: Backoff(world.clock, random.Random(1), budget_seconds=10)  # noqa: E731 - one line
        return RetryingStorage(InterruptedStorage(storage, between), waits, lambda work, items: [*map(work, items)])

    place = StorePrefix(Address(None, str(world.store.root)), PREFIX)
    return FollowPorts(
        opened(world.store),
        place,
        opened(site.out),
        site.place,
        world.clock,
        lambda: f"{next(_IDS):012d}",
        engine,
        table,
    )
