"""Iceberg tables that hold what we did not write, or are gone, damaged, or of another kind: what the day says."""

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.io.pyarrow import parquet_file_to_data_file

from compaction.job.context import AuditOptions
from compaction.night.rewrite import CompactOptions, compact_day
from compaction.tables.failures import translated
from compaction.tables.table import IcebergTable
from minutebook.errors import CatalogRefused, CatalogUnavailable, SafetyRefusal
from minutebook.format.tombstone import Tombstone, encode_tombstone, tombstone_key
from minutebook.published.schema import SCHEMA
from minutebook.store.places import StorePrefix, open_storage
from minutebook.store.storage import Address
from tests.corpus.auditing import job_context
from tests.corpus.model import PREFIX
from tests.corpus.shelf import Shelf, keys_of
from tests.integration.lake import DAY, NEXT, REST_JARS, Lake
from tests.integration.table_folders import path_of


def _rewrite_files(table: Any, kept: str = "partition_key is not null") -> None:  # noqa: ANN401 - pyiceberg's
    """Do what maintenance does, or a DELETE with copies: the day's kept rows, in a file of the table's own."""
    condition = f"arrival_time >= '{DAY}T00:00:00+00:00' and arrival_time < '{NEXT}T00:00:00+00:00'"
    uri = f"{table.location()}/data/rewritten.parquet"
    Path(uri.removeprefix("file://")).parent.mkdir(parents=True)
    pq.write_table(table.scan(row_filter=f"{condition} and {kept}").to_arrow(), uri.removeprefix("file://"))
    with table.transaction() as transaction, transaction.update_snapshot().overwrite() as overwrite:
        for task in table.scan(row_filter=condition).plan_files():
            overwrite.delete_data_file(task.file)
        overwrite.append_data_file(parquet_file_to_data_file(table.io, table.metadata, uri))


def test_files_that_maintenance_rewrote_are_known_by_their_rows(lake: Lake) -> None:
    """The generation is still there; the next one replaces all of the day."""
    lake.shelf.publish(DAY, "one")
    other = lake.shelf.publish(NEXT, "one")
    lake.commit()
    lake.commit(NEXT)
    lake.table(_rewrite_files)
    assert lake.commit() == "already"
    new = lake.shelf.publish(DAY, "two", (4,))
    assert lake.commit() == "committed"
    assert keys_of(lake.rows()) == keys_of(new + other)


def test_a_generation_that_was_written_again_replaces_what_maintenance_rewrote(lake: Lake) -> None:
    """Its name says nothing of a line that was restored, nor need the number of its rows."""
    lake.shelf.publish(DAY, "one", (3, 2))
    lake.commit()
    lake.table(_rewrite_files)
    rows = lake.shelf.publish(DAY, "one", (5,))
    assert [lake.commit(), lake.commit()] == ["committed", "already"]
    assert keys_of(lake.rows()) == keys_of(rows)


def test_another_manifest_of_the_same_files_leaves_what_others_deleted(lake: Lake) -> None:
    """The objects of the day were stored again: its rows are those that were committed."""
    lake.shelf.publish(DAY, "one")
    lake.commit()
    lake.table(lambda table: _rewrite_files(table, "partition_key != 'p1'"))
    lake.shelf.publish(DAY, "one")
    assert lake.commit() == "already"


def test_rows_that_others_deleted_do_not_come_back_unasked(lake: Lake) -> None:
    """The same generation is left alone, a newer one refused; without any rows of the day it goes in."""
    lake.shelf.publish(DAY, "one")
    lake.commit()
    lake.table(lambda table: _rewrite_files(table, "partition_key != 'p1'"))
    assert lake.commit() == "already"
    new = lake.shelf.publish(DAY, "two", (4,))
    with pytest.raises(SafetyRefusal, match="it holds 3 rows, and 5 were committed"):
        lake.commit()
    lake.table(lambda table: table.delete("partition_key is not null"))
    assert lake.commit() == "committed"
    assert keys_of(lake.rows()) == keys_of(new)


