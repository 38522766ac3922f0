"""A day with typed columns: all its rows, each reason, the numbers of its audit, and where a column begins."""

import re
from pathlib import Path

import duckdb
import msgspec
import pyarrow as pa
import pytest

from compaction.columns.columns import EARLIER_RULES, RULES
from compaction.columns.counts import First, FirstValues, TypedCounts
from compaction.night.days.run import limited, row_of_compaction
from compaction.night.rewrite import Compacted
from compaction.parquet.line_tables import table_of_records
from compaction.report.page import render_page
from compaction.report.screen import show_audit
from compaction.verdict.audit_document import decode_audit, publishable
from minutebook.format.position import Position
from minutebook.format.record import Record
from minutebook.terminal import TerminalConsole
from tests.corpus.desk import DAY, Desk
from tests.corpus.typed_day import COLUMNS, MISFITS, miscounting, typed_day
from tests.fakes.typed_lines import mapping


class Night(msgspec.Struct):
    """A day that was published with columns. `reasons` are those of its rows, in their order."""

    desk: Desk
    done: Compacted
    reasons: list[str | None]
    files: list[str]

    def sql(self, query: str) -> list[tuple[object, ...]]:
        """Ask DuckDB; `day` are the published files."""
        with duckdb.connect() as engine:
            engine.read_parquet(self.files).create_view("day")
            return engine.execute(query).fetchall()


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Night:
    """Publish 1,008 flights, every tenth of which does not fit."""
    corpus, reasons = typed_day(DAY, 1008, 10)
    desk = Desk(tmp_path_factory.mktemp("night"), corpus)
    done = desk.compact(columns=mapping(COLUMNS))
    assert done.manifest is not None
    return Night(desk, done, reasons, [desk.storage.uri(file.key) for file in done.manifest.files])


def test_no_row_is_lost_and_each_says_why_it_does_not_fit(night: Night) -> None:
    """Ten kinds and more, at the rows that a producer spoilt, with the raw payload kept beside."""
    rows = night.sql("select _unfit, data is null and data_bytes is null from day order by shard_id, sequence_number")
    assert [row[0] for row in rows] == night.reasons
    assert {reason for reason in night.reasons if reason} == set(MISFITS)
    assert not any(row[1] for row in rows)


def test_a_row_that_does_not_fit_keeps_what_fits(night: Night) -> None:
    """Only the column that is wrong is null; where the payload cannot be read, all are."""
    found = night.sql(
        "select distinct year, carrier is null, flight_id is null from day where _unfit like 'year: 2013.0%'"
    )
    assert found == [(None, False, False)]
    unread = night.sql(
        "select distinct coalesce(flight_id, carrier, fare) from day where _unfit like 'payload: a list%'"
    )
    assert unread == [(None,)]


def test_columns_can_be_asked_in_sql(night: Night) -> None:
    """What nobody could ask of a text: counts by carrier, sums of decimals, days of timestamps, lists."""
    assert night.sql("select count(*), count(carrier) from day") == [(1008, 1008 - 5 * 7)]
    ((total,),) = night.sql("select sum(price) from day where _unfit is null")
    ((again,),) = night.sql(
        "select sum(cast(json_extract_string(data, '$.fare.price') as decimal(10,2))) from day where _unfit is null"
    )
    assert total == again
    assert night.sql("select distinct typeof(departs), typeof(stops), typeof(price), typeof(flown_on) from day") == [
        ("TIMESTAMP WITH TIME ZONE", "VARCHAR[]", "DECIMAL(10,2)", "DATE")
    ]


def test_the_audit_adds_up_and_names_no_value(night: Night) -> None:
    """Rows = fitted + unfit, and each column's values; misfits are warnings: the day is clean."""
    assert night.done.result is not None
    audit = night.done.result.audit
    typed = audit.typed
    assert typed is not None
    assert (typed.rows, typed.fitted, typed.unfit, typed.balanced) == (1008, 907, 101, True)
    assert {each.filled + each.empty + each.unfit for each in typed.columns} == {1008}
    assert (audit.verdict, audit.equation.compacted) == ("clean", 1008)
    found = [about for about in audit.findings if about.code == "unfit_payload"]
    assert {about.severity for about in found} == {"warning"}
    twice = sum("; " in reason for reason in night.reasons if reason)
    assert sum(about.count for about in found) == sum(each.rows for each in typed.misfits) == 101 + twice
    assert "12x" not in repr(audit)


