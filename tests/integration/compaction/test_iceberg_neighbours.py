"""Folders of an Iceberg table that are not its alone: vacuum takes nothing that another table leads to."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog

from compaction.commands.vacuum.command import table_lines, vacuum_table
from compaction.tables.orphans import TableFolders
from compaction.tables.table import IcebergTable
from minutebook.clock import SystemClock
from tests.fakes.failing_catalog import Fault
from tests.integration.lake import DAY, REST_JARS, Lake
from tests.integration.table_folders import age, files_of, filled, folder_of, history, left, path_of, vacuum


@pytest.fixture
def table(lake: Lake) -> Lake:
    """Return a lake whose table has two days, one of them twice."""
    return filled(lake)


def _at_the_same_place(lake: Lake, catalog: Catalog) -> str:
    name = f"{lake.name}_other"
    made = catalog.load_table(lake.name)
    catalog.create_table(name, made.schema(), location=made.location())
    return name


def _renamed(lake: Lake, catalog: Catalog) -> str:
    """Give an empty table another name; the one that is made by the old name gets the same folder."""
    name = f"{lake.name}_old"
    made = catalog.load_table(lake.name)
    location, schema, spec, properties = made.location(), made.schema(), made.spec(), made.properties
    catalog.drop_table(lake.name)
    catalog.create_table(name, schema, location=location, partition_spec=spec)
    catalog.create_table(lake.name, schema, location=location, partition_spec=spec, properties=properties)
    return name


@pytest.mark.parametrize(("make", "is_first"), [(_at_the_same_place, False), (_renamed, True)])
def test_an_empty_table_in_the_same_folder_lives_on(
    lake: Lake, make: Callable[[Lake, Catalog], str], *, is_first: bool
) -> None:
    """Its only metadata file cannot be told from that of a table whose making crashed."""
    if is_first:
        with lake.catalog() as catalog:
            IcebergTable(catalog, lake.name).look(DAY)
            metadata = catalog.load_table(lake.name).metadata_location
            other = make(lake, catalog)
        Path(path_of(metadata)).unlink()  # of the table that was dropped
    filled(lake)
    if not is_first:
        with lake.catalog() as catalog:
            other = make(lake, catalog)
    orphans = left(lake, "metadata/a-m0.avro")
    done = vacuum(lake)
    assert (done.reason, set(done.files)) == ("", orphans)
    with lake.catalog() as catalog:
        assert catalog.load_table(other).current_snapshot() is None


@pytest.mark.skipif(REST_JARS is not None, reason="an address that ends in a folder of its own is enough")
@pytest.mark.parametrize("tail", ["#1.avro", "?v=1.avro", "#.parquet"])
def test_a_file_whose_address_would_lead_to_another_one_stays(table: Lake, tail: str) -> None:
    """An address is read up to its `#` or `?`: a manifest of the table would be deleted."""
    manifests = table.table(
        lambda found: [each.manifest_path for each in found.current_snapshot().manifests(found.io)]
    )
    left(table, *(f"metadata/{uri.rpartition('/')[2]}{tail}" for uri in manifests))
    before, shown = files_of(folder_of(table)), history(table)
    assert vacuum(table).files == ()
    assert (files_of(folder_of(table)), history(table)) == (before, shown)


def test_an_object_whose_address_would_lead_to_another_one_stays(s3_lake: Lake) -> None:
    """The same on S3, where such keys are nothing special."""
    filled(s3_lake)

    def put(found: Any) -> None:  # noqa: ANN401 - pyiceberg's
        for uri in (each.manifest_path for each in found.current_snapshot().manifests(found.io)):
            scheme, netloc, path = found.io.parse_location(uri)
            with found.io.fs_by_scheme(scheme, netloc).open_output_stream(f"{path}#1.avro") as stream:
                stream.write(b"left")

    s3_lake.table(put)
    shown = history(s3_lake)
    assert vacuum(s3_lake).files == ()
    assert history(s3_lake) == shown


def test_files_behind_a_link_stay(table: Lake, tmp_path: Path) -> None:
    """They are in the folder of somebody else; the table's own folders may be links."""
    theirs = tmp_path / "theirs" / "live.parquet"
    theirs.parent.mkdir()
    theirs.write_bytes(b"live")
    folder = folder_of(table)
    orphans = left(table, "data/lost.parquet")
    (folder / "data" / "link").symlink_to(theirs.parent)
    (folder / "data").rename(tmp_path / "data")
    (folder / "data").symlink_to(tmp_path / "data")
    assert set(vacuum(table).files) == orphans
    assert theirs.exists()


