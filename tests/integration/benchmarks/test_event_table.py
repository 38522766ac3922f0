"""The benchmark that asks readers of a table by event: with those that need nothing."""

import pytest

from benchmarks import event_table


def test_duckdb_counts_what_pyiceberg_reads(capsys: pytest.CaptureFixture[str]) -> None:
    """Rows by event day and without one are all rows, before the last night, too; `make readers` asks the others."""
    assert event_table.main([]) == 0
    assert "right: DuckDB, of pyiceberg's scan; opened for one day: 3 of 9" in capsys.readouterr().out
