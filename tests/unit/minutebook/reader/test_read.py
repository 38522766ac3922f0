"""Published days as one Dataset: one generation of each, exactly its files, whatever is published meanwhile."""

import pickle
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from msgspec.structs import replace

from minutebook.cut import END, NONE, Cut, encode_cut
from minutebook.errors import DayNotPublished, FormatError, ObjectVanished, SafetyRefusal, SettingsError
from minutebook.format.day import Day
from minutebook.format.position import Position
from minutebook.reader import published, read
from minutebook.store.places import StorePrefix
from minutebook.store.storage import Address
from tests.corpus.shelf import Row, Shelf

DAY = Day.parse("2026-11-20")
FIRST, NEXT, LAST = (str(DAY.shift(days)) for days in range(3))


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    """Return an empty place for published days."""
    return Shelf(StorePrefix(Address(None, str(tmp_path)), ""))


def uri(shelf: Shelf) -> str:
    """Return its address, as a person writes it."""
    return shelf.place.address.root


def segments(rows: list[Row]) -> set[object]:
    """Return what tells generations apart."""
    return {row["segment"] for row in rows}


def folder_of(shelf: Shelf, generation: str) -> Path:
    """Return where a generation of the first day lies."""
    return Path(shelf.storage.uri(shelf.publisher(DAY).folder.generation(generation)))


def test_days_are_one_table_with_the_day_in_it(shelf: Shelf) -> None:
    """All rows of both, and no file of another folder."""
    rows = shelf.publish(DAY, "a") + shelf.publish(DAY.shift(1), "b", (4,))
    table = read(uri(shelf), FIRST, NEXT).to_table()

    assert table.num_rows == len(rows) == 9
    assert table["dt"].value_counts().to_pylist() == [{"values": FIRST, "counts": 5}, {"values": NEXT, "counts": 4}]
    assert table.schema.names[-1] == "dt"


def test_a_reader_stays_with_the_generation_that_it_began_on(shelf: Shelf) -> None:
    """The pointer is read once; whoever opens the day later sees the new one, and nobody sees two."""
    shelf.publish(DAY, "old")
    before = read(uri(shelf), FIRST, FIRST)
    shelf.publish(DAY, "new")
    after = read(uri(shelf), FIRST, FIRST)

    assert segments(before.to_table().to_pylist()) == {f"raw/{DAY}/old"}
    assert segments(after.to_table().to_pylist()) == {f"raw/{DAY}/new"}


def test_a_file_that_is_gone_is_told_with_the_next_step(shelf: Shelf) -> None:
    """In the middle of a scan, too: it is not a day with fewer rows."""
    shelf.publish(DAY, "a")
    days = read(uri(shelf), FIRST, FIRST)
    (folder_of(shelf, "a") / "part-00001.parquet").unlink()

    with pytest.raises(ObjectVanished, match=r"part-00001\.parquet is gone") as caught:
        days.to_table()
    assert "open the days again" in caught.value.next_step


def test_a_file_of_another_size_is_not_the_published_one(shelf: Shelf) -> None:
    """Somebody wrote over it."""
    shelf.publish(DAY, "a")
    path = folder_of(shelf, "a") / "part-00001.parquet"
    days = read(uri(shelf), FIRST, FIRST)
    path.write_bytes((folder_of(shelf, "a") / "part-00000.parquet").read_bytes())

    with pytest.raises(ObjectVanished, match="was published with"):
        days.to_table()


def test_a_day_that_is_not_published_is_an_error_unless_it_may_be_left_out(shelf: Shelf) -> None:
    """And whoever leaves it out can see which."""
    shelf.publish(DAY, "a")

    with pytest.raises(DayNotPublished, match=f"{NEXT}: it is not published; {LAST}: it is not published"):
        read(uri(shelf), FIRST, LAST)
    assert read(uri(shelf), FIRST, LAST, missing="skip").count_rows() == 5
    assert [str(day) for day, _ in published(uri(shelf), FIRST, LAST, missing="skip").left_out] == [NEXT, LAST]


def test_a_verdict_that_was_not_asked_for_is_never_left_out_quietly(shelf: Shelf) -> None:
    """The days of the shelf are clean by rules that are too old to be proof: so they are unknown."""
    shelf.publish(DAY, "a")

    assert [day.verdict for day in published(uri(shelf), FIRST, FIRST).days] == ["unknown"]
    with pytest.raises(DayNotPublished, match="its verdict is unknown"):
        read(uri(shelf), FIRST, FIRST, verdicts=("clean",))
    assert published(uri(shelf), FIRST, FIRST, verdicts=("clean",), missing="skip").days == ()


