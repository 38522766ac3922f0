"""Which earlier metadata files of a table must be read to know all of its snapshots."""

import random
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO

from compaction.tables.formers import FormerMetadata, TornMetadataError, read_former, telling

VERSION = 2
_HOW = {"commit": (1, 0, 0), "several": (3, 0, 0), "at once": (1, 1, 0), "skip": (1, 0, 2), "nothing": (0, 0, 0)}
"""Snapshots made, snapshots gone, numbers left out."""


class Past:
    """The metadata files of a table, as others changed it: snapshots by id, and the last number given out."""

    def __init__(self) -> None:
        self.files: list[tuple[int, dict[int, int]]] = [(0, {})]
        self.given = 0
        self.reads: list[int] = []
        self.statistics: dict[int, str] = {}

    def change(self, *, made: int = 0, gone: int = 0, skipped: int = 0) -> None:
        """Make snapshots, then let the oldest go; an engine may leave numbers out."""
        last, snapshots = self.files[-1]
        for _ in range(made):
            self.given += 1
            last += 1
            snapshots = {**snapshots, 10**6 + self.given: last}
        for oldest in sorted(snapshots)[:gone]:
            snapshots = {each: number for each, number in snapshots.items() if each != oldest}
        self.files.append((last + skipped, snapshots))

    def file(self, at: int, version: int = VERSION) -> FormerMetadata:
        """Return a file."""
        last, snapshots = self.files[at]
        texts = [
            msgspec.Raw(msgspec.json.encode({"snapshot-id": each, "sequence-number": number}))
            for each, number in snapshots.items()
        ]
        made = FormerMetadata(at, version, None, last, (), tuple(texts))
        if at in self.statistics:
            path = {"statistics-path": self.statistics[at]}
            made.statistics = msgspec.convert([path], type(made).__annotations__["statistics"])
        return made

    def told(self, gone: frozenset[int] = frozenset(), version: int = VERSION) -> set[int]:
        """Return the snapshots that the files tell that were read, and those of the current one."""

        def read(uri: str) -> FormerMetadata | None:
            self.reads.append(int(uri))
            return None if int(uri) in gone else self.file(int(uri), version)

        current = FormerCurrent(self.file(len(self.files) - 1, version))
        uris = [str(at) for at in range(len(self.files) - 1)]
        found = telling(uris, read, cast("Any", current))
        return {each.snapshot_id for former in found for each, _ in former.by_snapshot()} | set(self.files[-1][1])

    def all(self, gone: frozenset[int] = frozenset()) -> set[int]:
        """Return the snapshots of all files."""
        return {each for at, (_, snapshots) in enumerate(self.files) if at not in gone for each in snapshots}


class FormerCurrent:
    """A file as pyiceberg has it."""

    def __init__(self, former: FormerMetadata) -> None:
        self.format_version = former.format_version
        self.last_sequence_number = former.last_sequence_number
        self.snapshots = [each for each, _ in former.by_snapshot()]
        self.statistics = former.statistics or ()
        self.partition_statistics = former.partition_statistics or ()


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([1, 2]))
def test_no_snapshot_is_overlooked(seed: int, version: int) -> None:
    """Whatever was made, expired or left out, and whichever files are gone. Each file is made of the one before."""
    rng, past = random.Random(seed), Past()
    for _ in range(rng.randrange(60)):
        kind = rng.choice(["commit"] * 6 + ["expire", "expire", "several", "at once", "skip", "nothing"])
        made, gone, skipped = _HOW.get(kind, (0, rng.randrange(1, 20), 0))
        past.change(made=made, gone=gone, skipped=skipped)
    lost = frozenset(at for at in range(len(past.files) - 1) if rng.random() < 0.1)
    assert past.told(lost, version) == past.all(lost)


def test_a_week_of_minutes_takes_few_reads() -> None:
    """Ten thousand commits, of which an hourly expiry keeps three hours."""
    past = Past()
    for minute in range(1, 10_081):
        past.change(made=1)
        if minute % 60 == 0:
            past.change(gone=max(0, len(past.files[-1][1]) - 180))
    assert past.told() == past.all()
    assert len(past.reads) < 200


def test_a_number_that_was_given_twice_is_not_believed() -> None:
    """A client may make a snapshot without a parent, and the numbers begin anew."""
    past = Past()
    past.change(made=4)
    past.files.append((0, past.files[-1][1]))
    past.change(made=1)
    root = max(past.files[-1][1])
    past.change(made=5)
    past.files.append((past.files[-1][0], {each: at for each, at in past.files[-1][1].items() if each != root}))
    assert root not in past.files[-1][1]
    assert past.told() == past.all()


def test_statistics_that_were_replaced_are_found() -> None:
    """They take no number."""
    past = Past()
    past.change(made=3)
    for _ in range(40):
        past.change()
    past.statistics = {at: "a" if at < 20 else "b" for at in range(2, len(past.files))}
    found = telling(
        [str(at) for at in range(len(past.files) - 1)],
        lambda uri: past.file(int(uri)),
        cast("Any", FormerCurrent(past.file(len(past.files) - 1))),
    )
    assert {path for former in found for path in former.statistics_paths} == {"a", "b"}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b'{"last-updated-ms": 1, "snapshots": [{"sequence-number": 1}]}', ValueError),
        (b'{"last-updated-ms": 1, "snapshots": [{"snapshot-id": 1, "sequence-number": null}]}', ValueError),
        (b'{"last-updated-ms": 1, "snapshots": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", ValueError),
        (b'{"last-updated-ms": 1, "snap', TornMetadataError),
        (b"", TornMetadataError),
        (b"<xml/>", ValueError),
    ],
)
def test_what_is_no_metadata_raises_when_it_is_read(tmp_path: Path, text: bytes, error: type[Exception]) -> None:
    """And not when its snapshots are asked for, where nobody knows the file."""
    path = tmp_path / "a.metadata.json"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=r".") as caught:
        read_former(PyArrowFileIO(), str(path))
    assert type(caught.value) is error
