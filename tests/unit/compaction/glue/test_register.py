"""Registered days: the catalog learns of each day once, whichever run comes first and whatever answer gets lost."""

import copy
from pathlib import Path

import pyarrow as pa
import pytest

from archive.errors import CatalogRefused, SafetyRefusal, SettingsError
from archive.format.day import Day
from archive.store.places import StorePrefix
from archive.store.storage import Address
from compaction.glue.catalog import check_output, parse_table
from compaction.glue.register import Registration
from compaction.glue.table import columns_of
from compaction.publish.conflicts import Conflict
from tests.fakes.glue import FakeGlue
from tests.unit.compaction.glue.scene import DAY, KEY, Site, evolve

COLUMNS = [
    ("shard_id", "string"),
    ("sequence_number", "string"),
    ("sub_sequence_number", "bigint"),
    ("partition_key", "string"),
    ("arrival_time", "timestamp"),
    ("data", "string"),
    ("data_bytes", "binary"),
    ("segment", "string"),
]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Return a day that is published, and an empty catalog."""
    made = Site(tmp_path)
    made.shelf.publish(DAY, "a")
    return made


def test_the_first_day_makes_the_table(site: Site) -> None:
    """Over the symlinks; the partition names the day's folder, and no generation."""
    assert site.register() == "created"
    table, partition = site.glue.tables["events", "raw"], site.glue.partitions[KEY]

    assert site.columns == COLUMNS
    assert table["PartitionKeys"] == [{"Name": "dt", "Type": "string"}]
    assert table["StorageDescriptor"]["Location"] == site.location
    assert partition["StorageDescriptor"]["Location"] == f"{site.location}dt={DAY}/"
    for described in (table, partition):
        assert described["StorageDescriptor"]["InputFormat"].endswith("SymlinkTextInputFormat")
    site.shelf.publisher(DAY).write_symlinks()
    assert (Path(f"{site.location}dt={DAY}") / "manifest").is_file()


def test_the_same_day_again_changes_nothing(site: Site) -> None:
    """Nor does a new generation: the catalog has nothing to learn."""
    site.register()
    before = (site.glue.tables.copy(), site.glue.partitions.copy())
    site.shelf.publish(DAY, "b")

    assert site.register() == "already"
    assert (site.glue.tables, site.glue.partitions) == before
    assert "UpdateTable" not in site.glue.asked
    assert "UpdatePartition" not in site.glue.asked


def test_a_day_that_is_not_published_is_not_registered(site: Site) -> None:
    """And makes no table."""
    assert site.register(DAY.shift(1)) is None
    assert not site.glue.asked


@pytest.mark.parametrize(
    "lost", ["GetTable", "CreateTable", "BatchCreatePartition", "UpdateTable", "UpdatePartition"]
)
def test_a_lost_answer_is_asked_for_again(site: Site, lost: str) -> None:
    """The second outcome is that of a run that came later."""
    if lost not in {"CreateTable", "BatchCreatePartition"}:
        site.register()
        add_column(site, "tenant")
    site.glue.lost = [lost]
    site.register()

    assert not site.glue.lost
    assert site.columns[: len(COLUMNS)] == COLUMNS
    assert KEY in site.glue.partitions


@pytest.mark.parametrize("moment", ["CreateTable", "BatchCreatePartition", "UpdateTable"])
def test_two_runs_at_once_leave_one_table_and_one_partition(site: Site, moment: str) -> None:
    """The other one does all its work just before this one's request."""
    if moment == "UpdateTable":
        site.register()
        add_column(site, "tenant")

    def other(what: str) -> None:
        if what == moment:
            site.glue.before = lambda _: None
            site.register()

    site.glue.before = other
    assert site.register() in {"already", "updated"}
    wanted = [*COLUMNS, ("tenant", "string")] if moment == "UpdateTable" else COLUMNS
    assert site.columns == wanted


def test_two_runs_that_bring_a_column_each_leave_both(site: Site) -> None:
    """The later one has read the table before the other one's column was there."""
    site.register()
    add_column(site, "tenant")
    add_column(site, "country", DAY.shift(1))

    def other(what: str) -> None:
        if what == "UpdateTable":
            site.glue.before = lambda _: None
            site.register(DAY.shift(1))

    site.glue.before = other
    site.register()
    assert site.columns == [*COLUMNS, ("country", "string"), ("tenant", "string")]


def add_column(site: Site, name: str, day: Day = DAY) -> None:
    """Publish a day anew, with a column more."""
    site.shelf.publish(day, "wide", (2,))
    site.shelf.change_file(day, lambda table: table.append_column(name, pa.array(["x", "y"])))


def test_a_new_column_comes_last_and_what_others_said_stays(site: Site) -> None:
    """A comment, a parameter: the table is theirs, too."""
    site.register()
    table = site.glue.tables["events", "raw"]
    table["Parameters"]["owner"] = "us"
    table["StorageDescriptor"]["Columns"][0]["Comment"] = "which shard"
    add_column(site, "tenant")

    assert site.register() == "updated"
    after = site.glue.tables["events", "raw"]
    assert site.columns == [*COLUMNS, ("tenant", "string")]
    assert after["Parameters"]["owner"] == "us"
    assert after["StorageDescriptor"]["Columns"][0]["Comment"] == "which shard"
    site.shelf.publish(DAY.shift(1), "narrow")
    assert site.register(DAY.shift(1)) == "created"
    assert site.columns == [*COLUMNS, ("tenant", "string")]


def test_a_type_without_a_name_in_hive_is_refused() -> None:
    """None of ours is."""
    with pytest.raises(SettingsError, match="has no name in Hive"):
        columns_of(pa.schema([("n", pa.time64("us"))]))


