"""The demo's end: its query on the Parquet, and its verdict on the nightly job."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.utils.config import Config

from demo.command import demo
from demo.nightly import Nightly, count_rows, days_so_far
from demo.readback import read_archive
from demo.table import CATALOG, TableRows, catalog_properties, catalog_variables, read_table
from minutebook.errors import SettingsError
from tests.fakes.archive_scene import PREFIX, MemoryScene
from tests.fakes.clock import START_MS


def _write(folder: Path, name: str, *shards: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"shard_id": list(shards), "data": ["x"] * len(shards)}), folder / name)


def test_rows_are_counted_by_shard_over_all_days(tmp_path: Path) -> None:
    """A demo over midnight publishes two days."""
    _write(tmp_path / "dt=2026-11-21" / "_gen-a", "part-0.parquet", "s0", "s1", "s0")
    _write(tmp_path / "dt=2026-11-22" / "_gen-b", "part-0.parquet", "s1")
    assert count_rows(tmp_path) == {"s0": 2, "s1": 2}


def test_a_day_that_is_not_over_is_judged_up_to_the_last_minute() -> None:
    """The end of what was sent, over midnight, too: a whole day would be unknown."""
    scene = MemoryScene("shardId-000000000000")
    scene.segment("shardId-000000000000", START_MS // 60_000)
    scene.segment("shardId-000000000000", START_MS // 60_000 + 1440)
    options = days_so_far(read_archive(scene.store, PREFIX))
    assert options[:6] == [
        "--from",
        "2026-11-21",
        "--to",
        "2026-11-22",
        "--so-far",
        "2026-11-22T10:17:00.000Z",
    ]


def test_nothing_published_is_no_rows(tmp_path: Path) -> None:
    """A job that was held leaves no files."""
    assert count_rows(tmp_path) == {}


@pytest.mark.parametrize(("compact_code", "audit_code", "clean"), [(0, 0, True), (4, 0, False), (0, 3, False)])
def test_both_commands_must_be_clean(compact_code: int, audit_code: int, clean: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a case
    """Unproven is not clean."""
    nightly = Nightly(compact_code=compact_code, audit_code=audit_code, parquet=tmp_path)
    assert nightly.is_clean is clean


def test_the_table_must_have_each_row_once_too(tmp_path: Path) -> None:
    """A row that is there twice, or not, is no success; without pyiceberg the Parquet is asked alone."""
    nightly = Nightly(compact_code=0, audit_code=0, parquet=tmp_path, rows={"s0": 2, "s1": 1})
    assert nightly.holds({"s0": 2, "s1": 1})
    for rows, holds in (({"s0": 2, "s1": 1}, True), ({"s0": 2}, False), ({"s0": 2, "s1": 2}, False)):
        assert replace(nightly, table=TableRows(rows, "", "")).holds({"s0": 2, "s1": 1}) is holds
    assert not nightly.holds({"s0": 2})


def test_every_command_finds_the_catalog_by_its_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a table that nobody has committed to has no rows."""
    for name, value in catalog_variables(tmp_path).items():
        monkeypatch.setenv(name, value)
    assert Config().get_catalog_config(CATALOG) == catalog_properties(tmp_path)
    assert read_table(tmp_path) is None


def test_an_unknown_mode_is_refused_before_anything_starts() -> None:
    """The message names the modes."""
    with pytest.raises(SettingsError, match="no mode 'claim'"):
        demo("claim")
