"""What is read of a published day, when a store answers badly."""

from pathlib import Path

import pytest

from minutebook.errors import FormatError
from minutebook.format.day import Day
from minutebook.published.generation import DayFolder
from minutebook.published.reading import PublishedReader
from minutebook.retry import backoff_within
from minutebook.store.directory_storage import DirectoryStorage
from minutebook.store.objects import StoredObject
from minutebook.store.retrying import RetryingStorage
from tests.fakes.published_day import published_objects

FOLDER = DayFolder("out/", Day.parse("2026-11-20"))


class _Short(DirectoryStorage):
    """Gives half of an object so many times before it gives the whole."""

    def __init__(self, root: Path, times: int) -> None:
        super().__init__(root)
        self._times = times
        self._given: dict[str, int] = {}

    def get(self, key: str) -> StoredObject | None:
        """Read, and cut."""
        stored, given = super().get(key), self._given.get(key, 0)
        self._given[key] = given + 1
        if stored is None or given >= self._times:
            return stored
        return stored._replace(body=stored.body[: len(stored.body) // 2])


def _reader(root: Path, times: int) -> PublishedReader:
    storage = _Short(root, times)
    for key, body in published_objects("out/", "2026-11-20", [], "1" * 16, "clean").items():
        storage.put_if_absent(key, body, {}, "application/json")
    return PublishedReader(RetryingStorage(storage, backoff_within(5)), FOLDER)


def test_a_pointer_and_a_manifest_that_are_read_short_once_are_read_again(tmp_path: Path) -> None:
    """Nobody is told to restore an object that is whole."""
    pointer, manifest = _reader(tmp_path, 1).published()
    assert pointer is not None
    assert manifest is not None
    assert manifest.rows == pointer.rows == 7


def test_a_pointer_that_stays_short_is_damaged(tmp_path: Path) -> None:
    """As before."""
    with pytest.raises(FormatError, match="does not parse") as raised:
        _reader(tmp_path, 9).published()
    assert raised.value.next_step == "restore the object from a version of it"
