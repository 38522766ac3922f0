"""How tables and sentences look at 60, 80, 120 and 200 columns, and where nobody sees columns at all."""

import re
from io import StringIO

import pytest
from rich.console import Group
from rich.live import Live
from rich.text import Text

from minutebook.terminal import Table, TerminalConsole, shortened, styled

_SHARD = "shardId-000000000003"
_POSITION = "49680458451850689392835739103872079364584924912174497810:0"
_KEY = f"raw/2026/11/20/10/16/{_SHARD}/{_POSITION.partition(':')[0]}-00000000.jsonl.gz"


def _lines(printed: object, width: int) -> list[str]:
    file = StringIO()
    TerminalConsole(file=file, width=width).print(printed)
    return file.getvalue().splitlines()


def _restored(*positions: str, beside: str = "the end of the chain") -> Table:
    table = Table("shard", "row", "checkpoint now", "checkpoint")
    for position in positions:
        table.add(_SHARD, "replace", _POSITION, position, beside=[beside])
    return table


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_value_that_has_no_room_keeps_both_ends(width: int) -> None:
    """One line for a row, and one for its reason: nothing is folded."""
    heading, row, reason = _lines(_restored(_POSITION), width)
    assert max(map(len, (heading, row, reason))) <= width
    assert heading.split() == ["shard", "row", "checkpoint", "now", "checkpoint"]
    begins, ends = row.split()[-1].split("…")
    assert len(begins) >= 4
    assert len(ends) >= 4
    assert (_POSITION.startswith(begins), _POSITION.endswith(ends)) == (True, True)
    assert reason.strip() == "the end of the chain"


def test_a_wide_terminal_shows_whole_values_in_one_line() -> None:
    """The reason stands beside them."""
    _, row = _lines(_restored(_POSITION), 200)
    assert row.split()[2:4] == [_POSITION, _POSITION]
    assert row.endswith("the end of the chain")


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("at", [2, 9, 25, 40, 55, 57])
def test_rows_that_differ_look_different(width: int, at: int) -> None:
    """Wherever two positions differ: also in the middle, which an ellipsis stands for."""
    other = f"{_POSITION[:at]}{(int(_POSITION[at]) + 1) % 10}{_POSITION[at + 1 :]}"
    _, first, _, second, *_ = _lines(_restored(_POSITION, other, beside="x" * width), width)
    assert first != second


def test_values_of_one_row_that_differ_look_different() -> None:
    """The checkpoint now and the new one, whose ends are the same."""
    table = Table("shard", "row", "checkpoint now", "checkpoint")
    table.add(_SHARD, "replace", _POSITION, f"{_POSITION[:20]}0{_POSITION[21:]}")
    _, now, new = _lines(table, 80)[1].rsplit(maxsplit=2)
    assert now != new


def test_texts_that_no_ellipsis_tells_apart_stay_whole() -> None:
    """Rather a long line than a wrong one."""
    texts = ["a" * 30 + str(number) + "b" * 30 for number in range(3)]
    assert shortened(texts, 20) == {text: text for text in texts}
    assert shortened([*texts, "c" * 61], 20)["c" * 61] == "c" * 9 + "…" + "c" * 10


@pytest.mark.parametrize("text", ["", "short", "日本語" * 20, "é" * 40])
@pytest.mark.parametrize("width", [1, 2, 8, 21])
def test_a_shortened_text_has_room(text: str, width: int) -> None:
    """In cells: a Chinese letter takes two."""
    short = shortened([text], width)[text]
    assert Text(short).cell_len <= max(width, 1)
    assert short == text or "…" in short


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_key_is_whole_below_its_row(width: int) -> None:
    """In one line of ours, which the terminal breaks wherever it ends: so it can be copied."""
    table = Table("finding", "severity", "shard", "minute", "count", numbers=["count"])
    table.add("dropped_without_original", "unknown", _SHARD, "2026-11-20T10:16Z", "1,234", beside=[_KEY])
    heading, row, key = _lines(table, width)
    assert key == f"  {_KEY}"
    assert len(row) <= width
    assert row.endswith("1,234")
    assert heading.endswith("count")


