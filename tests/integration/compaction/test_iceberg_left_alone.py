"""An Iceberg table whose metadata cannot be read wholly, or whose folders are not its own: vacuum leaves it alone."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compaction.commands.vacuum.command import table_lines
from compaction.publish.publisher import GRACE_MS
from minutebook.clock import SystemClock
from minutebook.published.schema import SCHEMA
from tests.integration.lake import REST_JARS, Lake
from tests.integration.table_folders import ORPHANS, age, files_of, filled, folder_of, left, path_of, vacuum


@pytest.fixture
def table(lake: Lake) -> Lake:
    """Return a lake whose table has two days, one of them twice."""
    return filled(lake)


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
        (_damaged("00001-*", b""), 2, ".metadata.json: pyiceberg cannot work with what is there"),
        (_damaged("00001-*", None), 2, ".metadata.json is gone, and the table names it"),
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
    [line] = table_lines(done, dry_run=False)
    assert line.startswith(f"table default.{table.name}: left alone: ")
    assert done.next_step
    assert line.endswith(done.next_step)


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
