"""Vacuum of an Iceberg table's folders: what stays, whoever changes the table meanwhile, and what is left alone."""

import itertools
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.table.statistics import StatisticsFile

from compaction.commands.vacuum.command import vacuum_table
from compaction.publish.publisher import GRACE_MS
from compaction.tables.orphans import Orphans, TableFile, TableFolders
from compaction.tables.table import IcebergTable
from minutebook.clock import SystemClock
from tests.corpus.shelf import keys_of
from tests.integration.lake import DAY, NEXT, Lake
from tests.integration.table_folders import ORPHANS, files_of, filled, folder_of, history, left, path_of, vacuum


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
        done = vacuum_table(TableFolders(catalog, table.name), SystemClock().now_ms() + 60_000, dry_run=False)
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