def test_an_expired_day_goes_in_as_it_was_published(lake: Lake, tmp_path: Path) -> None:
    """Days that were published before there was a table can be taken over, also without their raw objects."""
    rows = lake.shelf.publish(DAY, "one")
    lake.shelf.complete(DAY)
    raw = tmp_path / "raw"
    archive = open_storage(Address(None, str(raw)))
    tombstone = Tombstone(
        format=1, day=str(DAY), generation="one", segments=0, bytes=0, shards={}, writer="w", written_at="t"
    )
    archive.put_if_absent(tombstone_key(PREFIX, DAY), encode_tombstone(tombstone), {}, "application/json")
    with lake.catalog() as catalog:
        given = job_context(raw, clock=lake.shelf.clock)._replace(table=IcebergTable(catalog, lake.name))
        done = compact_day(
            given, given.open(lake.shelf.place.address), DAY, CompactOptions(AuditOptions(), lake.shelf.place)
        )
    assert (done.state, done.table and done.table.state) == ("already", "committed")
    assert keys_of(lake.rows()) == keys_of(rows)


def test_rows_of_another_day_are_refused(lake: Lake) -> None:
    """A file that an accepted defect let through cannot be a part of one day."""
    lake.shelf.publish(DAY, "one", off_ms=-5)
    with pytest.raises(CatalogRefused, match="does not fit"):
        lake.commit()
    lake.shelf.publish(DAY, "two", (3, 1), off_ms=-5)
    with pytest.raises(SafetyRefusal, match="did not arrive on 2026-11-20"):
        lake.commit()
    assert lake.rows() == []


def test_a_table_of_another_kind_is_refused(lake: Lake) -> None:
    """A table that somebody made without the partition is not written to."""
    lake.shelf.publish(DAY, "one")
    with lake.catalog() as catalog:
        catalog.create_namespace(lake.name.partition(".")[0])
        catalog.create_table(lake.name, SCHEMA)
    with pytest.raises(CatalogRefused, match="not partitioned by day"):
        lake.commit()


def test_a_table_that_took_the_day_from_another_output_is_refused(lake: Lake, tmp_path: Path) -> None:
    """Two streams in one table would replace each other's rows, night by night."""
    rows = lake.shelf.publish(DAY, "one")
    lake.commit()
    theirs = Shelf(StorePrefix(Address(None, str(tmp_path / "theirs")), "tables/"))
    theirs.publish(DAY, "two", (4,))
    with lake.catalog() as catalog, pytest.raises(SafetyRefusal, match="were published at another output") as caught:
        theirs.commit(IcebergTable(catalog, lake.name), DAY)
    assert "a table of its own" in caught.value.next_step
    assert keys_of(lake.rows()) == keys_of(rows)
    lake.shelf.publish(DAY, "three", (1,))
    assert lake.commit() == "committed"


def test_a_published_file_that_is_gone_is_named(lake: Lake) -> None:
    """And nothing is committed."""
    lake.shelf.publish(DAY, "one")
    folder = lake.shelf.publisher(DAY).folder
    lake.shelf.storage.delete([f"{folder.generation('one')}part-00001.parquet"])
    with pytest.raises(CatalogRefused, match=r"part-00001\.parquet was published and is gone"):
        lake.commit()
    assert lake.rows() == []


@pytest.mark.skipif(REST_JARS is not None, reason="it is SQLite's file that is broken here")
def test_a_catalog_that_stays_away_is_exit_5(lake: Lake, tmp_path: Path) -> None:
    """The budget is spent, and the message says what to do."""
    lake.shelf.publish(DAY, "one")
    with lake.catalog() as catalog:
        (tmp_path / "catalog.sqlite").write_bytes(b"no database " * 100)
        with pytest.raises(CatalogUnavailable, match="gave up on the commit to default") as caught:
            lake.shelf.commit(IcebergTable(catalog, lake.name), DAY)
    assert caught.value.exit_code == 5


