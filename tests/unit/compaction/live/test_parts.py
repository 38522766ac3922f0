"""Live parts that are cut and joined: whole segments move, in the order of shards and positions, none is lost."""

import itertools
import random
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from compaction.columns.columns import Column, Columns
from compaction.columns.steps import parse_steps
from compaction.columns.types import parse_type
from compaction.inventory.segments import make_row
from compaction.live.parts import Held, OpenedPart, Rest, live_part, open_part, overlapped, write_joined, write_rest
from compaction.parquet.plan import Task, raw_objects, single_groups, sorted_groups
from compaction.tasks.finished import FinishedTask, keep_facts
from compaction.tasks.task import Order, run
from minutebook.errors import SafetyRefusal
from minutebook.format.keys import segment_key
from minutebook.format.metadata import ChainStart
from minutebook.format.position import Position
from minutebook.format.record import Record
from minutebook.format.segment import SegmentWriter
from minutebook.published.schema import SCHEMA
from minutebook.retry import Backoff
from minutebook.store.places import open_storage
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address
from tests.fakes.clock import ManualClock

MINUTE = 29_000_000
FOLDER = "tables/dt=2025-02-19/_live/"
_IDS = itertools.count(1)


def _payload(first: int, at: int) -> bytes:
    return b"\xff" if at % 2 else f'{{"a": [{{"n": {first}, "t": [{at}]}}, {{"n": "x"}}]}}'.encode()


class Shop:
    """An archive and an output in one folder."""

    def __init__(self, folder: Path) -> None:
        self.address = Address(None, str(folder))
        waits = lambda: Backoff(ManualClock(), random.Random(1), budget_seconds=1)  # noqa: E731 - one line
        self.storage = RetryingStorage(open_storage(self.address), waits)

    def part(self, *segments: tuple[int, int, int], columns: Columns | None = None) -> OpenedPart:
        """Write a part of segments: shard, first sequence number, records (0: all were dropped)."""
        keys = [self._archive(*segment) for segment in segments]
        rows = [make_row("raw/", row) for row in self.storage.list_objects("raw/") if row.key in keys]
        task = Task(0, tuple(sorted_groups(single_groups(raw_objects(rows)))))
        result = run(Order(task, self.address, self.address, FOLDER, columns=columns))
        assert result.part is not None
        facts = keep_facts(self.storage, FOLDER, task, FinishedTask(result.part, result.facts))
        digest, types = ("", None) if columns is None else (columns.digest, columns.types)
        opened = open_part(self.storage, live_part(result.part, facts, digest), types)
        assert opened is not None
        return opened

    def _archive(self, shard: int, first: int, count: int) -> str:
        name = f"shardId-{shard:012d}"
        made = SegmentWriter(name, MINUTE + first)
        records = [
            Record(str(first * 100 + at), at, "k", (MINUTE + first) * 60_000 + at, _payload(first, at))
            for at in range(max(count, 1))
        ]
        if count:
            made.extend(records)
        else:
            made.drop(records[0], "1:0")
        metadata = made.metadata(after=ChainStart("TRIM_HORIZON"), writer=f"w{shard}-{first}")
        key = segment_key("raw/", name, MINUTE + first, metadata.first)
        self.storage.put_if_absent(key, made.body(), metadata.encode(), "application/gzip")
        return key

    def rest(self, *rests: Rest) -> OpenedPart:
        """Write a rest, or several as one part."""
        if len(rests) == 1:
            return write_rest(self.storage, "raw/", FOLDER, rests[0], lambda: f"{next(_IDS):012d}")
        held = Held(self.storage, 1 << 20)
        assert all(map(held.add, rests))
        return write_joined(self.storage, "raw/", FOLDER, held, lambda: f"{next(_IDS):012d}")

    def rows(self, part: OpenedPart) -> list[dict[str, object]]:
        """Read a part."""
        found: list[dict[str, object]] = pq.read_table(
            Path(self.storage.uri(part.key)), partitioning=None
        ).to_pylist()
        return found


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """Return a shop."""
    return Shop(tmp_path)


def _whole(*parts: OpenedPart) -> list[Rest]:
    return [Rest(part, part.segments.keys()) for part in parts]


def test_a_cut_keeps_the_rows_of_its_segments_and_their_facts(shop: Shop) -> None:
    """Bit for bit, in a file that says its order; read again it has the same segments."""
    part = shop.part((0, 1, 3), (0, 2, 2), (1, 1, 4))
    kept = [key for key in part.segments if "/shardId-000000000000/" not in key]
    cut = shop.rest(Rest(part, kept))
    assert shop.rows(cut) == [row for row in shop.rows(part) if row["segment"] in kept]
    assert (cut.rows, cut.part.facts != "", open_part(shop.storage, cut.part)) == (4, True, cut)
    assert pq.read_metadata(Path(shop.storage.uri(cut.key))).row_group(0).sorting_columns


