"""Vacuum of an Iceberg table's folders: what stays, whoever changes the table meanwhile.

It leaves a table alone whose metadata it cannot read wholly, or whose folders are not its own.
"""

import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.table.statistics import StatisticsFile

from compaction.commands.vacuum.command import table_lines, vacuum_table
from compaction.publish.publisher import GRACE_MS
from compaction.tables.orphans import Orphans, TableFile, TableFolders
from compaction.tables.table import IcebergTable
from minutebook.clock import SystemClock
from minutebook.published.schema import SCHEMA
from tests.corpus.shelf import keys_of
from tests.fakes.failing_catalog import Fault
from tests.integration.lake import DAY, NEXT, REST_JARS, Lake
from tests.integration.table_folders import ORPHANS, age, files_of, filled, folder_of, history, left, path_of, vacuum


@pytest.fixture
def table(lake: Lake) -> Lake:
    """Return a lake whose table has two days, one of them twice."""
    return filled(lake)


def test_what_is_young_stays(table: Lake) -> None:
    """A commit may be on its way."""
    [uri] = left(table, "metadata/a-m0.avro")
    path = Path(uri)
    os.utime(path, (1_000_000.0, 1_000_000.0))
    assert vacuum(table, before_ms=1_000_000_000).files == ()
    assert vacuum(table, before_ms=1_000_000_001).files == (uri,)
    assert not path.exists()


def test_what_others_put_there_and_what_is_published_there_stays(table: Lake) -> None:
    """By names that no writer of Iceberg gives, beside its two folders, and of days that are published there."""
    theirs = left(
        table,
        "metadata/version-hint.text",
        "metadata/README.md",
        "notes/a.parquet",
        "a.avro",
        f"data/dt={DAY}/_gen-a/part-00077.parquet",
    )
    orphans = left(table, *ORPHANS)
    done = vacuum(table)
    assert (set(done.files), done.bytes) == (orphans, 4 * len(orphans))
    assert theirs <= files_of(folder_of(table))


def _with_statistics(table: Any) -> None:  # noqa: ANN401 - pyiceberg's
    snapshot = table.current_snapshot().snapshot_id
    given = {"snapshot-id": snapshot, "statistics-path": f"{table.location()}/metadata/b.stats"}
    sizes = {"file-size-in-bytes": 4, "file-footer-size-in-bytes": 1, "blob-metadata": []}
    with table.update_statistics() as update:
        update.set_statistics(StatisticsFile.model_validate(given | sizes))


def test_statistics_and_files_of_the_tables_own_stay(table: Lake) -> None:
    """What maintenance writes below the table's location, also when a later snapshot deleted it."""
    path = folder_of(table) / "data" / "arrival_day=2026-11-20" / "kept.parquet"
    path.parent.mkdir(parents=True)

    def rewrite(found: Any) -> None:  # noqa: ANN401 - pyiceberg's
        condition = f"arrival_time < '{NEXT}T00:00:00+00:00'"
        pq.write_table(found.scan(row_filter=condition).to_arrow(), path)
        with found.transaction() as transaction, transaction.update_snapshot().overwrite() as overwrite:
            for task in found.scan(row_filter=condition).plan_files():
                overwrite.delete_data_file(task.file)
            overwrite.append_data_file(parquet_file_to_data_file(found.io, found.metadata, f"file://{path}"))

    table.table(rewrite)
    table.table(_with_statistics)
    table.shelf.publish(DAY, "three", (4,))
    assert table.commit() == "committed"
    before = history(table)
    orphans = left(table, "metadata/a-m0.avro", "data/arrival_day=2026-11-20/lost.parquet")
    stats = left(table, "metadata/b.stats")
    assert set(vacuum(table).files) == orphans
    assert {str(path), *stats} <= files_of(folder_of(table))
    assert history(table) == before
    *past, _ = table.table(lambda found: [each.snapshot_id for each in found.snapshots()])
    table.table(lambda found: found.maintenance.expire_snapshots().by_ids(past).commit())
    assert vacuum(table).files
    assert path.exists(), "the snapshot that deleted it names it"


