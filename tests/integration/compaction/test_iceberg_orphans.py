"""SIGKILL at every file of an Iceberg commit: what is left is found, all of it and nothing else, and no row goes."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.killed_commit import KilledCommits, killed_commits
from tests.integration.lake import DAY, NEXT, REST_JARS, Lake, local_lake
from tests.integration.table_folders import counted, files_of, folder_of, history, path_of, vacuum
from tests.searching import IS_DEEP

IS_THOROUGH = IS_DEEP or REST_JARS is not None


@pytest.fixture(scope="module")
def commits() -> Iterator[KilledCommits]:
    """Start what forks the commits."""
    with killed_commits() as started:
        yield started


@pytest.mark.usefixtures("rest_uri")
@pytest.mark.parametrize("first", [True, False], ids=["the table's first commit", "a later generation"])
def test_what_a_killed_commit_wrote_is_found_and_goes(tmp_path: Path, commits: KilledCommits, *, first: bool) -> None:
    """In front of each step, by default of each second one: exactly what it wrote, torn or whole.

    Every snapshot reads as before.

    The metadata of a table whose making was killed stays: it might be that of an empty table in the same folder.
    """
    kinds: set[tuple[str, bool]] = set()
    for at in itertools.count(1, 1 if IS_THOROUGH else 2):
        lake = local_lake(tmp_path / f"{at}")
        if not first:
            lake.shelf.publish(NEXT, "one")
            lake.shelf.publish(DAY, "one")
            assert (lake.commit(NEXT), lake.commit()) == ("committed", "committed")
        lake.shelf.publish(DAY, "two", (4, 1))
        root = tmp_path.parent if first else folder_of(lake)  # a server has its tables beside
        before = files_of(root)
        if not commits.kill(lake, at):
            break
        new = files_of(root) - before  # a server's checksums are Hadoop's, and no Iceberg file
        left = {uri for uri in new if "/metadata/" in uri and not uri.endswith(".crc")}
        torn = {uri: Path(uri).stat().st_size == 0 for uri in left}
        assert lake.commit() in {"committed", "already"}
        kept = files_of(folder_of(lake))
        orphans = left - _referenced(lake) - _of_other_tables(lake, left)
        shown, rows = history(lake), len(lake.rows())

        said = vacuum(lake, apply=False)
        assert (set(said.files), files_of(folder_of(lake))) == (orphans, kept)
        done = vacuum(lake)

        assert (done.reason, done.files, done.objects) == ("", said.files, len(orphans))
        assert files_of(folder_of(lake)) == kept - orphans
        assert (history(lake), counted(lake)) == (shown, rows)
        assert vacuum(lake).files == ()
        lake.shelf.publish(DAY, "three", (1,))
        assert lake.commit() == "committed"
        kinds |= {(_kind(uri), torn[uri]) for uri in orphans}
    written = {"list", "manifest"} if REST_JARS else {"list", "manifest", "metadata"}  # by the server, there
    every = {(kind, is_torn) for kind in written for is_torn in (True, False)}
    assert kinds <= every
    # pyiceberg writes manifests in threads: which file is torn at each second step is a race's outcome.
    assert kinds == every if IS_THOROUGH else {kind for kind, _ in kinds} == written


def _kind(uri: str) -> str:
    if uri.endswith(".metadata.json"):
        return "metadata"
    return "list" if "/snap-" in uri else "manifest"


def _referenced(lake: Lake) -> set[str]:
    """Return metadata files, manifest lists and manifests, as pyiceberg's own inspection tells them."""

    def read(table: Any) -> set[str]:  # noqa: ANN401 - pyiceberg's
        lists = {each.manifest_list for each in table.snapshots()}
        log = set(table.inspect.metadata_log_entries()["file"].to_pylist())
        return {path_of(uri) for uri in lists | log | set(table.inspect.all_manifests()["path"].to_pylist())}

    found: set[str] = lake.table(read)
    return found


def _of_other_tables(lake: Lake, left: set[str]) -> set[str]:
    ours = str(lake.table(lambda table: table.metadata.table_uuid))
    whole = {uri: Path(uri).read_text() for uri in left if _kind(uri) == "metadata" and Path(uri).stat().st_size}
    return {uri for uri, text in whole.items() if json.loads(text)["table-uuid"] != ours}
