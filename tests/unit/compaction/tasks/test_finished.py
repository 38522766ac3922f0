"""Facts of tasks in files: what is stored is read back, and nothing else is believed."""

import random
from pathlib import Path

import pytest

from compaction.inventory.segments import Alteration, Disorder, History, SegmentFacts
from compaction.parquet.plan import RawObject, Task, single_groups
from compaction.tasks.finished import FinishedTask, Reading, find_facts, keep_facts, read_facts
from minutebook.format.position import Position
from minutebook.retry import Backoff
from minutebook.store.directory_storage import DirectoryStorage
from minutebook.store.retrying import RetryingStorage
from tests.fakes.clock import ManualClock

OBJECTS = [
    RawObject("a.jsonl.gz", '"1"', 10, "s", 1, Position(1), 1_000, History("d0", Alteration.REPLACED)),
    RawObject("b.jsonl.gz", '"2"', 20, "s", 2, Position(5), 2_000),
]
FACTS = (
    SegmentFacts(
        "a.jsonl.gz",
        {"first": "1:0"},
        lines=2,
        raw_bytes=9,
        payload_bytes=4,
        first=Position(1),
        last=Position(2),
        low=Position(1),
        high=Position(2),
        arrival_min_ms=3,
        arrival_max_ms=4,
        disorder=Disorder(1, 2, ("1:0", "2:0")),
        wrong_minute=1,
        wrong_shard=2,
        digest="d1",
        first_digest="d0",
        altered=Alteration.ALTERED,
    ),
    SegmentFacts("b.jsonl.gz", None, problem="it is not the object that was listed", changed=True),
)


@pytest.fixture
def out(tmp_path: Path) -> RetryingStorage:
    """Return an output."""
    clock = ManualClock()
    return RetryingStorage(DirectoryStorage(tmp_path), lambda: Backoff(clock, random.Random(1), budget_seconds=10))


def stored_key(out: RetryingStorage, *, is_later: bool) -> str:
    """Store the facts; return their key."""
    keep_facts(out, "g/", Task(0, tuple(single_groups(OBJECTS))), FinishedTask(None, FACTS, is_later=is_later))
    ((key,),) = find_facts(out, "g/", 0).values()
    return key


@pytest.mark.parametrize("is_later", [False, True])
def test_all_that_was_read_is_read_back(out: RetryingStorage, is_later: bool) -> None:  # noqa: FBT001 - a case
    """Also of objects that could not be read, and without a part."""
    stored = read_facts(out, stored_key(out, is_later=is_later))
    assert stored is not None
    assert stored.is_later == is_later
    assert stored.readings == (Reading('"1"', 10, 1_000, FACTS[0]), Reading('"2"', 20, 2_000, FACTS[1]))


@pytest.mark.parametrize("at", [0, 100, -1])
def test_a_damaged_file_is_none(out: RetryingStorage, tmp_path: Path, at: int) -> None:
    """Its name holds its digest."""
    key = stored_key(out, is_later=False)
    body = bytearray((tmp_path / key).read_bytes())
    body[at] ^= 1
    (tmp_path / key).write_bytes(body)
    assert read_facts(out, key) is None


def test_a_file_that_is_gone_is_none(out: RetryingStorage) -> None:
    """The sweep of another run may have taken it."""
    assert read_facts(out, "g/_facts/a-b.parquet") is None