def test_parts_are_joined_in_the_order_of_shards_and_positions(shop: Shop) -> None:
    """Empty segments come along: else they would be read again each minute."""
    parts = [shop.part((1, 5, 2), (0, 5, 1)), shop.part((0, 4, 3), (1, 4, 0)), shop.part((0, 6, 0))]
    one = shop.rest(*_whole(*parts))
    rows = shop.rows(one)
    assert [(row["shard_id"], row["sequence_number"]) for row in rows] == sorted(
        (row["shard_id"], row["sequence_number"]) for part in parts for row in shop.rows(part)
    )
    assert one.segments == {key: span for part in parts for key, span in part.segments.items()}
    assert shop.rest(*_whole(shop.part((3, 1, 0)), shop.part((3, 2, 0)))).rows == 0


def _columns(*steps: object) -> Columns:
    named = [Column("n", "a.n" if steps else "a[0].n", parse_type("int64"))]
    named.append(Column("t", "a.t" if steps else "a[0].t", parse_type("list<int32>")))
    named.append(Column("m", "a" if steps else "a[0]", parse_type("map<string, json>")))
    return Columns(tuple(named)).decoded_by(parse_steps(list(steps)))


@pytest.mark.parametrize("steps", [(), ({"each": "a"},)])
def test_typed_columns_are_cut_and_joined_as_they_are(shop: Shop, steps: tuple[object, ...]) -> None:
    """With the reasons of values that do not fit, in rows of several events, too; the columns' digest stays."""
    columns = _columns(*steps)
    parts = [shop.part((0, 5, 3), (1, 4, 2), columns=columns), shop.part((0, 4, 3), columns=columns)]
    one = shop.rest(*_whole(*parts))
    assert shop.rows(one) == [*shop.rows(parts[1]), *shop.rows(parts[0])]
    assert (one.part.columns, one.types, one.part.facts != "") == (columns.digest, columns.types, True)
    kept = [key for key in one.segments if "/shardId-000000000000/" in key]
    cut = shop.rest(Rest(one, kept))
    assert shop.rows(cut) == [row for row in shop.rows(one) if row["segment"] in kept]
    assert [row["n"] for row in shop.rows(cut)].count(5) == 2
    assert {row["_unfit"] is None for row in shop.rows(cut)} == {True, False}


def test_a_part_is_written_again_without_a_column(shop: Shop) -> None:
    """Its other columns stay; it is told from parts of the whole columns, and of others."""
    columns = _columns()
    part = shop.part((0, 5, 3), columns=columns)
    less = shop.rest(Rest(part, part.segments.keys(), frozenset({"t"})))
    assert shop.rows(less) == [{name: row[name] for name in row if name != "t"} for row in shop.rows(part)]
    assert (less.types, less.part.columns in {"", columns.digest}) == (
        {"n": "int64", "m": "map<string, json>"},
        False,
    )
    bare = shop.rest(Rest(part, part.segments.keys(), frozenset({"t", "n", "m"})))
    assert (bare.types, bare.part.columns, [*shop.rows(bare)[0]]) == ({}, "", SCHEMA.names)


def test_without_the_number_of_events_a_record_is_one_row(shop: Shop) -> None:
    """That which has its payload as it came."""
    part = shop.part((0, 5, 3), columns=_columns({"each": "a"}))
    assert part.rows == 5
    bare = shop.rest(Rest(part, part.segments.keys(), frozenset({"event_index"})))
    plain = shop.part((0, 5, 3))
    assert (shop.rows(bare), bare.part.columns) == (shop.rows(plain), "")


def test_a_part_without_facts_names_its_segments_itself(shop: Shop) -> None:
    """What is cut from it has none, too."""
    part = shop.part((0, 1, 3), (0, 2, 2))
    shop.storage.delete([part.part.facts])
    opened = open_part(shop.storage, part.part)
    assert opened == part
    cut = shop.rest(Rest(part, [min(part.segments)]))
    assert (cut.part.facts, cut.rows, open_part(shop.storage, cut.part)) == ("", 3, cut)


def test_a_part_that_somebody_replaced_is_not_cut(shop: Shop) -> None:
    """Nor one that is gone."""
    part = shop.part((0, 1, 3), (0, 2, 2))
    path = Path(shop.storage.uri(part.key))
    pq.write_table(pa.table({"segment": ["x"]}), path)
    with pytest.raises(SafetyRefusal, match="not the file that was written"):
        shop.rest(*_whole(part))
    path.unlink()
    with pytest.raises(SafetyRefusal, match="is gone"):
        shop.rest(*_whole(part))
    shop.storage.delete([part.part.facts])
    assert open_part(shop.storage, part.part) is None


@pytest.mark.parametrize(
    ("span", "expected"), [((3, 5), "b"), ((4, 4), "b"), ((1, 2), "a"), ((7, 9), ""), (None, "")]
)
def test_spans_overlap_where_they_share_a_position(span: Sequence[int] | None, expected: str) -> None:
    """Ends belong to them; a segment without rows shares none."""
    others = {"a": (Position(1), Position(2)), "none": None, "b": (Position(4), Position(6))}
    own = None if span is None else (Position(span[0]), Position(span[1]))
    assert overlapped(own, others) == expected