def test_columns_that_a_day_has_not_are_null_in_it(shelf: Shelf) -> None:
    """A later version writes one more, and another unit of time: both days are read with one schema."""
    shelf.publish(DAY, "a", (2,))
    shelf.publish(DAY.shift(1), "b", (2,))

    def later(table: pa.Table) -> pa.Table:
        moved = table["arrival_time"].cast(pa.timestamp("ms", "UTC"))
        return table.set_column(4, "arrival_time", moved).append_column("tenant", pa.array(["x", "y"]))

    shelf.change_file(DAY, later)
    found = read(uri(shelf), FIRST, NEXT)

    assert found.schema.field("arrival_time").type == pa.timestamp("us", "UTC")
    assert found.to_table()["tenant"].to_pylist() == ["x", "y", None, None]
    assert duckdb.sql("SELECT count(tenant), count(*) FROM found").fetchall() == [(2, 4)]


def test_days_before_and_after_their_columns_evolved_are_one_table(shelf: Shelf) -> None:
    """Without typed columns, with them, and with wider and new ones, also within structs and lists."""
    shelf.publish(DAY, "a", (1,))
    narrow, wide = pa.struct([("a", pa.int32())]), pa.struct([("a", pa.int64()), ("b", pa.string())])
    columns = {
        "n": pa.array([1], pa.int32()),
        "price": pa.array([Decimal("1.25")], pa.decimal128(5, 2)),
        "who": pa.array([{"a": 1}], narrow),
        "tags": pa.array([[1]], pa.list_(pa.field("element", pa.int32()))),
    }
    shelf.evolve(DAY.shift(1), columns)
    columns = {
        "n": pa.array([2**40], pa.int64()),
        "price": pa.array([Decimal("1234567890.25")], pa.decimal128(12, 2)),
        "who": pa.array([{"a": 2**40, "b": "x"}], wide),
        "tags": pa.array([[2**40]], pa.list_(pa.field("element", pa.int64()))),
        "new": pa.array([True]),
    }
    shelf.evolve(DAY.shift(2), columns)
    found = read(uri(shelf), FIRST, LAST, ["n", "price", "who", "tags", "new", "dt"])

    assert found.schema.types == [
        pa.int64(),
        pa.decimal128(12, 2),
        wide,
        columns["tags"].type,
        pa.bool_(),
        pa.string(),
    ]
    assert [tuple(row.values()) for row in found.to_table().to_pylist()] == [
        (None, None, None, None, None, FIRST),
        (1, Decimal("1.25"), {"a": 1, "b": None}, [1], None, NEXT),
        (2**40, Decimal("1234567890.25"), {"a": 2**40, "b": "x"}, [2**40], True, LAST),
    ]
    with duckdb.connect() as engine:
        engine.register("days", found)
        query = "SELECT sum(n), sum(price), max(who.a), sum(tags[1]) FROM days WHERE n > 0"
        assert engine.execute(query).fetchall() == [(2**40 + 1, Decimal("1234567891.50"), 2**40, 2**40 + 1)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (pa.array([2**53 + 1]), pa.array([0.5])),
        (pa.array([Decimal("0.1")], pa.decimal128(38, 1)), pa.array([0.5])),
        (pa.array([{"a": 1}]), pa.array([{"a": 0.5}])),
        (pa.array([1]), pa.array([Decimal("0.1")], pa.decimal128(5, 1))),
        (pa.array([Decimal(1)], pa.decimal128(38, 0)), pa.array([Decimal("1.1")], pa.decimal128(38, 10))),
        (
            pa.array([[("a", Decimal("0.1"))]], pa.map_(pa.string(), pa.decimal128(38, 1))),
            pa.array([[("a", 0.5)]], pa.map_(pa.string(), pa.float64())),
        ),
        (pa.array(["x"]), pa.array([b"x"])),
        (pa.array([1]), pa.array(["1"])),
    ],
)
def test_a_type_that_would_round_is_no_common_type(shelf: Shelf, before: pa.Array, after: pa.Array) -> None:
    """A reader must not show another number than the file holds."""
    shelf.evolve(DAY, {"x": before})
    shelf.evolve(DAY.shift(1), {"x": after})

    with pytest.raises(SettingsError, match=r"column x is .* on 2026-11-2|no common type holds") as caught:
        read(uri(shelf), FIRST, NEXT)
    assert "one by one" in caught.value.next_step
    assert read(uri(shelf), FIRST, NEXT, ["data"]).count_rows() == 2


