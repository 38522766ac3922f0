"""Athena's DDL of the published days, and Hive's types of days that evolved: the one that holds both, or none."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from compaction.commands.ddl import CatalogColumn, athena_ddl, columns_of, ddl_of, print_ddl, unite, wider
from compaction.job.request import DdlRequest
from compaction.tables.plan import Conflict
from minutebook.errors import SettingsError
from minutebook.format.day import Day
from minutebook.store.places import StorePrefix
from minutebook.store.storage import Address
from tests.corpus.shelf import Shelf

DAY = Day.parse("2026-11-20")
TODAY = DAY.shift(9)
EVERY_DAY = [
    ("shard_id", "string"),
    ("sequence_number", "string"),
    ("sub_sequence_number", "bigint"),
    ("partition_key", "string"),
    ("arrival_time", "timestamp"),
    ("data", "string"),
    ("data_bytes", "binary"),
    ("segment", "string"),
]
NARROW = {"n": pa.array([1], pa.int32()), "price": pa.array([1], pa.decimal128(5, 2)), "old": pa.array(["x"])}
WIDE = {
    "n": pa.array([1], pa.int64()),
    "price": pa.array([1], pa.decimal128(12, 2)),
    "at": pa.array([1], pa.date32()),
}


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    """Return a day that is published."""
    made = Shelf(StorePrefix(Address(None, str(tmp_path)), "out/"))
    made.publish(DAY, "a")
    return made


def ddl_text(shelf: Shelf) -> str:
    """Return the DDL of what is published."""
    return ddl_of(shelf.publisher(DAY).storage, shelf.place, "events.raw", TODAY)


def listed(text: str) -> list[tuple[str, str]]:
    """Return the columns of a DDL."""
    lines = (line.strip().removesuffix(",").split(maxsplit=1) for line in text.splitlines() if line[:3] == "  `")
    return [(name.strip("`"), kind) for name, kind in lines]


def test_the_ddl_has_each_column_as_wide_as_any_day(shelf: Shelf) -> None:
    """Of typed days that evolved, with the time of events: the newest day's columns come first."""
    narrow = {"who": pa.array([{"a": 1}], pa.struct([("a", pa.int32())])), "tags": pa.array([["x"]])}
    wide = {
        "who": pa.array([{"a": 1}], pa.struct([("a", pa.int64()), ("b", pa.string())])),
        "event_time": pa.array([0], pa.timestamp("us", "UTC")),
        "at": pa.array([0], pa.timestamp("us")),
        "ok": pa.array([True]),
        "x": pa.array([0.5]),
    }
    for number, columns in enumerate((NARROW | narrow, WIDE | wide, NARROW | {"_unfit": pa.array(["n: no"])})):
        shelf.evolve(DAY.shift(number), columns)

    assert listed(ddl_text(shelf)) == [
        *EVERY_DAY,
        ("n", "bigint"),
        ("price", "decimal(12,2)"),
        ("old", "string"),
        ("_unfit", "string"),
        ("at", "timestamp"),
        ("who", "struct<`a`:bigint,`b`:string>"),
        ("event_time", "timestamp"),
        ("ok", "boolean"),
        ("x", "double"),
        ("tags", "array<string>"),
    ]


def test_the_ddl_has_the_typed_columns_of_all_days(shelf: Shelf) -> None:
    """The newest day's first, each as wide as any day needs; what no type holds is told."""
    shelf.evolve(DAY, NARROW)
    shelf.evolve(DAY.shift(1), WIDE)
    shelf.evolve(DAY.shift(2), {"price": pa.array(["1.5"]), "n": pa.array([1], pa.int32())})
    text = ddl_text(shelf)

    assert text.startswith(
        "-- column price is string here, and decimal(12,2) on 2026-11-21: leave it out there\n"
        "-- column price is string here, and decimal(5,2) on 2026-11-20: leave it out there\n"
        "CREATE EXTERNAL TABLE"
    )
    assert [kind for _, kind in listed(text)[8:]] == ["string", "bigint", "date", "string"]


def test_the_ddl_computes_its_partitions(shelf: Shelf) -> None:
    """From the oldest published day on; the columns are the newest day's."""
    shelf.publish(DAY.shift(2), "b", ())
    text, location = ddl_text(shelf), f"{shelf.place.address.root}/out/_symlinks/"

    assert text.startswith("CREATE EXTERNAL TABLE `events`.`raw` (\n  `shard_id`            string,\n")
    assert text.partition("\n)\n")[2] == (
        "PARTITIONED BY (`dt` string)\n"
        "ROW FORMAT SERDE 'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe'\n"
        "STORED AS INPUTFORMAT 'org.apache.hadoop.hive.ql.io.SymlinkTextInputFormat'\n"
        "OUTPUTFORMAT 'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat'\n"
        f"LOCATION '{location}'\n"
        "TBLPROPERTIES (\n"
        "  'projection.enabled' = 'true',\n"
        "  'projection.dt.type' = 'date',\n"
        "  'projection.dt.format' = 'yyyy-MM-dd',\n"
        "  'projection.dt.range' = '2026-11-20,NOW',\n"
        "  'projection.dt.interval' = '1',\n"
        "  'projection.dt.interval.unit' = 'DAYS',\n"
        f"  'storage.location.template' = '{location}dt=${{dt}}/'\n"
        ");\n"
    )
    shelf.publisher(DAY).write_symlinks()
    assert (Path(location) / f"dt={DAY}" / "manifest").is_file()
    nothing = ddl_of(shelf.publisher(DAY).storage, StorePrefix(Address(None), "none/"), "a.b", TODAY)
    assert "2026-11-29,NOW" in nothing
    assert listed(nothing) == EVERY_DAY