def test_a_snapshot_that_was_expired_lately_stays_whole(table: Lake) -> None:
    """A query may have begun on it; what was expired longer ago than the age goes, and the rest reads on."""
    before = files_of(folder_of(table))
    first = table.table(lambda found: found.snapshots()[0].snapshot_id)
    at = SystemClock().now_ms()
    table.table(lambda found: found.maintenance.expire_snapshots().by_id(first).commit())
    assert [uri for uri in vacuum(table, before_ms=at).files if uri in before] == []
    shown = history(table)
    gone = vacuum(table).files
    assert [uri.rpartition("/")[2].startswith("snap-") for uri in gone] == [True]
    assert (history(table), len(shown)) == (shown, 2)


def test_an_expired_snapshot_that_the_log_has_forgotten_stays_as_long(table: Lake) -> None:
    """A log holds so and so many metadata files: how long ago that was depends on how often is committed."""
    with table.catalog() as catalog, catalog.load_table(table.name).transaction() as transaction:
        transaction.set_properties({"write.metadata.previous-versions-max": "2"})
    before = files_of(folder_of(table))
    first = table.table(lambda found: found.snapshots()[0])
    at = SystemClock().now_ms()
    table.table(lambda found: found.maintenance.expire_snapshots().by_id(first.snapshot_id).commit())
    for number in range(4):
        table.shelf.publish(DAY, f"g{number}", (2,))
        assert table.commit() == "committed"
    kept = files_of(folder_of(table)) - set(vacuum(table, before_ms=at).files)
    assert {uri for uri in before if "/snap-" in uri} <= kept
    assert path_of(first.manifest_list) in vacuum(table).files


def test_a_commit_during_vacuum_loses_nothing(table: Lake) -> None:
    """A run that slept for longer than the age commits between the look and the deletes: its files stay."""
    table.shelf.publish(DAY, "three", (1, 1))
    orphans = left(table, "metadata/a-m0.avro")
    found: list[Orphans] = []

    def slept() -> None:
        with table.catalog() as other:
            found.append(TableFolders(other, table.name).find(SystemClock().now_ms() + 60_000))

    with table.catalog() as catalog:
        catalog.before_commit = slept
        done = table.shelf.commit(IcebergTable(catalog, table.name), DAY)
        assert (done and done.state) == "committed"
        assert len(found[0].files) >= 4, "what the commit had written was an orphan then"
        shown = history(table)
        gone: list[TableFile] = []
        TableFolders(catalog, table.name).delete(found[0], gone.append)
    assert {path_of(file.uri) for file in gone} == orphans
    assert history(table) == shown
    assert vacuum(table).files == ()


def test_a_commit_that_slept_until_vacuum_took_its_files_is_made_anew(table: Lake) -> None:
    """A machine is suspended for days between the files and the request: what it would name is gone."""
    table.shelf.publish(DAY, "three", (1, 1))
    times = itertools.chain([0.0, 8 * 86_400.0], itertools.repeat(8 * 86_400.0))
    gone: list[str] = []

    class Suspended(SystemClock):
        def monotonic(self) -> float:
            if (now := next(times)) and not gone:
                gone.extend(vacuum(table).files)
            return now

    with table.catalog() as catalog:
        done = table.shelf.commit(IcebergTable(catalog, table.name, clock=Suspended()), DAY)
    assert (done and done.state, len(gone) >= 3) == ("committed", True)
    assert [len(rows) for rows in history(table)][-1] == len(table.rows())
    assert vacuum(table).reason == ""


def test_commits_during_the_look_are_not_taken_for_another_catalogs(table: Lake) -> None:
    """Several, between the listing and the reading."""
    orphans = left(table, "metadata/a-m0.avro")

    def others() -> None:
        for generation in ("three", "four", "five"):
            table.shelf.publish(DAY, generation, (2,))
            assert table.commit() == "committed"

    with table.catalog() as catalog:
        catalog.before_load = others
        done = vacuum_table(TableFolders(catalog, table.name), SystemClock().now_ms() + 60_000, apply=True)
    assert (done.reason, {path_of(uri) for uri in done.files}) == ("", orphans)


def test_metadata_that_the_log_has_forgotten_goes(lake: Lake) -> None:
    """It is no other catalog's, and no snapshot needs it."""
    lake.shelf.publish(NEXT, "one")
    lake.commit(NEXT)
    with lake.catalog() as catalog, catalog.load_table(lake.name).transaction() as transaction:
        transaction.set_properties({"write.metadata.previous-versions-max": "2"})
    for number in range(4):
        lake.shelf.publish(DAY, f"g{number}", (2,))
        lake.commit()
    shown = history(lake)
    done = vacuum(lake)
    assert done.reason == ""
    assert len(done.files) >= 3
    assert all(uri.endswith(".metadata.json") for uri in done.files)
    assert history(lake) == shown


