"""Ids that an hour keeps: the night gets the rows that it would have made of the lines, or none."""

import random
from pathlib import Path

import msgspec
import pytest

from compaction.event_ids.kept import GROUP_BYTES, CachedIds, keeping_ids, take_ids
from compaction.event_ids.rows import ROW_BYTES, IdCollector, IdOrder
from compaction.parquet.plan import RawObject, Task, single_groups
from minutebook.errors import FormatError
from minutebook.format.position import Position
from minutebook.store.retrying import RetryingStorage
from tests.corpus.auditing import job_context

KEYS = ("a", "b", "c", "d")
TASK = Task(
    3, tuple(single_groups(RawObject(key, "", 1, "s", 1, Position(n, 0)) for n, key in enumerate(KEYS, start=1)))
)
NUMBERS = [5, 6, 90, 91]


def lines(seed: int, key: str) -> tuple[list[bytes], list[int]]:
    """Return payloads, some without an id and some with the same one, and when they arrived."""
    rng = random.Random(f"{seed} {key}")
    count = 0 if key == "c" else rng.randrange(1, 400)
    payloads = [rng.choice([b"", b'{"id":%d}' % rng.randrange(300), b'{"id":1}']) for _ in range(count)]
    return payloads, [1_700_000_000_000 + rng.randrange(10**6) for _ in payloads]


def feed(ids: IdCollector, seed: int) -> IdCollector:
    """Let all lines come, in two blocks each."""
    for key in KEYS:
        payloads, arrivals = lines(seed, key)
        for part in (slice(0, 7), slice(7, None)):
            ids.add(payloads[part], arrivals[part], key)
    return ids


def collector() -> IdCollector:
    """Return a collector as the night has it: numbers do not follow each other."""
    return IdCollector(IdOrder("id", 0, 5).of(NUMBERS), KEYS)


def rows(ids: IdCollector) -> list[tuple[int, bytes]]:
    """Return single rows, each with its partition."""
    return sorted(
        (part, chunk[at : at + ROW_BYTES]) for part, chunk in ids.rows() for at in range(0, len(chunk), ROW_BYTES)
    )


def keep(out: RetryingStorage, seed: int, group_bytes: int = GROUP_BYTES) -> CachedIds:
    """Keep the ids of a task's lines."""
    with keeping_ids(out, "f/", TASK, "id", group_bytes) as keeper:
        assert keeper is not None
        feed(keeper.collector, seed)
        return keeper.close()


@pytest.fixture
def out(tmp_path: Path) -> RetryingStorage:
    """Return a store."""
    return job_context(tmp_path).archive


@pytest.mark.parametrize("group_bytes", [1, GROUP_BYTES])
@pytest.mark.parametrize("seed", range(5))
def test_kept_ids_are_those_of_the_lines(out: RetryingStorage, seed: int, group_bytes: int) -> None:
    """Digests, lines, arrivals, counts of repeats, lines without an id; numbers are those of the night."""
    said = keep(out, seed, group_bytes)
    expected, found = feed(collector(), seed), collector()
    assert take_ids(out, said, found, KEYS, "id")
    assert rows(found) == rows(expected)
    assert found.missing() == expected.missing()


def test_ids_of_other_bytes_are_not_looked_at(out: RetryingStorage) -> None:
    """As many rows of the same task, of other lines; or none at all."""
    said, other = keep(out, 1), keep(out, 2)
    found = collector()
    assert not take_ids(out, msgspec.structs.replace(said, key=other.key), found, KEYS, "id")
    assert not take_ids(out, msgspec.structs.replace(said, key="f/gone"), found, KEYS, "id")
    assert rows(found) == []


def test_a_block_that_fails_leaves_no_file(out: RetryingStorage) -> None:
    """Whatever ends the task."""
    with pytest.raises(FormatError):
        fail(out)
    assert out.keys("f/") == []


def fail(out: RetryingStorage) -> None:
    """Keep some ids, and fail."""
    with keeping_ids(out, "f/", TASK, "id") as keeper:
        assert keeper is not None
        feed(keeper.collector, 1)
        raise FormatError("x")