def test_a_refusal_of_a_commit_that_landed_throws_nothing_away(lake: Lake) -> None:
    """A request that was sent twice: the second one is refused, and the first one's manifests are the table's."""
    old = lake.shelf.publish(NEXT, "one")
    lake.commit(NEXT)
    rows = lake.shelf.publish(DAY, "one")
    with lake.catalog() as catalog:
        catalog.sends_twice = True
        done = lake.shelf.commit(IcebergTable(catalog, lake.name), DAY)
    assert (done and done.state, lake.snapshots()) == ("already", 2)
    assert keys_of(lake.rows()) == keys_of(old + rows)


def test_a_refused_commit_leaves_no_files_behind(lake: Lake) -> None:
    """Another run was first: what this one wrote for its commit is deleted, and nothing of the other one's."""
    lake.shelf.publish(DAY, "one")
    lake.shelf.publish(NEXT, "one")
    lake.commit()

    def metadata() -> set[str]:
        folder = Path(lake.table(lambda table: table.location()).removeprefix("file://")) / "metadata"
        return {path.name for path in folder.glob("*.avro")}

    with lake.catalog() as catalog:
        catalog.before_commit = lambda: lake.shelf.publish(DAY, "two", (4,)) and lake.commit()
        assert lake.shelf.commit(IcebergTable(catalog, lake.name), NEXT) is not None
    manifests = lake.table(
        lambda table: {
            path.rpartition("/")[2]
            for snapshot in table.snapshots()
            for path in (snapshot.manifest_list, *(each.manifest_path for each in snapshot.manifests(table.io)))
        }
    )
    assert metadata() == manifests
    assert lake.snapshots() == 3


def test_a_table_that_is_dropped_during_a_commit_is_made_again(lake: Lake) -> None:
    """As one that was dropped before: the day that is committed is in it, others come with their own next run."""
    other = lake.shelf.publish(NEXT, "one")
    lake.commit(NEXT)
    rows = lake.shelf.publish(DAY, "one")
    with lake.catalog() as catalog:
        catalog.before_commit = lambda: lake.table(lambda table: table.catalog.drop_table(lake.name))
        done = lake.shelf.commit(IcebergTable(catalog, lake.name), DAY)
    assert (done and done.state, keys_of(lake.rows())) == ("committed", keys_of(rows))
    assert lake.commit(NEXT) == "committed"
    assert keys_of(lake.rows()) == keys_of(rows + other)


@pytest.mark.skipif(REST_JARS is not None, reason="the server reads its metadata itself")
@pytest.mark.parametrize("what", ["metadata.json", "manifest list", "manifest"])
@pytest.mark.parametrize("damage", [b"", b"Obj\x01 no Avro", b"{"])
def test_a_damaged_table_is_refused_and_ends_no_other_day(lake: Lake, what: str, damage: bytes) -> None:
    """No reader can open it: it is not this day's fault, and repeating would not mend it."""
    lake.shelf.publish(DAY, "one")
    lake.commit()
    lake.shelf.publish(DAY, "two", (4,))

    def file_of(table: Any) -> str:  # noqa: ANN401 - pyiceberg's
        snapshot = table.current_snapshot()
        manifest = snapshot.manifests(table.io)[0].manifest_path
        return {"metadata.json": table.metadata_location, "manifest": manifest}.get(what, snapshot.manifest_list)

    Path(lake.table(file_of).removeprefix("file://")).write_bytes(damage)
    with pytest.raises(CatalogRefused, match="pyiceberg cannot work with what is there") as caught:
        lake.commit()
    assert "damaged" in caught.value.next_step


def _negative_length(data: bytes) -> bytes:
    return data[:5] + b"\x0b" + data[6:]


def _no_name(data: bytes) -> bytes:
    return data.replace(b'"name"', b'"nbme"', 1)


def _no_type(data: bytes) -> bytes:
    return data.replace(b'"long"', b'"lonf"', 1)


def _no_deflate(data: bytes) -> bytes:
    """Keep the header, with the mark of 16 bytes that ends it and each block, and the block's two lengths."""
    begin = data.index(data[-16:]) + 16 + 4
    return data[:begin] + b"\xff" * (len(data) - begin - 16) + data[-16:]