def test_screen_and_report_show_the_numbers(night: Night) -> None:
    """All rows in one line, the columns that something does not fit, and each kind of misfit in the page."""
    assert night.done.result is not None
    console = TerminalConsole(width=200)
    with console.capture() as capture:
        show_audit(night.done.result.audit, console)
    assert "1,008 rows = fitted 907 + unfit 101, 11 typed column(s)\n" in capture.get()
    assert re.search(r"\n  price decimal\(10,2\): filled \d+, empty \d+, unfit \d+\n", capture.get())
    page = render_page(night.done.result)
    assert "1,008 rows = 907 that fit + 101 that do not." in " ".join(page.split())
    assert "<code>carrier</code> duplicate key: 7" in page


def test_the_same_columns_are_published_once_and_others_anew(night: Night) -> None:
    """Comments and blanks of the file are not in its digest; a type is."""
    assert night.done.manifest is not None
    again = night.desk.compact(columns=mapping(COLUMNS))
    assert (again.state, again.manifest) == ("already", night.done.manifest)
    pointer = night.desk.publisher().current().pointer
    assert pointer is not None
    stored = night.desk.publisher().audit(pointer)
    assert stored is not None
    assert decode_audit(stored).typed is not None
    columns = mapping({**COLUMNS, "year": {"type": "int64"}})
    other = night.desk.compact(columns=columns, rewrite_columns=True)
    assert (other.state, other.manifest is not None) == ("published", True)
    assert other.manifest is not None
    assert other.manifest.generation != night.done.manifest.generation
    assert other.manifest.columns == {**(night.done.manifest.columns or {}), "year": "int64"}


def test_new_rules_alone_rewrite_nothing(tmp_path: Path) -> None:
    """A day by an earlier version's rules stays, also by rules that this one has never heard of."""
    corpus, _ = typed_day(DAY, 80, 10)
    desk = Desk(tmp_path, corpus)
    for rules in (*EARLIER_RULES, RULES, "typed-1"):
        columns = mapping({**COLUMNS, f"more_{rules[-1]}": "string"})
        first = desk.compact(columns=columns._replace(rules=rules), rewrite_columns=True, is_confirmed=True)
        again = desk.compact(columns=columns)
        assert (first.state, again.state, again.manifest) == ("published", "already", first.manifest)


@pytest.mark.parametrize(("share", "code"), [(None, 0), (0.11, 0), (0.1, 4), (0.0, 4)])
def test_a_share_of_misfits_fails_the_command_by_its_flag_alone(night: Night, share: float | None, code: int) -> None:
    """The verdict stays clean, and the row says how many there are."""
    row = limited(row_of_compaction(DAY, night.done, "unknown"), night.done, share)
    assert (row.exit_code, row.verdict) == (code, "clean")
    told = "101 of 1,008 rows do not fit their columns, more than --max-unfit"
    assert (told in row.reason, bool(row.next_step)) == (code == 4, code == 4)


def test_numbers_that_do_not_add_up_hold_the_day_back(tmp_path: Path) -> None:
    """Were a value lost without a word, nobody would be shown the day."""

    def one_less(counts: TypedCounts) -> TypedCounts:
        first = counts.columns[0]
        return counts._replace(columns=(first._replace(filled=first.filled - 1), *counts.columns[1:]))

    corpus, _ = typed_day(DAY, 80, 10)
    done = Desk(tmp_path, corpus).compact(columns=mapping(COLUMNS), engine=miscounting(one_less))
    assert done.result is not None
    assert (done.state, publishable(done.result.audit), done.result.audit.verdict) == ("held", False, "defects")


def part(*rows: tuple[int, int]) -> pa.Table:
    """Return lines of shard `s`: (sequence number, arrival in milliseconds)."""
    return table_of_records([("s", Record(str(number), 0, "key", arrival_ms, b"{}")) for number, arrival_ms in rows])


@pytest.mark.parametrize(
    ("parts", "first"),
    [
        ([[(1, 10), (2, 5)]], (5, 2)),
        ([[(1, 10)], [(2, 5)]], (5, 2)),
        ([[(1, 5)], [(2, 10)]], (5, 1)),
        ([[(2, 5)], [(1, 5)]], (5, 1)),
        ([[(3, 7), (4, 7)], [(5, 9)], [(6, 6)]], (6, 6)),
    ],
)
def test_the_earliest_arrival_counts(parts: list[list[tuple[int, int]]], first: tuple[int, int]) -> None:
    """Then the lower position; rows without a value do not."""
    firsts = FirstValues(2)
    for rows in parts:
        lines = part(*rows)
        firsts.add(lines, 0, [pa.array(["x"] * len(rows)), pa.nulls(len(rows), pa.string())])
    assert firsts.firsts == [First(first[0], "s", Position(first[1])), None]