def test_a_day_without_rows_does_not_say_which_columns_there_are(shelf: Shelf) -> None:
    """A stream may be silent on a Sunday: its manifest has the columns, and no file that would type them."""
    shelf.evolve(DAY.shift(1), {"price": WIDE["price"]})
    before, kind = listed(ddl_text(shelf)), str(WIDE["price"].type)
    shelf.publish(DAY.shift(2), "c", ())
    pointer = shelf.publisher(DAY.shift(2)).current().pointer
    assert pointer is not None
    path = Path(shelf.storage.uri(pointer.manifest))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"columns": {"price": kind}}))
    assert ("price", "decimal(12,2)") in before
    assert listed(ddl_text(shelf)) == before


@pytest.mark.parametrize("name", ["raw", "Events.raw", "a.b.c", "a.b;drop", "", "a."])
def test_a_name_that_the_catalog_does_not_take(name: str) -> None:
    """Before anything is read."""
    with pytest.raises(SettingsError, match="is not a table of the catalog"):
        print_ddl(DdlRequest(name, "/nonexistent"), {})


def test_a_folder_has_no_ddl(tmp_path: Path) -> None:
    """The catalog's engines read S3."""
    file = tmp_path / "my.properties"
    file.write_text("streamName=s\napplicationName=app\nregionName=us-east-1\nminutebook.bucket=bucket\n")
    with pytest.raises(SettingsError, match="cannot name"):
        print_ddl(DdlRequest("events.raw", str(file), str(tmp_path)), {})


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("int", "bigint", "bigint"),
        ("decimal(5,2)", "decimal(12,2)", "decimal(12,2)"),
        ("decimal(5,2)", "decimal(12,4)", None),
        ("bigint", "double", None),
        ("string", "binary", None),
        ("array<int>", "array<bigint>", "array<bigint>"),
        ("array<int>", "int", None),
        ("array<int>", "struct<a:int>", None),
        (
            "struct<a:int,c:decimal(5,2)>",
            "struct<b:array<struct<x:string>>,a:bigint,c:decimal(5,2)>",
            "struct<a:bigint,c:decimal(5,2),b:array<struct<x:string>>>",
        ),
        ("struct<a:int>", "struct<a:string>", None),
        ("map<string,int>", "map<string,bigint>", "map<string,bigint>"),
        ("map<string,struct<a:int>>", "map<string,struct<b:int>>", "map<string,struct<a:int,b:int>>"),
        ("struct<m:map<string,int>,b:int>", "struct<m:map<string,int>>", "struct<m:map<string,int>,b:int>"),
        ("map<string,int>", "array<int>", None),
        ("map<string,int>", "map<string,date>", None),
        ("struct<a:int>", "struct<A:string>", None),
    ],
)
def test_a_wider_type_holds_both(one: str, other: str, both: str | None) -> None:
    """Whichever of them comes first."""
    assert wider(one, other) == both
    back = wider(other, one)
    assert (back is None) == (both is None)
    assert both is None or wider(both, back or "") == both


def test_names_of_fields_that_differ_in_case_alone_are_one() -> None:
    """Hive refuses a struct with both."""
    assert wider("struct<a:int,b:int>", "struct<A:bigint,c:int>") == "struct<a:bigint,b:int,c:int>"


def test_names_that_differ_in_case_alone_are_one_column() -> None:
    """Hive and Athena refuse a table with both, and every query on it with that."""
    known = [CatalogColumn("price", "int")]
    assert unite(known, [CatalogColumn("Price", "bigint")]) == ((CatalogColumn("price", "bigint"),), ())
    assert unite(known, [CatalogColumn("PRICE", "string")]) == (tuple(known), (Conflict("PRICE", "int", "string"),))


def test_a_type_without_a_name_in_hive_is_refused() -> None:
    """None of ours is."""
    with pytest.raises(SettingsError, match="has no name in Hive"):
        columns_of(pa.schema([("n", pa.time64("us"))]))


def test_names_of_fields_are_quoted_at_every_level() -> None:
    """Hive's own parser refuses `struct<select:int>`, and takes backticks."""
    inner = pa.struct([("from", pa.decimal128(10, 2)), ("to", pa.list_(pa.string()))])
    kind = pa.struct([("select", pa.int64()), ("items", pa.list_(inner)), ("by", pa.map_(pa.string(), inner))])
    (column,) = columns_of(pa.schema([("x", kind)]))
    text = athena_ddl("a.b", "s3://c/", [column], DAY)
    fields = "struct<`from`:decimal(10,2),`to`:array<string>>"
    assert f"struct<`select`:bigint,`items`:array<{fields}>,`by`:map<string,{fields}>>" in text
