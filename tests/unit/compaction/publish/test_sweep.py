"""Marks of tables: they stay while a table, or a run at work, may name the files of their generation."""

import os
import random
from pathlib import Path

import pytest

from compaction.publish.sweep import TableMarks
from minutebook.retry import Backoff
from minutebook.store.directory_storage import DirectoryStorage
from minutebook.store.retrying import RetryingStorage
from tests.fakes.clock import START_MS, ManualClock

FOLDER = "dt=2026-11-20/_tables/"


class Shelf:
    """Marks in a folder, each written at a time."""

    def __init__(self, root: Path) -> None:
        clock = ManualClock()
        self.root = root
        self._storage = RetryingStorage(
            DirectoryStorage(root), lambda: Backoff(clock, random.Random(1), budget_seconds=10)
        )
        self.marks = TableMarks(self._storage, FOLDER)

    def put(self, generation: str, table: str, run: str, at_ms: int) -> None:
        """Write a mark."""
        before = self.names()
        self.marks.put(generation, table, run, b"{}")
        for name in self.names() - before:
            os.utime(self.root / FOLDER / name, ns=(at_ms * 1_000_000,) * 2)

    def names(self) -> set[str]:
        """Return the marks that are there."""
        return {key.removeprefix(FOLDER) for key in self._storage.keys(FOLDER)}


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    """Return no marks."""
    return Shelf(tmp_path)


def test_old_marks_of_other_generations_go(shelf: Shelf) -> None:
    """Those of the table alone; the generation that it holds stays marked."""
    shelf.put("old", "t1", "a", START_MS - 2)
    shelf.put("old", "t2", "a", START_MS - 2)
    shelf.put("new", "t1", "b", START_MS - 2)
    shelf.marks.keep_only("new", {"t1"}, START_MS)
    assert shelf.names() == {"old.t2.a.json", "new.t1.b.json"}
    assert shelf.marks.generations() == {"old", "new"}


def test_a_young_mark_stays(shelf: Shelf) -> None:
    """Its run has looked at the table, and is about to commit."""
    shelf.put("next", "t1", "b", START_MS)
    shelf.marks.keep_only("new", {"t1"}, START_MS)
    assert shelf.marks.generations() == {"next"}


def test_a_mark_is_new_each_time(shelf: Shelf) -> None:
    """A generation that comes again is held by the mark of now, whatever became of the one of then."""
    shelf.put("back", "t1", "a", START_MS - 2)
    shelf.put("back", "t1", "b", START_MS)
    shelf.marks.keep_only("new", {"t1"}, START_MS)
    assert shelf.names() == {"back.t1.b.json"}


def test_a_mark_of_an_earlier_version_is_one(shelf: Shelf) -> None:
    """It had no name of a run."""
    shelf.put("old", "t1", "a", START_MS - 2)
    (shelf.root / FOLDER / "old.t1.a.json").rename(shelf.root / FOLDER / "old.t1.json")
    assert shelf.marks.generations() == {"old"}
    os.utime(shelf.root / FOLDER / "old.t1.json", ns=((START_MS - 2) * 1_000_000,) * 2)
    shelf.marks.keep_only("new", {"t1"}, START_MS)
    assert shelf.names() == set()