def test_chosen_columns_come_in_the_order_asked_for(shelf: Shelf) -> None:
    """One that is not there is told at once, with those that are."""
    shelf.publish(DAY, "a")

    assert read(uri(shelf), FIRST, FIRST, ["dt", "data"]).to_table().schema.names == ["dt", "data"]
    with pytest.raises(SettingsError, match="there is no column"):
        read(uri(shelf), FIRST, FIRST, ["dt", "payload"])


def test_duckdb_reads_it_and_opens_no_day_that_is_left_out(shelf: Shelf) -> None:
    """A file of the other day is missing, and nobody notices."""
    shelf.publish(DAY, "a", (3,))
    shelf.publish(DAY.shift(1), "b", (3, 1))
    days = read(uri(shelf), FIRST, NEXT)
    (folder_of(shelf, "a") / "part-00000.parquet").unlink()

    assert duckdb.sql("SELECT count(*) FROM days WHERE dt = '2026-11-21'").fetchall() == [(4,)]
    assert days.count_rows(filter=pc.field("dt") == NEXT) == 4


def test_a_day_without_a_row_is_an_empty_table(shelf: Shelf) -> None:
    """With the columns of every day."""
    shelf.publish(DAY, "a", ())
    found = read(uri(shelf), FIRST, FIRST)

    assert (found.count_rows(), "sequence_number" in found.schema.names) == (0, True)


def test_a_pointer_whose_manifest_is_missing_is_no_empty_day(shelf: Shelf) -> None:
    """Nor is one that contradicts it."""
    shelf.publish(DAY, "a")
    pointer, _ = shelf.publisher(DAY).published()
    assert pointer is not None
    Path(shelf.storage.uri(pointer.manifest)).unlink()

    with pytest.raises(FormatError, match="which is missing"):
        read(uri(shelf), FIRST, FIRST)


def test_a_dataset_can_be_sent_to_another_process(shelf: Shelf) -> None:
    """As Dask and Ray do."""
    shelf.publish(DAY, "a")

    assert pickle.loads(pickle.dumps(read(uri(shelf), FIRST, FIRST))).count_rows() == 5  # noqa: S301 - our own bytes


