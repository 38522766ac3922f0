"""Objects come in order, and the next ones are on their way."""

import random
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from compaction.parquet.fetching import FETCHES, FetchedBody, fetch_ahead
from compaction.parquet.plan import RawObject
from minutebook.format.position import Position
from minutebook.retry import Backoff
from minutebook.store.directory_storage import DirectoryStorage
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import ObjectBody
from tests.fakes.clock import ManualClock

SHARD = "shardId-000000000000"
WAIT_SECONDS = 20


class Recorder(DirectoryStorage):
    """A folder that says which keys were asked for."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.asked: dict[str, threading.Event] = {}

    def store(self, key: str, body: bytes, size: int) -> RawObject:
        """Put an object; `size` is what its listing is to say."""
        self.put_if_absent(key, body, {"name": key}, "")
        self.asked[key] = threading.Event()
        head = self.head(key)
        assert head is not None
        return RawObject(key, head.etag, size, SHARD, 1, Position(1))

    def open_read(self, key: str, etag: str | None) -> ObjectBody:
        """Remember the key."""
        self.asked[key].set()
        return super().open_read(key, etag)


@pytest.fixture
def storage(tmp_path: Path) -> Recorder:
    """Return an empty folder."""
    return Recorder(tmp_path)


def retrying(storage: Recorder) -> RetryingStorage:
    """Return the folder as a task has it."""
    clock = ManualClock()
    return RetryingStorage(storage, lambda: Backoff(clock, random.Random(1), budget_seconds=10))


@pytest.mark.parametrize("size", [1, 5 << 20, 500 << 20])
def test_bodies_come_in_the_order_of_the_pieces(storage: Recorder, size: int) -> None:
    """Whole, with their metadata, whether many or one fit into the budget."""
    objects = [storage.store(f"{number:02}", b"%d" % number * 3, size) for number in range(40)]
    with ThreadPoolExecutor(FETCHES) as pool:
        found = list(fetch_ahead(pool, retrying(storage), objects))
    assert [fetched.raw_object for fetched in found] == objects
    bodies = [fetched.body for fetched in found if fetched.body is not None]
    assert [b"".join(body.drain()) for body in bodies] == [b"%d" % number * 3 for number in range(40)]
    assert [body.metadata for body in bodies] == [{"name": raw_object.key} for raw_object in objects]


def test_the_next_object_is_on_its_way_while_one_is_read(storage: Recorder) -> None:
    """Also when each of them is larger than the whole budget; the one after it is not."""
    objects = [storage.store(key, b"x", 500 << 20) for key in "abc"]
    with ThreadPoolExecutor(FETCHES) as pool:
        fetched = fetch_ahead(pool, retrying(storage), objects)
        assert next(fetched).raw_object.key == "a"
        assert storage.asked["b"].wait(WAIT_SECONDS)
        assert not storage.asked["c"].is_set()
        fetched.close()  # type: ignore[attr-defined]  # a generator


def test_another_object_is_no_body(storage: Recorder) -> None:
    """Its ETag is not the one that was listed."""
    raw_object = storage.store("a", b"x", 1)
    with ThreadPoolExecutor(FETCHES) as pool:
        found = list(fetch_ahead(pool, retrying(storage), [raw_object._replace(etag="other"), raw_object]))
    assert [fetched.body is None for fetched in found] == [True, False]


def test_bytes_are_let_go_as_they_are_read() -> None:
    """What was yielded is held by the reader alone."""
    body = FetchedBody({}, deque([b"a", b"b"]))
    chunks = body.drain()
    assert next(chunks) == b"a"
    assert list(body.chunks) == [b"b"]