@pytest.mark.skipif(REST_JARS is not None, reason="two catalogs on one folder")
def test_another_catalog_that_went_on_longer_ago_than_the_log_tells_is_seen(table: Lake, tmp_path: Path) -> None:
    """The log is short, and ours has gone on since; what it has forgotten is still there and tells."""

    def short(found: Any) -> None:  # noqa: ANN401 - pyiceberg's
        with found.transaction() as transaction:
            transaction.set_properties({"write.metadata.previous-versions-max": "2"})

    table.table(short)
    uri = f"sqlite:///{tmp_path / 'second.sqlite'}"
    with SqlCatalog("second", **(table.properties | {"uri": uri})) as second, table.catalog() as first:
        second.create_namespace("events")
        second.register_table(table.name, first.load_table(table.name).metadata_location)
        for catalog, generations in ((second, ("a", "b", "c")), (first, ("d", "e", "f", "g"))):
            for generation in generations:
                table.shelf.publish(DAY, generation, (2,))
                done = table.shelf.commit(IcebergTable(catalog, table.name), DAY)
                assert (done and done.state) == "committed"
        age(table)
        done = vacuum(table)
        assert (done.exit_code, "goes on where the catalog's table does not" in done.reason) == (6, True), done
        theirs = second.load_table(table.name)
        assert sum(theirs.scan(snapshot_id=each.snapshot_id).to_arrow().num_rows for each in theirs.snapshots())


@pytest.mark.parametrize("data", [b"(\xb5/\xfd packed otherwise", b"\x1f\x8b\x08\x00 not packed", b"<xml/>"])
def test_metadata_of_a_kind_that_nobody_knows_is_not_taken_for_torn(table: Lake, data: bytes) -> None:
    """It may be a live table's."""
    path = folder_of(table) / "metadata" / "00009-x.metadata.json"
    path.write_bytes(data)
    done = vacuum(table)
    assert (done.exit_code, path.name in done.reason, path.exists()) == (2, True, True), done


@pytest.mark.parametrize("data", [b"", b'{"format-version": 2, "tab', b"\0" * 64, b"\x1f\x8b\x08\x00"])
def test_metadata_that_was_torn_goes(table: Lake, data: bytes) -> None:
    """A machine went down while it was written; a file system may leave zeros."""
    assert set(vacuum(table).files) == set()
    path = folder_of(table) / "metadata" / "00009-x.metadata.json"
    path.write_bytes(data)
    assert vacuum(table).files == (str(path),)


def test_what_went_before_the_catalog_stayed_away_is_told(table: Lake) -> None:
    """Exit 5, and the files that are gone are counted and named: the table was not left alone."""
    orphans = left(table, *(f"data/{number}.parquet" for number in range(300)))
    with table.catalog(Fault(4, applied=False, crash=False)) as catalog:  # at the look before the second batch
        done = vacuum_table(TableFolders(catalog, table.name), SystemClock().now_ms() + 60_000, dry_run=False)
    gone = {path_of(uri) for uri in done.files}
    assert (done.exit_code, done.objects, gone) == (5, 256, orphans - files_of(folder_of(table)))
    [line] = table_lines(done, dry_run=False)
    assert line.startswith(f"table default.{table.name}: stopped after 256 object(s): ")
