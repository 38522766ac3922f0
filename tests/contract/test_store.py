"""The store port: one suite, on the fake and on a real server through the archive's own S3 client."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING, Protocol

import pytest

from minutebook.clock import SystemClock, new_id
from minutebook.errors import StoreRefused
from minutebook.store.directory_storage import DirectoryStorage
from minutebook.store.objects import ObjectStore, PutOutcome
from minutebook.store.s3 import S3Store
from minutebook.store.s3_storage import S3Storage
from tests.fakes.memory_store import MemoryBucket, MemoryStore
from tests.witness.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from minutebook.store.storage import Storage

TYPE = "application/gzip"
WALL = SystemClock()


class Place(Protocol):
    """A bucket of either kind, seen from behind the port."""

    def client(self) -> ObjectStore:
        """Return one more client of the bucket."""
        ...

    def delete(self, key: str) -> None:
        """Delete behind everybody's back."""
        ...


class _Memory:
    def __init__(self) -> None:
        self._bucket = MemoryBucket()

    def client(self) -> ObjectStore:
        return MemoryStore(self._bucket)

    def delete(self, key: str) -> None:
        self._bucket.delete(key)


class _Server:
    def __init__(self, make: Callable[[], S3Store]) -> None:
        self._make = make

    def client(self) -> ObjectStore:
        return self._make()

    def delete(self, key: str) -> None:
        store = self._make()
        store._client.delete_object(Bucket=store.bucket, Key=key)


@pytest.fixture(params=["fake", "server"])
def place(request: pytest.FixtureRequest) -> Place:
    """Return an empty bucket of each kind."""
    if request.param == "fake":
        return _Memory()
    aws, bucket = request.getfixturevalue("embedded_aws"), request.getfixturevalue("bucket")
    return _Server(lambda: S3Store(aws.s3_client(), bucket))


@pytest.fixture
def store(place: Place) -> ObjectStore:
    """Return a client of an empty bucket."""
    return place.client()


@pytest.mark.parametrize("kind", ["folder", "server"])
def test_a_list_begins_behind_a_key(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    """Over more than one page, by bytes, below a prefix that need not end with a folder."""
    if kind == "folder":
        storage: Storage = DirectoryStorage(tmp_path)
    else:
        aws, bucket = request.getfixturevalue("embedded_aws"), request.getfixturevalue("bucket")
        storage = S3Storage(aws.s3_client(), bucket)
    for key in [*(f"p/12/{number:04d}" for number in range(1_100)), "p/13/a", "p/13/a.b", "p/20/x", "p/_x", "q"]:
        storage.put_if_absent(key, b"", {}, TYPE)
    keys = [row.key for row in storage.list_after("p/1", "p/12/0002")]
    assert (len(keys), keys[0], keys[-2:]) == (1_099, "p/12/0003", ["p/13/a", "p/13/a.b"])
    assert [row.key for row in storage.list_after("p/", "p/13/")] == ["p/13/a", "p/13/a.b", "p/20/x", "p/_x"]


def test_a_put_makes_an_object(store: ObjectStore) -> None:
    """Body and metadata are read back byte for byte."""
    body = bytes(range(256)) * 50
    fields = {"writer": "w1", "payload-bytes": "7", "first": "49680:0"}
    assert store.put_if_absent("a/b", body, fields, TYPE) is PutOutcome.CREATED
    found = store.get("a/b")
    assert found is not None
    assert (found.body, dict(found.metadata)) == (body, fields)


def test_a_second_put_finds_it_and_changes_nothing(store: ObjectStore) -> None:
    """Neither the body nor the metadata, whoever sends it."""
    store.put_if_absent("k", b"one", {"writer": "1"}, TYPE)
    assert store.put_if_absent("k", b"two", {"writer": "2"}, TYPE) is PutOutcome.EXISTS
    found = store.get("k")
    assert found is not None
    assert (found.body, dict(found.metadata)) == (b"one", {"writer": "1"})


def test_the_same_bytes_again_find_it_too(store: ObjectStore) -> None:
    """Equal content is no licence: a retried PUT is told by its writer alone."""
    store.put_if_absent("k", b"one", {"writer": "1"}, TYPE)
    assert store.put_if_absent("k", b"one", {"writer": "1"}, TYPE) is PutOutcome.EXISTS


def test_of_many_clients_one_wins(place: Place) -> None:
    """Eight at once, on twenty keys: one CREATED each, and the object is the winner's."""
    clients, gate = [place.client() for _ in range(8)], Barrier(8)

    def race(number: int, key: str) -> PutOutcome:
        gate.wait(timeout=PATIENCE_SECONDS)
        return clients[number].put_if_absent(key, b"%d" % number, {"writer": str(number)}, TYPE)

    with ThreadPoolExecutor(8) as pool:
        for round_number in range(20):
            key = f"race/{round_number}"
            outcomes = list(pool.map(race, range(8), [key] * 8))
            assert outcomes.count(PutOutcome.CREATED) == 1
            found = clients[0].get(key)
            assert found is not None
            assert found.body == b"%d" % outcomes.index(PutOutcome.CREATED)


def test_head_tells_what_get_tells(store: ObjectStore) -> None:
    """Size, tag and metadata; the time is now, give or take a clock."""
    store.put_if_absent("k", b"body", {"writer": "w"}, TYPE)
    head, found = store.head("k"), store.get("k")
    assert head is not None
    assert found is not None
    assert (head.key, head.size, head.etag, dict(head.metadata)) == ("k", 4, found.etag, {"writer": "w"})


def test_the_time_of_a_real_object_is_now(place: Place) -> None:
    """Epoch milliseconds, UTC."""
    if isinstance(place, _Memory):
        pytest.skip("the fake lives on a manual clock")
    store = place.client()
    store.put_if_absent("k", b"", {}, TYPE)
    head = store.head("k")
    assert head is not None
    assert abs(head.last_modified_ms - WALL.now_ms()) < 60_000


def test_the_service_tells_its_time(place: Place) -> None:
    """In whole seconds, by the Date of an answer; an empty prefix has one, too."""
    client = place.client()
    if not isinstance(client, S3Store):
        pytest.skip("the fake lives on a manual clock")
    storage = S3Storage(client._client, client.bucket)
    before = WALL.now_ms()
    assert before - 1000 <= storage.now_ms("nothing/here/") <= WALL.now_ms()


def test_what_is_not_there_is_none(store: ObjectStore) -> None:
    """HEAD and GET; a folder is no object."""
    store.put_if_absent("a/b", b"", {}, TYPE)
    for key in ("missing", "a", "a/"):
        assert store.head(key) is None
        assert store.get(key) is None


def test_a_deleted_key_is_free_again(place: Place) -> None:
    """Deleting a raw object re-opens its slot: that is why nobody may."""
    store = place.client()
    store.put_if_absent("k", b"one", {}, TYPE)
    place.delete("k")
    assert store.head("k") is None
    assert store.put_if_absent("k", b"two", {}, TYPE) is PutOutcome.CREATED


def test_an_empty_object_is_an_object(store: ObjectStore) -> None:
    """Zero bytes, no metadata."""
    store.put_if_absent("k", b"", {}, TYPE)
    head = store.head("k")
    assert head is not None
    assert (head.size, dict(head.metadata)) == (0, {})
    assert store.put_if_absent("k", b"", {}, TYPE) is PutOutcome.EXISTS


def test_a_list_is_ordered_and_complete(store: ObjectStore) -> None:
    """Everything under the prefix, by UTF-8 bytes, over several pages of 1,000."""
    keys = sorted(f"p/{number:04d}" for number in range(1005))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: store.put_if_absent(key, b"x", {}, TYPE), ["q/1", "p", *keys, "o/9"]))
    listed = list(store.list_objects("p/"))
    assert [row.key for row in listed] == keys
    assert {row.size for row in listed} == {1}