def test_the_same_on_s3(s3_lake: Lake) -> None:
    """Keys are listed with their dates, and deleted, by pyiceberg's own access to the files."""
    rows = s3_lake.shelf.publish(DAY, "one")
    assert s3_lake.commit() == "committed"

    def leave(found: Any) -> list[str]:  # noqa: ANN401 - pyiceberg's
        uris = [f"{found.location()}/{name}" for name in ORPHANS]
        for uri in uris:
            with found.io.new_output(uri).create() as stream:
                stream.write(b"left")
        return uris

    uris = s3_lake.table(leave)
    assert vacuum(s3_lake, before_ms=SystemClock().now_ms() - GRACE_MS).files == ()
    done = vacuum(s3_lake)
    assert (set(done.files), done.bytes) == (set(uris), 20)
    assert keys_of(s3_lake.rows()) == keys_of(rows)
    assert vacuum(s3_lake).files == ()


def _metadata(lake: Lake) -> dict[str, Any]:
    location = path_of(lake.table(lambda found: found.metadata_location))
    read: dict[str, Any] = json.loads(Path(location).read_text())
    return read


def _put(lake: Lake, name: str, said: dict[str, Any]) -> None:
    (folder_of(lake) / "metadata" / name).write_text(json.dumps(said))


def _another_tables(lake: Lake) -> None:
    """Lay down the metadata of a table that was dropped, and whose files nobody deleted."""
    _put(lake, "00004-x.metadata.json", _metadata(lake) | {"table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1"})


def _another_catalogs(lake: Lake) -> None:
    """Lay down two commits of a catalog in which the table is registered, too."""
    said, now = _metadata(lake), SystemClock().now_ms() + 5_000
    log, newest = said["metadata-log"], lake.table(lambda found: found.metadata_location)
    for number in (4, 5):
        log = [*log, {"metadata-file": newest, "timestamp-ms": now if number > 4 else said["last-updated-ms"]}]
        _put(lake, f"0000{number}-x.metadata.json", said | {"metadata-log": log, "last-updated-ms": now})
        newest = f"{said['location']}/metadata/0000{number}-x.metadata.json"


def _newer_version(lake: Lake) -> None:
    _put(lake, "00004-x.metadata.json", _metadata(lake) | {"format-version": 9})


def _damaged(pattern: str, data: bytes | None) -> Callable[[Lake], None]:
    def damage(lake: Lake) -> None:
        for path in (folder_of(lake) / "metadata").glob(pattern):
            if data is None:
                path.unlink()
            else:
                path.write_bytes(data)

    return damage


@pytest.mark.parametrize(
    ("harm", "code", "why"),
    [
        (_another_tables, 6, "00004-x.metadata.json is of another table, which has rows"),
        (_another_catalogs, 6, "00005-x.metadata.json goes on where the catalog's table does not"),
        (_newer_version, 2, "00004-x.metadata.json: pyiceberg cannot work with what is there"),
        (_damaged("snap-*", None), 2, ".avro is gone, and the table names it"),
        (_damaged("snap-*", b"Obj"), 2, ".avro: pyiceberg cannot work with what is there"),
        (_damaged("*-m0.avro", None), 2, "-m0.avro is gone, and the table names it"),
        (_damaged("*-m0.avro", b"Obj"), 2, "-m0.avro: pyiceberg cannot work with what is there"),
        (_damaged("00000-*", b""), 2, ".metadata.json: pyiceberg cannot work with what is there"),
        (_damaged("00000-*", None), 2, ".metadata.json is gone, and the table names it"),
    ],
)
def test_a_table_that_cannot_be_read_wholly_is_left_alone(
    table: Lake, harm: Callable[[Lake], None], code: int, why: str
) -> None:
    """Nothing goes, and the message names the file and what to do."""
    left(table, *ORPHANS)
    age(table)
    harm(table)
    before = files_of(folder_of(table))
    done = vacuum(table, before_ms=SystemClock().now_ms() - GRACE_MS)
    assert files_of(folder_of(table)) == before
    assert (done.exit_code, done.files, why in done.reason) == (code, (), True), done
    [line] = table_lines(done, apply=True)
    assert line.startswith(f"table default.{table.name}: left alone: ")
    assert done.next_step
    assert line.endswith(done.next_step)


