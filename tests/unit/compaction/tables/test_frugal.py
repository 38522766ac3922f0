"""Which manifests a view of a day reads, and which entries it takes."""

from collections.abc import Iterable, Iterator
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


class Planner(DayPlanner):
    """Plans without a table."""

    def __init__(self, known: dict[str, list[Any]]) -> None:
        nothing: Any = None
        super().__init__(nothing, nothing, AlwaysTrue(), known)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of manifests that were read; each has one entry of the day, but for those named `other`."""
    read = list[str]()

    def entries(_: object, manifests: Iterable[ManifestFile]) -> Iterator[list[Any]]:
        for each in manifests:
            read.append(each.manifest_path)
            yield [] if each.manifest_path.startswith("other") else [ENTRY]

    monkeypatch.setattr(ManifestGroupPlanner, "plan_manifest_entries", entries)
    return read


def test_a_manifest_is_read_once(read: list[str]) -> None:
    """Also one without files of the day; what the table does not name any more is forgotten."""
    known: dict[str, list[Any]] = {}
    first = [_manifest("a", 1), _manifest("other", 2)]
    assert [*Planner(known).plan_manifest_entries(first)] == [[ENTRY], []]
    assert [*Planner(known).plan_manifest_entries([*first, _manifest("b", 3)])] == [[ENTRY], [], [ENTRY]]
    assert sorted(read) == ["a", "b", "other"]
    assert [*Planner(known).plan_manifest_entries([_manifest("b", 3)])] == [[ENTRY]]
    assert (known.keys(), len(read)) == ({"b"}, 3)


def test_deletes_count_that_are_younger_than_some_data(read: list[str]) -> None:
    """Also where only younger data are new. Those older than all data of the day delete nothing of it."""
    known: dict[str, list[Any]] = {}
    data, others = _manifest("data", 5), _manifest("other", 1)
    assert [*Planner(known).plan_manifest_entries([data, others])] == [[ENTRY], []]
    old, young = (_manifest(f"deletes-{number}", number, ManifestContent.DELETES) for number in (4, 7))
    new = [data, others, _manifest("new", 9), old, young]
    assert [*Planner(known).plan_manifest_entries(new)] == [[ENTRY], [], [ENTRY], [ENTRY]]
    assert {"deletes-4", "deletes-7"} < {*read}