def test_a_level_holds_folders_and_objects_of_their_own(store: ObjectStore) -> None:
    """What lies directly below a folder, and of what lies deeper the next folder alone."""
    for key in ("p/k", "p/a/1", "p/a/2", "p/b/c/3", "q/4", "p"):
        store.put_if_absent(key, b"x", {}, TYPE)
    level = store.list_level("p/")
    assert level.folders == ("p/a/", "p/b/")
    assert [(row.key, row.size) for row in level.objects] == [("p/k", 1)]


def test_a_list_row_tells_what_head_tells(store: ObjectStore) -> None:
    """Size, tag and time."""
    store.put_if_absent("p/k", b"body", {"writer": "w"}, TYPE)
    (row,), head = list(store.list_objects("p/")), store.head("p/k")
    assert head is not None
    assert (row.key, row.size, row.etag) == (head.key, head.size, head.etag)
    assert abs(row.last_modified_ms - head.last_modified_ms) < 2000


def test_a_list_of_nothing_is_empty(store: ObjectStore) -> None:
    """No object, no error."""
    assert list(store.list_objects("nothing/")) == []


@pytest.mark.parametrize("key", ["a b+c/d=e&f", "caf\u00e9/\u65e5", "a%2Fb", "_shards/x/start.json", "dt=1/x"])
def test_any_key_is_kept_as_it_is(store: ObjectStore, key: str) -> None:
    """No character is lost on the way, also not in a LIST."""
    store.put_if_absent(f"p/{key}", b"x", {}, TYPE)
    assert store.head(f"p/{key}") is not None
    assert [row.key for row in store.list_objects("p/")] == [f"p/{key}"]


def test_metadata_of_almost_two_kilobytes_is_kept(store: ObjectStore) -> None:
    """S3's limit is 2 KB for names and values together."""
    fields = {"watermarks": "x" * 2000}
    store.put_if_absent("k", b"", fields, TYPE)
    head = store.head("k")
    assert head is not None
    assert dict(head.metadata) == fields


def test_metadata_that_is_not_ascii_is_refused(store: ObjectStore) -> None:
    """Before anything is written."""
    with pytest.raises(StoreRefused):
        store.put_if_absent("k", b"", {"writer": "\u65e5"}, TYPE)
    assert store.head("k") is None


def test_a_bucket_that_is_not_there_is_refused(request: pytest.FixtureRequest) -> None:
    """Exit code 2 with a next step, for PUT, GET and LIST alike."""
    aws = request.getfixturevalue("embedded_aws")
    store = S3Store(aws.s3_client(), f"missing-{new_id()[:12]}")
    for ask in (
        lambda: store.put_if_absent("k", b"", {}, TYPE),
        lambda: store.get("k"),
        lambda: list(store.list_objects("p/")),
    ):
        with pytest.raises(StoreRefused, match="NoSuchBucket") as caught:
            ask()
        assert caught.value.next_step