def test_a_key_stands_beside_its_row_where_it_has_room() -> None:
    """At 200 columns a finding is one line."""
    table = Table("finding", "shard")
    table.add("broken_chain", _SHARD, beside=[_KEY])
    assert _lines(table, 200)[1:] == [f"broken_chain  {_SHARD}  {_KEY}"]


def test_sentences_stand_beside_short_values_and_below_long_ones() -> None:
    """Each row by itself; every line of a sentence begins where its first one does."""
    table = Table("", "")
    sentence = "this machine's clock is 300 s ahead of the bucket's, which is more than the protocol can bear"
    table.add("ok", "clock", beside=[sentence, "→ set the clock"])
    beside, below = _lines(table, 60), _lines(table, 40)
    assert beside[0].startswith("ok  clock  this machine's")
    assert all(line.startswith(" " * 11) for line in beside[1:])
    assert below[0] == "ok  clock"
    assert all(line.startswith("  ") and line[2] != " " for line in below[1:])


def test_a_sentence_is_broken_between_its_words_alone() -> None:
    """What is longer than a line is whole: keys, addresses, commands."""
    lines = _lines(f"the object {_KEY} is none of ours and stays where it is", 40)
    assert _KEY in lines
    assert " ".join(lines) == f"the object {_KEY} is none of ours and stays where it is"
    assert all(len(line) <= 40 for line in lines if line != _KEY)


def test_a_sentence_that_is_indented_stays_so() -> None:
    """In each of its lines."""
    assert _lines("  → look at the worker that leads, and at its log", 24) == [
        *("  → look at the worker", "  that leads, and at its", "  log")
    ]


def test_a_live_display_folds_what_it_would_crop() -> None:
    """It counts its lines, so none may be longer than the terminal: nothing of a key is lost, in or below a row."""
    file, table = StringIO(), Table("shard", "state")
    table.add(_SHARD, "open", beside=[f"! {_KEY} cannot be read"])
    console = TerminalConsole(file=file, width=40, force_terminal=True, color_system=None)
    with Live(console=console, auto_refresh=False) as live:
        live.update(Group(f"! {_KEY} is gone", table), refresh=True)
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue()).splitlines()
    assert all(len(line.rstrip()) <= 40 for line in lines)
    shown = 2  # when it is updated, and at the end
    assert "".join("".join(lines).split()).count(_KEY) == 2 * shown


def test_without_a_terminal_each_row_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """For grep and awk: whole values, whatever the terminal of the shell is; COLUMNS sets a width, as for ps."""
    monkeypatch.delenv("COLUMNS", raising=False)
    file = StringIO()
    TerminalConsole(file=file).print(_restored(_POSITION, beside="because " * 100))
    assert [len(line.split()) for line in file.getvalue().splitlines()] == [5, 104]
    assert _POSITION in file.getvalue()
    monkeypatch.setenv("COLUMNS", "80")
    narrow = StringIO()
    TerminalConsole(file=narrow).print(_restored(_POSITION))
    assert max(map(len, narrow.getvalue().splitlines())) <= 80


@pytest.mark.parametrize("width", [60, 80])
def test_numbers_and_days_are_never_shortened(width: int) -> None:
    """Half a number is a wrong one; before a day is cut, columns move together."""
    table = Table("day", "pointer", "done", "table", "rows", "files", "seconds", numbers=("rows", "files", "seconds"))
    table.add("2026-11-18", "clean", "published, swept", "mended", "1,234,567", "40", "93.2")
    heading, row = _lines(table, width)
    assert max(len(heading), len(row)) <= width
    assert {"2026-11-18", "1,234,567", "40", "93.2"} < set(row.split())


def test_styles_are_no_part_of_a_width() -> None:
    """A cell in colour takes as much room as its letters."""
    table = Table("", "")
    table.add(styled("FAIL", "bold red"), "bucket", beside=["there is none"])
    table.add(styled("ok", "green"), "stream", beside=[styled("→ nothing", "dim")])
    assert _lines(table, 80) == ["FAIL  bucket  there is none", "ok    stream  → nothing"]


def test_a_table_without_rows_is_its_headings() -> None:
    """No error."""
    assert _lines(Table("a", "b"), 80) == ["a  b"]
    assert _lines(Table("", ""), 80) == []