@pytest.mark.skipif(REST_JARS is not None, reason="the server reads its metadata itself")
@pytest.mark.parametrize(
    ("what", "damage", "cause"),
    [
        ("manifest", _negative_length, SystemError),
        ("manifest list", _negative_length, SystemError),
        ("manifest list", _no_name, KeyError),
        ("manifest list", _no_type, TypeError),
        ("manifest list", _no_deflate, zlib.error),
    ],
)
def test_whatever_the_decoder_of_a_damaged_file_raises_is_a_refusal(
    lake: Lake, what: str, damage: Callable[[bytes], bytes], cause: type[Exception]
) -> None:
    """Otherwise it would end the run of all days."""
    lake.shelf.publish(DAY, "one")
    lake.commit()
    lake.shelf.publish(DAY, "two", (4,))
    snapshot = lake.table(lambda table: table.current_snapshot())
    manifest = lake.table(lambda table: snapshot.manifests(table.io)[0].manifest_path)
    path = Path(path_of(manifest if what == "manifest" else snapshot.manifest_list))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CatalogRefused, match="pyiceberg cannot work with what is there") as caught:
        lake.commit()
    assert isinstance(caught.value.__cause__, cause)


@pytest.mark.parametrize("named", ["uncompressed", "snappy"])
def test_a_compression_that_pyiceberg_lacks_is_named_by_its_property(lake: Lake, named: str) -> None:
    """Spark takes it; every commit would be refused. One that pyiceberg has is taken."""
    lake.shelf.publish(DAY, "one")
    lake.commit()
    rows = lake.shelf.publish(DAY, "two", (4,))
    codec = "write.avro.compression-codec"
    lake.table(lambda table: _set(table, {codec: named}))
    with pytest.raises(CatalogRefused, match=f"(?i){named}") as caught:
        lake.commit()
    assert codec in caught.value.next_step
    lake.table(lambda table: _set(table, {codec: "zstd"}))
    assert (lake.commit(), keys_of(lake.rows())) == ("committed", keys_of(rows))


def _set(table: Any, properties: dict[str, str]) -> None:  # noqa: ANN401 - pyiceberg's
    with table.transaction() as transaction:
        transaction.set_properties(properties)


@pytest.mark.parametrize("defect", [KeyError("name"), TypeError(), AssertionError(), SystemError()])
def test_such_an_error_from_anywhere_else_is_a_defect(defect: Exception) -> None:
    """It says nothing of a file."""
    with pytest.raises(type(defect)), translated("loading"):
        raise defect


def test_a_name_that_glue_gave_to_another_kind_of_table_is_refused(lake: Lake) -> None:
    """`--iceberg events.raw` where that is a table of Hive's: at once, not when the waits are over."""
    glue = _OneTable({"EXTERNAL": "TRUE"})
    lake.shelf.publish(DAY, "one")
    catalog = GlueCatalog("glue", client=cast("Any", glue), warehouse="s3://tables")
    with pytest.raises(CatalogRefused, match=r"pyiceberg cannot work with what is there.*table_type") as caught:
        lake.shelf.commit(IcebergTable(catalog, "events.raw"), DAY)
    assert "name another table" in caught.value.next_step
    glue.parameters["table_type"] = "HUDI"
    with pytest.raises(CatalogRefused, match="HUDI"):
        lake.shelf.commit(IcebergTable(catalog, "events.raw"), DAY)


class _OneTable:
    """A client of a catalog that has `events.raw`, with the classes of errors that boto3's has."""

    def __init__(self, parameters: dict[str, str]) -> None:
        self.parameters = parameters

    def get_table(self, *, DatabaseName: str, Name: str) -> Any:  # noqa: ANN401, N803 - boto3's
        """Answer GetTable."""
        return {"Table": {"Name": Name, "DatabaseName": DatabaseName, "Parameters": self.parameters}}

    class exceptions:  # noqa: N801 - boto3's
        """None of them is raised."""

        class EntityNotFoundException(Exception):  # noqa: N818 - boto3's
            """There is no such table."""
