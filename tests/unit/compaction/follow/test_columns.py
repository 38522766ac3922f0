"""The columns that follow writes by: of a file that may change, without what the table has not taken."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from compaction.columns.columns import Columns
from compaction.columns.steps import GLUE_REGISTRY
from compaction.follow.columns import FollowedColumns
from compaction.tables.plan import Conflict
from minutebook.errors import SettingsError

HOUR = 3_600_000
NOW = 500_000 * HOUR


def _names(columns: Columns | None) -> list[str]:
    return [] if columns is None else [column.name for column in columns.columns]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file of two columns."""
    path = tmp_path / "columns.toml"
    path.write_text('[columns]\na = "int64"\nb = "bool"\n')
    return path


def test_a_file_is_read_again_at_each_tick(file: Path) -> None:
    """One that is gone or does not parse is told once; what was there before stays, and then comes the next."""
    columns = FollowedColumns(file)
    assert _names(columns.used) == ["a", "b"]
    file.write_text("[columns]\na = ")
    with capture_logs() as logs:
        for _ in range(2):
            columns.begin(NOW)
            assert _names(columns.used) == ["a", "b"]
        file.unlink()
        columns.begin(NOW)
    assert ([each["event"] for each in logs], _names(columns.used)) == (["columns_not_read"] * 2, ["a", "b"])
    file.write_text('[columns]\nc = "int64"\n')
    columns.begin(NOW)
    assert _names(columns.used) == ["c"]


def test_a_file_that_holds_no_columns_is_refused_at_the_start(tmp_path: Path) -> None:
    """With the command's other settings."""
    with pytest.raises(SettingsError, match="cannot be read"):
        FollowedColumns(tmp_path / "none.toml")


def test_what_the_table_has_not_taken_is_left_out_from_the_next_tick_on(file: Path) -> None:
    """It is told once, and tried again after an hour, or with another type."""
    columns, conflict = FollowedColumns(file), Conflict("a", "string", "int64")
    columns.begin(NOW)
    with capture_logs() as logs:
        columns.leave_out({"a": ("int64", conflict)}, NOW)
        assert _names(columns.used) == ["a", "b"]
        columns.begin(NOW + HOUR - 1)
        assert _names(columns.used) == ["b"]
        columns.begin(NOW + HOUR)
        assert _names(columns.used) == ["a", "b"]
        columns.leave_out({"a": ("int64", conflict)}, NOW + HOUR)
    assert [each["conflicts"] for each in logs] == [["column a: the table has string, the day int64"]]
    file.write_text('[columns]\na = "string"\n')
    columns.begin(NOW + HOUR + 1)
    assert _names(columns.used) == ["a"]
    columns.leave_out({"a": ("string", conflict)}, NOW + HOUR)
    columns.begin(NOW + HOUR + 2)
    assert columns.used is None


def test_events_of_records_need_their_number(file: Path) -> None:
    """Without it a record's rows could not be told apart."""
    file.write_text('decode = ["documents"]\n[columns]\na = "int64"\n')
    columns = FollowedColumns(file)
    for name in ("event_index", "a"):
        kind = columns.used.types[name] if columns.used else ""
        columns.leave_out({name: (kind, Conflict(name, "string", kind))}, NOW)
        columns.begin(NOW)
        assert columns.used is None
        columns.begin(NOW + HOUR)


def test_columns_that_need_a_registry_are_the_nights(file: Path) -> None:
    """Rows are shown without any, and that is told once."""
    file.write_text(f'decode = ["{GLUE_REGISTRY}"]\n[columns]\na = "int64"\n')
    columns = FollowedColumns(file)
    with capture_logs() as logs:
        for _ in range(2):
            columns.begin(NOW)
            assert columns.used is None
    assert [each["event"] for each in logs] == ["columns_left_out"]
