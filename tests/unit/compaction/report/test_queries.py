"""The lines by which a report says how to read its day: they are run."""

import re
from pathlib import Path

import duckdb
import pytest

from compaction.job.context import AuditOptions
from compaction.report.cost import S3_STANDARD, cost_of, dollars, lists_of, readable_bytes
from compaction.report.page import render_page
from compaction.report.queries import queries
from compaction.report.trend import TrendDay, read_trend
from minutebook.store.places import open_storage
from minutebook.store.retrying import RetryingStorage
from tests.corpus.desk import DAY, Desk
from tests.fakes.day_results import day_result

CHECKOUT = Path(__file__).resolve().parents[4]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, int]:
    """Return the report of a day that was published just before, and its rows."""
    desk = Desk(tmp_path_factory.mktemp("desk"))
    desk.out = desk.out._replace(prefix="")  # as `--out FOLDER` is
    done = desk.compact(audit=AuditOptions())
    assert done.manifest is not None
    assert done.result is not None
    storage = RetryingStorage(open_storage(desk.out.address), desk.context().archive.new_backoff)
    page = render_page(done.result, read_trend(storage, desk.out, DAY), done.manifest.generation)
    return page, done.manifest.rows


def _lines(page: str, tool: str) -> str:
    query = re.search(rf'<pre tabindex="0" role="group" aria-label="{tool}">(.*?)</pre>', page, re.DOTALL)
    assert query is not None
    return query[1].replace("&#39;", "'").replace("&#34;", '"')


def test_duckdb_reads_the_generation(published: tuple[str, int]) -> None:
    """As it stands on the page: every row, by shard."""
    page, rows = published
    answer = duckdb.execute(_lines(page, "DuckDB")).fetchall()
    assert sum(row[1] for row in answer) == rows > 0


def test_python_reads_the_day(published: tuple[str, int]) -> None:
    """By the pointer."""
    page, rows = published
    *imports, _, last = _lines(page, "Python").splitlines()
    names: dict[str, object] = {}
    exec("\n".join([*imports, f"rows = {last}"]), names)  # noqa: S102 - what the page tells people to run
    assert names["rows"] == rows


def test_the_page_names_the_files_and_what_they_cost(published: tuple[str, int]) -> None:
    """The folder of the generation, and the bytes of its manifest as a row of the costs."""
    page, _ = published
    assert re.search(rf"manifest names in <code>/\S+/dt={DAY}/_gen-[0-9a-f]+/</code>", page)
    assert "keep the published Parquet" in page


def test_addresses_are_those_of_each_engine() -> None:
    """Quotes in a path stay inside their texts; Spark's own client has another scheme."""
    day = TrendDay("2026-11-20", "clean", 1, None, "g", files=("it's/dt=2026-11-20/_gen-g/part-1.parquet",))
    by_tool = {each.tool: each for each in queries("s3://b/it's/", day)}
    assert "'s3://b/it''s/dt=2026-11-20/_gen-g/part-1.parquet'" in by_tool["DuckDB"].lines
    assert """read("s3://b/it's/", '2026-11-20', '2026-11-20')""" in by_tool["Python"].lines
    assert 'read_day(spark, "s3a://b/it\'s/"' in by_tool["Spark"].lines
    assert "CREATE SECRET" in by_tool["DuckDB"].note


@pytest.mark.parametrize("files", [None, (), ("dt=2026-11-20/_gen-g/part-1.parquet",) * 21])
def test_a_query_of_files_names_those_that_count_or_is_left_out(files: tuple[str, ...] | None) -> None:
    """A pattern would also read files of tasks that ran twice. A reader follows the manifest, however long."""
    tools = [each.tool for each in queries("s3://b/", TrendDay("2026-11-20", "clean", 1, None, "g", files=files))]
    assert tools == ["Python", "Spark", "Athena"]


def test_a_day_costs_its_requests_and_its_bytes() -> None:
    """A thousand busy shards: the numbers of the page on costs."""
    cost = cost_of(day_result(1_000).audit, parquet_bytes=2**40)
    by_unit = {line.unit: line for line in cost.lines}
    assert (by_unit["PUT"].number, by_unit["LIST"].number, by_unit["GET"].number) == (
        "1,440,000",
        "1,440",
        "1,440,000",
    )
    assert by_unit["PUT"].dollars == pytest.approx(7.2)
    assert by_unit["LIST"].dollars == pytest.approx(0.0072)
    assert by_unit["GET"].dollars == pytest.approx(0.576)
    assert cost.lines[-1].dollars == pytest.approx(1024 * S3_STANDARD.per_gb_month)
    assert cost.once == pytest.approx(7.2 + 0.0072 + 0.576)
    assert lists_of([0, 1, 1000, 1001]) == 5


def test_a_level_that_reads_no_line_costs_heads() -> None:
    """Names and metadata alone; and what is not known of the output has no row."""
    result = day_result(1)
    audit = type(result.audit)(
        **{name: getattr(result.audit, name) for name in result.audit.__struct_fields__} | {"level": "inventory"}
    )
    assert [line.unit for line in cost_of(audit, None).lines] == ["PUT", "LIST", "HEAD", "stored"]


def test_amounts_are_readable() -> None:
    """However small or large."""
    amounts = (0, 0.000_05, 0.000_123, 0.0072, 0.031, 0.576, 7.2, 1234.5)
    assert [dollars(amount) for amount in amounts] == [
        "$0", "below $0.0001", "$0.00012", "$0.0072", "$0.031", "$0.576", "$7.20", "$1,234.50",
    ]  # fmt: skip
    assert [readable_bytes(size) for size in (0, 1023, 1024, 1_845_710_400, 2**50)] == [
        "0 bytes", "1,023 bytes", "1.0 KiB", "1.7 GiB", "1,024.0 TiB",
    ]  # fmt: skip


def test_the_prices_are_those_of_the_page_on_costs() -> None:
    """One table of prices, in words."""
    page = " ".join((CHECKOUT / "docs" / "how-to" / "cost.md").read_text().split())
    put, get, month = S3_STANDARD
    assert f"${put:g} per 1,000 PUT or LIST, ${get:g} per 1,000 GET or HEAD, ${month:g} per GB and month" in page