def test_the_reader_needs_no_spark() -> None:
    """Nor the command line; pyarrow comes with the first table."""
    code = (
        "import sys; sys.modules['pyspark'] = sys.modules['typer'] = sys.modules['pyarrow'] = None\n"
        "import minutebook.reader; print(len(minutebook.reader.__all__))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)

    assert done.stdout.strip() == "13", done.stderr


def cut_of(day: str = LAST, **shards: str) -> Cut:
    """Return a cut at the beginning of a day; shards as s0="10:0"."""
    names = {f"shardId-{name.removeprefix('s').zfill(12)}": text for name, text in shards.items()}
    at = f"{day}T00:00:00.000Z"
    return Cut(stream_arn="a", stream_created_ms=1, at=at, through=at, shards=names)


def places(rows: list[Row]) -> list[tuple[object, ...]]:
    """Return shard, sequence number and sub-sequence number of each row, in order."""
    return sorted((row["shard_id"], int(str(row["sequence_number"])), row["sub_sequence_number"]) for row in rows)


def test_a_cut_divides_days_by_positions(shelf: Shelf) -> None:
    """Each row on one side, compared as integers of 56 digits, in batches and by whoever reads the Dataset."""
    rows = shelf.publish(DAY, "a", (3, 2, 4)) + shelf.publish(DAY.shift(1), "b", (1, 1))
    last = f"4969{'7' * 52}:1"
    for cut in (
        cut_of(s0=last, s1=END, s2=NONE),
        cut_of(s0=f"{last[:-1]}0", s1=f"{'9' * 55}:0", s2=f"1{'0' * 56}:0"),
        cut_of(),
    ):
        before, after = (read(uri(shelf), FIRST, NEXT, **{side: cut}) for side in ("before", "after"))
        expected = [row for row in rows if cut.is_before(str(row["shard_id"]), _position(row))]
        assert places(before.to_table().to_pylist()) == places(expected)
        assert places([*before.to_table().to_pylist(), *after.to_table().to_pylist()]) == places(rows)
        assert duckdb.sql("SELECT count(*) FROM before").fetchall() == [(len(expected),)]


def test_a_part_of_a_day_must_reach_the_cut(shelf: Shelf) -> None:
    """What it lacks lies before the cut; with `skip` the reader takes what there is."""
    rows = shelf.publish(DAY, "a", (3,))
    cut = replace(cut_of(FIRST, s0=END), through=f"{FIRST}T12:00:00.000Z")
    for until, is_enough in (("12:00:00.000Z", True), ("11:59:00.000Z", False)):
        end_at(shelf, f"{FIRST}T{until}")
        if is_enough:
            assert read(uri(shelf), FIRST, before=cut).count_rows() == len(rows)
    with pytest.raises(DayNotPublished, match=f"{FIRST} is published until {FIRST}T11:59:00.000Z"):
        read(uri(shelf), FIRST, before=cut)
    assert read(uri(shelf), FIRST, before=cut, missing="skip").count_rows() == len(rows)
    assert read(uri(shelf), FIRST, FIRST, after=cut).count_rows() == 0


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_cut_of_a_stream_of_another_name_is_refused(shelf: Shelf, side: str) -> None:
    """As far as the audit of a day tells: positions of another stream mean nothing."""
    rows = shelf.publish(DAY, "a", (3,))
    shelf.complete(DAY)
    own, other = (replace(cut_of(NEXT, s0=NONE), stream_arn=f"arn:aws:x:stream/{name}") for name in ("own", "other"))
    assert read(uri(shelf), FIRST, FIRST, after=other).count_rows() == len(rows)
    pointer, _ = shelf.publisher(DAY).published()
    assert pointer is not None
    audit = Path(shelf.storage.uri(pointer.audit))
    audit.write_bytes(msgspec.json.encode({**msgspec.json.decode(audit.read_bytes()), "scope": {"stream": "own"}}))
    assert read(uri(shelf), FIRST, FIRST, after=own).count_rows() == len(rows)
    with pytest.raises(SafetyRefusal, match=r"the cut is one of the stream other.* holds own"):
        read(uri(shelf), FIRST, FIRST, **{side: other})


def end_at(shelf: Shelf, until: str) -> None:
    """Make the published day one that ends at a time."""
    pointer, manifest = shelf.publisher(DAY).published()
    assert pointer is not None
    assert manifest is not None
    documents = {pointer.manifest: manifest, shelf.publisher(DAY).folder.pointer: pointer}
    for name, document in documents.items():
        Path(shelf.storage.uri(name)).write_bytes(msgspec.json.encode(replace(document, until=until)))


@pytest.mark.parametrize("divided", ["8:0", f"{2**180}:{10**19 - 1}", NONE, END])
def test_a_cut_may_have_thousands_of_shards(shelf: Shelf, divided: str) -> None:
    """A condition for each, one in the other, would end the process; a shard without a position has a side, too."""
    rows = shelf.publish(DAY, "a", (3, 2, 4))
    others = {f"s{number}": (END, NONE, f"{number}:0")[number % 3] for number in range(9, 12_000)}
    cut = cut_of(**others, s0=divided)
    before, after = (
        read(uri(shelf), FIRST, FIRST, **{side: cut}).to_table().to_pylist() for side in ("before", "after")
    )
    assert places(before) == places([row for row in rows if cut.is_before(str(row["shard_id"]), _position(row))])
    assert places([*before, *after]) == places(rows)


def _position(row: Row) -> Position:
    return Position(int(str(row["sequence_number"])), int(str(row["sub_sequence_number"])))


def test_a_cut_names_the_last_day(shelf: Shelf, tmp_path: Path) -> None:
    """That of the last record before it; its file will do, and columns of the position are added to those chosen."""
    shelf.publish(DAY, "a", (3,))
    shelf.publish(DAY.shift(1), "b", (3,))
    path = tmp_path / "cut.json"
    path.write_bytes(encode_cut(cut_of(NEXT, s0=END)))
    table = read(uri(shelf), FIRST, columns=["data"], before=str(path)).to_table()

    assert (table.num_rows, table.schema.names) == (
        3,
        ["data", "shard_id", "sequence_number", "sub_sequence_number"],
    )
    with pytest.raises(SettingsError, match="no last day"):
        read(uri(shelf), FIRST, after=path)