def test_another_tables_metadata_of_the_same_name_is_looked_at(lake: Lake) -> None:
    """Catalogs of folders call them v4.metadata.json: a name in our log may be that of another table's file."""
    test_metadata_that_the_log_has_forgotten_goes(lake)
    with lake.catalog() as catalog:
        known = catalog.load_table(lake.name).metadata.metadata_log
    for number in range(4):
        lake.shelf.publish(DAY, f"h{number}", (2,))
        lake.commit()
    name = known[0].metadata_file.rpartition("/")[2]
    folder = folder_of(lake) / "data/other/metadata"
    folder.mkdir(parents=True)
    (folder / name).write_text(json.dumps(_metadata(lake) | {"table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1"}))
    before = files_of(folder_of(lake))
    done = vacuum(lake)
    assert (done.exit_code, done.files, files_of(folder_of(lake))) == (6, (), before)
    assert f"other/metadata/{name} is of another table, which has rows" in done.reason


@pytest.mark.parametrize("data", [b"", None])
def test_metadata_between_two_that_tell_its_snapshots_is_not_read(table: Lake, data: bytes | None) -> None:
    """A commit each minute leaves ten thousand a week, each with all snapshots of its time."""
    orphans = left(table, *ORPHANS)
    age(table)
    _damaged("00001-*", data)(table)
    shown = history(table)
    done = vacuum(table, before_ms=SystemClock().now_ms() - GRACE_MS)
    assert (done.reason, {path_of(uri) for uri in done.files}, history(table)) == ("", orphans, shown)


def _cut(lake: Lake, pattern: str) -> None:
    """Cut Avro files behind their header, or behind a block: they read well, and hold less."""
    for path in (folder_of(lake) / "metadata").glob(pattern):
        body = path.read_bytes()
        mark = body[-16:]
        end = body.index(mark) + len(mark)
        path.write_bytes(body[:end])


@pytest.mark.parametrize(("pattern", "what"), [("snap-*", "files"), ("*-m0.avro", "entries")])
def test_metadata_that_was_cut_short_is_not_believed(table: Lake, pattern: str, what: str) -> None:
    """It reads without an error."""
    _cut(table, pattern)
    before = files_of(folder_of(table))
    done = vacuum(table)
    assert (done.exit_code, "is damaged: it holds 0 of" in done.reason, what in done.reason) == (2, True, True), done
    assert files_of(folder_of(table)) == before


@pytest.mark.skipif(REST_JARS is not None, reason="the server reads its metadata itself")
def test_a_list_without_its_manifests_of_deletes_is_not_believed(table: Lake) -> None:
    """It was cut between them and those of data: the table would lose its deletes for good."""
    location, said = Path(path_of(table.table(lambda found: found.metadata_location))), _metadata(table)
    said["snapshots"][-1]["summary"]["total-delete-files"] = "2"
    location.write_text(json.dumps(said))
    orphans = left(table, *ORPHANS)
    done = vacuum(table)
    assert (done.exit_code, "is damaged: it holds 0 of 2 delete-files" in done.reason) == (2, True), done
    assert orphans <= files_of(folder_of(table))


def test_a_table_that_is_not_there_or_not_ours_is_refused(lake: Lake) -> None:
    """Exit code 2."""
    assert "there is no table" in (none := vacuum(lake)).reason
    with lake.catalog() as catalog:
        catalog.create_namespace(lake.name.partition(".")[0])
        catalog.create_table(lake.name, SCHEMA)
    left(lake, *ORPHANS)
    theirs = vacuum(lake)
    assert "no table of published days" in theirs.reason
    assert (none.exit_code, theirs.exit_code) == (2, 2)


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
        done = vacuum_table(TableFolders(catalog, table.name), SystemClock().now_ms() + 60_000, apply=True)
    gone = {path_of(uri) for uri in done.files}
    assert (done.exit_code, done.objects, gone) == (5, 256, orphans - files_of(folder_of(table)))
    [line] = table_lines(done, apply=True)
    assert line.startswith(f"table default.{table.name}: stopped after 256 object(s): ")
