"""A task writes the lines of its objects in their order, whatever reads each of them."""

import gzip
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from compaction.parquet import reading
from compaction.parquet.plan import MergeGroup, RawObject, Task
from compaction.tasks.task import Order, TaskResult, read_objects_whole, run
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.format.record import Record, encode_lines
from minutebook.store.places import open_storage
from minutebook.store.storage import Address
from tests.corpus.auditing import job_context

MINUTE = 29_920_000
SHARDS = ("shardId-000000000000", "shardId-000000000001")
Row = tuple[str, str, int, str]
"""Segment, shard, sequence number, payload."""


class Shelf:
    """Objects in a folder, and the rows that a task should write of them."""

    def __init__(self, folder: Path) -> None:
        self.address = Address(None, str(folder))
        self.storage = open_storage(self.address)
        self.groups: list[MergeGroup] = []
        self.rows: list[Row] = []

    def put(self, shard: str, numbers: Sequence[int], *, spaced: bool = False) -> RawObject:
        """Put an object; `spaced` lines are not as the daemon writes them."""
        key = f"{shard}/{numbers[0]:05d}-{len(self.rows):05d}.jsonl.gz"
        written = [Record(str(each), 0, "k", MINUTE * MINUTE_MS + each, f"{each}{key}".encode()) for each in numbers]
        lines = encode_lines(shard, written)
        self.storage.put_if_absent(key, gzip.compress(lines.replace(b",", b", ") if spaced else lines), {}, "")
        (listed,) = self.storage.list_objects(key)
        return RawObject(key, listed.etag, listed.size, shard, MINUTE, Position(numbers[0]))

    def single(self, shard: str, numbers: Sequence[int], *, spaced: bool = False) -> RawObject:
        """Put an object that is written as it is."""
        raw_object = self.put(shard, numbers, spaced=spaced)
        self.groups.append(MergeGroup((raw_object,), merge=False))
        self.rows += [(raw_object.key, shard, each, f"{each}{raw_object.key}") for each in numbers]
        return raw_object

    def run(self, out: Path) -> tuple[TaskResult, list[Row]]:
        """Write all; return the result and the rows of the part."""
        result = run(Order(Task(0, tuple(self.groups)), self.address, Address(None, str(out))))
        assert result.part is not None
        table = pq.read_table(out / result.part.key)
        names = ("segment", "shard_id", "sequence_number", "data")
        rows = zip(*(table[name].to_pylist() for name in names), strict=True)
        return result, [(segment, shard, int(number), data) for segment, shard, number, data in rows]


def test_lines_of_many_objects_come_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones gather; those that only Python reads, and those that are merged, stand between them."""
    shelf = Shelf(tmp_path / "raw")
    for shard in SHARDS:
        for number in range(1, 60, 3):
            shelf.single(shard, [number, number + 1], spaced=number in {7, 10, 40})
        both = (shelf.put(shard, [100, 102]), shelf.put(shard, [101, 103]))
        shelf.groups.append(MergeGroup(both, merge=True))
        merged = sorted(
            (each, one.key) for one, numbers in zip(both, ([100, 102], [101, 103]), strict=True) for each in numbers
        )
        shelf.rows += [(key, shard, each, f"{each}{key}") for each, key in merged]
        shelf.single(shard, range(200, 20_000))
        shelf.single(shard, [30_000])
    result, rows = shelf.run(tmp_path / "native")
    assert rows == shelf.rows
    monkeypatch.setattr(reading, "new_column_reader", lambda _: None)
    by_python, again = shelf.run(tmp_path / "python")
    assert (again, by_python.facts) == (rows, result.facts)


def test_facts_alone_need_no_rows(tmp_path: Path) -> None:
    """What is read for its facts says what the task that writes says."""
    shelf = Shelf(tmp_path / "raw")
    objects = [shelf.single(SHARDS[0], [number, number + 1], spaced=number == 5) for number in range(1, 9, 2)]
    storage = job_context(tmp_path / "raw").archive
    assert read_objects_whole(storage, objects) == [*shelf.run(tmp_path / "out")[0].facts]
