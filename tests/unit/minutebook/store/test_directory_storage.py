"""A directory as a store: nothing outside its root is read, written or deleted."""

import errno
import hashlib
import itertools
import os
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from minutebook.errors import StoreRefused, StoreUnavailable
from minutebook.retry import Backoff
from minutebook.store.directory_storage import _WRITING, METADATA_SUFFIX, DirectoryStorage
from minutebook.store.objects import ListedObject
from minutebook.store.retrying import RetryingStorage
from tests.fakes.clock import ManualClock


def no_waits() -> Backoff:
    """Return no second attempt: a directory answers at once."""
    return Backoff(ManualClock(), random.Random(1), budget_seconds=0)


REQUESTS: dict[str, Callable[[DirectoryStorage, str], object]] = {
    "put_if_absent": lambda storage, key: storage.put_if_absent(key, b"x", {}, "text/plain"),
    "put_if_match": lambda storage, key: storage.put_if_match(key, b"x", None, "text/plain"),
    "head": lambda storage, key: storage.head(key),
    "get": lambda storage, key: storage.get(key),
    "list_objects": lambda storage, key: list(storage.list_objects(f"{key}/")),
    "list_level": lambda storage, key: storage.list_level(f"{key}/"),
    "delete": lambda storage, key: storage.delete([key]),
    "open_read": lambda storage, key: storage.open_read(key, None),
    "read_tail": lambda storage, key: storage.read_tail(key, 8),
    "open_write": lambda storage, key: storage.open_write(key, "text/plain", no_waits),
}


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("key", ["{outside}", "../outside", "a/../../outside"])
def test_a_key_never_leads_out_of_the_root(tmp_path: Path, name: str, key: str) -> None:
    """Absolute keys and `..` are refused by every request, and the file outside stays as it is."""
    outside = tmp_path / "outside"
    outside.write_bytes(b"theirs")
    storage = DirectoryStorage(tmp_path / "root")
    with pytest.raises(StoreRefused, match="leads out"):
        REQUESTS[name](storage, key.format(outside=outside))
    assert outside.read_bytes() == b"theirs"


def test_two_dots_inside_a_name_are_a_name(tmp_path: Path) -> None:
    """Only a whole part `..` climbs."""
    storage = DirectoryStorage(tmp_path)
    storage.put_if_absent("a..b/..c", b"x", {}, "text/plain")
    assert [row.key for row in storage.list_objects("a..b/")] == ["a..b/..c"]


def test_a_tag_belongs_to_the_bytes_that_come_with_it(tmp_path: Path) -> None:
    """Another process replaces the file meanwhile: with its tag the bytes of before would be put back over it."""
    storage, is_over = DirectoryStorage(tmp_path), threading.Event()
    storage.put_if_absent("pointer", b"0", {}, "")

    def replace() -> None:
        for number in itertools.takewhile(lambda _: not is_over.is_set(), itertools.count(1)):
            head = storage.head("pointer")
            assert head is not None
            assert storage.put_if_match("pointer", str(number).encode(), head.etag, "")

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(replace)
        read = [storage.get("pointer") for _ in range(1_000)]
        is_over.set()
        other.result()
    tags = [
        None if each is None else f'"{hashlib.md5(each.body, usedforsecurity=False).hexdigest()}"' for each in read
    ]
    assert [None if each is None else each.etag for each in read] == tags


@pytest.mark.parametrize("damage", [b"", b"{", b'{"a": 1}', b'{"a": "\xff"}', b"\xef\xbb\xbf{}", b"[]"])
def test_damaged_metadata_are_named(tmp_path: Path, damage: bytes) -> None:
    """They lie in a file of their own, which somebody may copy, cut or edit."""
    storage = DirectoryStorage(tmp_path)
    storage.put_if_absent("a/b", b"x", {"c": "d"}, "text/plain")
    (row,) = storage.list_objects("a/")
    beside = tmp_path / f"a/b{METADATA_SUFFIX}"
    assert storage.open_read("a/b", row.etag).metadata == {"c": "d"}
    beside.write_bytes(damage)
    for ask in (lambda: storage.head("a/b"), lambda: storage.get("a/b"), lambda: storage.open_read("a/b", row.etag)):
        with pytest.raises(StoreRefused, match=METADATA_SUFFIX) as caught:
            ask()
        assert caught.value.next_step


class Swept(DirectoryStorage):
    """Somebody deletes a file while it is listed, once."""

    def _row(self, entry: "os.DirEntry[str] | Path", key: str) -> ListedObject:
        if entry.name == "going":
            Path(entry).unlink()
        return super()._row(entry, key)


@pytest.mark.parametrize("asked", ["list", "level"])
def test_a_file_that_goes_while_it_is_listed_is_not_there(tmp_path: Path, asked: str) -> None:
    """A run publishes or sweeps beside us: the look is taken again."""
    for name in ("going", "staying"):
        DirectoryStorage(tmp_path).put_if_absent(f"a/{name}", b"x", {}, "text/plain")
    storage = RetryingStorage(Swept(tmp_path), lambda: Backoff(ManualClock(), random.Random(1), budget_seconds=5))
    rows = storage.list_level("a/").objects if asked == "level" else storage.list_objects("a/")
    assert [row.key for row in rows] == ["a/staying"]


@pytest.mark.parametrize("request_", ["open_write", "put_if_absent", "put_if_match"])
def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path, request_: str) -> None:
    """A file where a folder should be, as `--out /etc/hostname`."""
    (tmp_path / "file").touch()
    storage = DirectoryStorage(tmp_path / "file" / "out")
    with pytest.raises(StoreRefused, match=r"file/out.*cannot be written: Not a directory"):
        REQUESTS[request_](storage, "a/b")


def test_a_full_disk_is_named_and_may_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In each write: of a whole object, and of one that is written in parts."""
    storage = DirectoryStorage(tmp_path)
    (tmp_path / f"full{_WRITING}").symlink_to("/dev/full")
    with pytest.raises(StoreUnavailable, match=f"{tmp_path}/full: No space left"):
        storage.put_if_match("full", b"body", None, "x/y")
    sink = storage.open_write("full", "x/y", no_waits)
    with pytest.raises(StoreUnavailable, match=f"{tmp_path}/full: No space left"):
        sink.write(b"x" * (1 << 20))
    monkeypatch.setattr(Path, "rename", _refuse_quota)
    with pytest.raises(StoreUnavailable, match="kept: Disk quota exceeded"):
        storage.put_if_absent("kept", b"body", {}, "x/y")


def _refuse_quota(*_: object) -> None:
    raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