def test_a_column_of_another_type_holds_the_day_back_from_the_catalog(site: Site) -> None:
    """Engines would read garbage, or fail on every query. Table and partitions stay as they were, and it is told."""
    site.register()
    site.glue.tables["events", "raw"]["StorageDescriptor"]["Columns"][2]["Type"] = "string"
    add_column(site, "tenant")
    add_column(site, "tenant", DAY.shift(1))
    before = copy.deepcopy((site.glue.tables, site.glue.partitions))
    held = Registration("glue:events.raw", "held", (Conflict("sub_sequence_number", "string", "bigint"),))

    assert (site.whole(), site.whole(DAY.shift(1))) == (held, held)
    assert (site.glue.tables, site.glue.partitions) == before
    site.glue.tables["events", "raw"]["StorageDescriptor"]["Columns"][2]["Type"] = "bigint"
    assert (site.register(), site.register(DAY.shift(1))) == ("updated", "created")
    assert site.columns[-1] == ("tenant", "string")


def test_a_column_that_somebody_took_away_or_renamed_comes_back(site: Site) -> None:
    """At the end: Parquet is read by names."""
    site.register()
    listed = site.glue.tables["events", "raw"]["StorageDescriptor"]["Columns"]
    listed[3]["Name"] = "pk"
    del listed[7]
    assert site.register() in {"already", "updated"}
    assert site.columns[3] == ("pk", "string")
    assert sorted(site.columns[7:]) == [("partition_key", "string"), ("segment", "string")]


NARROW = {"n": pa.array([1], pa.int32()), "price": pa.array([1], pa.decimal128(5, 2)), "old": pa.array(["x"])}
WIDE = {
    "n": pa.array([1], pa.int64()),
    "price": pa.array([1], pa.decimal128(12, 2)),
    "at": pa.array([1], pa.date32()),
}


def test_typed_columns_are_registered_and_get_wider(site: Site) -> None:
    """A narrower day afterwards changes nothing, and what others said of a column stays."""
    evolve(site, DAY, NARROW)
    site.register()
    site.glue.tables["events", "raw"]["StorageDescriptor"]["Columns"][8]["Comment"] = "how many"
    assert site.columns[8:] == [("n", "int"), ("price", "decimal(5,2)"), ("old", "string")]
    evolve(site, DAY.shift(1), WIDE)
    assert site.register(DAY.shift(1)) == "created"
    wide = [("n", "bigint"), ("price", "decimal(12,2)"), ("old", "string"), ("at", "date")]
    assert site.columns[8:] == wide
    assert site.glue.tables["events", "raw"]["StorageDescriptor"]["Columns"][8]["Comment"] == "how many"
    evolve(site, DAY.shift(2), NARROW)
    assert site.register(DAY.shift(2)) == "created"
    assert site.columns[8:] == wide


def test_names_that_differ_in_case_alone_are_one_column(site: Site) -> None:
    """Hive and Athena refuse a table with both, and every query on it with that."""
    evolve(site, DAY, {"price": pa.array([1], pa.int32())})
    site.register()
    evolve(site, DAY.shift(1), {"Price": pa.array([1], pa.int64())})
    assert site.register(DAY.shift(1)) == "created"
    assert site.columns[8:] == [("price", "bigint")]
    evolve(site, DAY.shift(2), {"PRICE": pa.array(["x"])})
    done = site.whole(DAY.shift(2))
    assert done is not None
    assert (done.state, done.conflicts) == ("held", (Conflict("PRICE", "bigint", "string"),))


def test_somebody_elses_table_is_left_alone(site: Site) -> None:
    """It lies elsewhere, or has other partitions."""
    site.register()
    site.glue.tables["events", "raw"]["StorageDescriptor"]["Location"] = "s3://theirs/"

    with pytest.raises(SafetyRefusal, match="s3://theirs/"):
        site.register(DAY)
    assert site.glue.tables["events", "raw"]["StorageDescriptor"]["Location"] == "s3://theirs/"
    site.glue.tables["events", "raw"]["StorageDescriptor"]["Location"] = site.location
    site.glue.tables["events", "raw"]["PartitionKeys"] = []
    with pytest.raises(SafetyRefusal, match="is partitioned by nothing, not dt"):
        site.register(DAY)


def test_a_partition_that_lies_elsewhere_is_put_right(site: Site) -> None:
    """As one that a crawler made of the Parquet folder."""
    site.register()
    site.glue.partitions[KEY]["StorageDescriptor"]["Location"] = "s3://out/dt=2026-11-20/"

    assert site.register() == "updated"
    assert site.glue.partitions[KEY]["StorageDescriptor"]["Location"] == f"{site.location}dt={DAY}/"


def test_a_database_that_is_not_there_is_refused(site: Site) -> None:
    """With a next step; databases are not made by the way."""
    site.glue = FakeGlue("others")

    with pytest.raises(CatalogRefused) as caught:
        site.register()
    assert "database" in caught.value.next_step


@pytest.mark.parametrize("name", ["raw", "Events.raw", "a.b.c", "a.b;drop", "", "a."])
def test_a_name_that_the_catalog_does_not_take(name: str) -> None:
    """Before anything is asked."""
    with pytest.raises(SettingsError):
        parse_table(name)


def test_a_folder_cannot_be_registered() -> None:
    """The catalog's engines read S3."""
    with pytest.raises(SettingsError, match="cannot name"):
        check_output(StorePrefix(Address(None, "/tmp/x"), ""))  # noqa: S108 - nothing is written
