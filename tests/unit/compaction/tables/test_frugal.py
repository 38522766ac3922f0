"""Which manifests a view of a day reads, and which entries it takes."""

from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table import ManifestGroupPlanner

from compaction.tables.frugal import DayPlanner

ENTRY: Any = object()


def _manifest(name: str, sequence: int, content: ManifestContent = ManifestContent.DATA) -> ManifestFile:
    return ManifestFile.from_args(
        manifest_path=name, content=content, sequence_number=sequence, min_sequence_number=sequence
    )


class Store:
    """What the planner asks a table's files."""

    def __init__(self) -> None:
        self.gone = set[str]()

    def new_input(self, name: str) -> SimpleNamespace:
        """Return a file."""
        return SimpleNamespace(exists=lambda: name not in self.gone)


class Planner(DayPlanner):
    """Plans without a table. Summaries of manifests named `other` name no file of the day."""

    def __init__(self, known: dict[str, list[Any] | None], store: Store | None = None) -> None:
        nothing: Any = None
        files: Any = store or Store()
        super().__init__(nothing, files, AlwaysTrue(), known)

    def _build_manifest_evaluator(self, spec_id: int) -> Callable[[ManifestFile], bool]:
        del spec_id
        return lambda manifest: not manifest.manifest_path.startswith("other")

    def entries(self, *manifests: ManifestFile) -> list[list[Any]]:
        """Return the entries of the day."""
        return [*self.plan_manifest_entries(manifests)]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of manifests that were read; each has one entry of the day, but for those named `deleted`."""
    read = list[str]()

    def entries(_: object, manifests: Iterable[ManifestFile]) -> Iterator[list[Any]]:
        for each in manifests:
            read.append(each.manifest_path)
            yield [] if each.manifest_path.startswith("deleted") else [ENTRY]

    monkeypatch.setattr(ManifestGroupPlanner, "plan_manifest_entries", entries)
    return read


def test_a_manifest_is_read_once(read: list[str]) -> None:
    """One without files of the day never; what the table does not name any more is forgotten."""
    known: dict[str, list[Any] | None] = {}
    first = [_manifest("a", 1), _manifest("other", 2)]
    assert Planner(known).entries(*first) == [[ENTRY]]
    assert Planner(known).entries(*first, _manifest("b", 3)) == [[ENTRY], [ENTRY]]
    assert sorted(read) == ["a", "b"]
    assert Planner(known).entries(_manifest("b", 3)) == [[ENTRY]]
    assert (known.keys(), len(read)) == ({"b"}, 2)


def test_a_manifest_that_is_gone_is_read_again(read: list[str]) -> None:
    """Which is an error: no reader can read the table."""
    known: dict[str, list[Any] | None] = {}
    store = Store()
    Planner(known, store).entries(_manifest("a", 1), _manifest("b", 2))
    store.gone.add("a")
    Planner(known, store).entries(_manifest("a", 1), _manifest("b", 2))
    assert sorted(read) == ["a", "a", "b"]


def test_deletes_count_that_are_younger_than_some_data(read: list[str]) -> None:
    """Also where only younger data are new. Those older than all data of the day delete nothing of it."""
    known: dict[str, list[Any] | None] = {}
    data, other = _manifest("data", 5), _manifest("other", 1)
    assert Planner(known).entries(data, other) == [[ENTRY]]
    old, young = (_manifest(f"deletes-{number}", number, ManifestContent.DELETES) for number in (4, 7))
    assert Planner(known).entries(data, other, _manifest("new", 9), old, young) == [[ENTRY], [ENTRY], [ENTRY]]
    assert {"deletes-4", "deletes-7"} < {*read}


def test_deletes_of_a_day_without_rows_count_no_more(read: list[str]) -> None:
    """Somebody has deleted all files of it: an old equality delete, which pyiceberg refuses, holds no new rows."""
    old, gone = _manifest("deletes", 4, ManifestContent.DELETES), _manifest("deleted", 5)
    assert Planner({}).entries(gone, old) == [[]]
    assert sorted(read) == ["deleted", "deletes"]
