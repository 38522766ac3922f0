"""Whatever a command prints: texts that others chose never reach a terminal as they are.

Producers choose partition keys and event ids, and whoever may write below the prefix chooses keys.
"""

import ast
import json
import re
from io import StringIO
from pathlib import Path
from typing import Final

import pytest
from rich.console import Group
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from compaction.audit.audit import audit_day
from compaction.columns.files.columns_file import parse_columns
from compaction.columns.files.proposing import propose
from compaction.commands.vacuum import command as vacuum
from compaction.job.context import AuditOptions
from compaction.night.days import run as days
from compaction.report.reporter import Reporter
from compaction.report.trend import Trend
from consumer.leases.rows import Lease
from consumer.preflight import doctor
from consumer.preflight.check import Check
from consumer.restore import command as restore
from consumer.restore.plan import PlannedRow, RowChange
from consumer.status import command as status
from consumer.status.report import ShardStatus, StatusProblem, StatusReport
from minutebook.cli import main
from minutebook.errors import SettingsError
from minutebook.format.day import Day
from minutebook.format.payload import PayloadPath
from minutebook.store.places import open_storage
from minutebook.store.storage import Address
from minutebook.terminal import TerminalConsole, styled
from minutebook.wording import ITEM, printable, printable_json, printable_message
from tests.corpus.auditing import job_context
from tests.corpus.model import Corpus

ROOT: Final = Path(__file__).parents[3]
DAY: Final = Day.parse("2026-11-20")
HOSTILE: Final = "\x1b]0;title\x07\x1b[2J\x9b31m\u202ekey\u2066\r\nCLEAN: forged\x7f\u200b[bold red]"
SHOWN: Final = r"\x1b]0;title\x07\x1b[2J\x9b31m\u202ekey\u2066\r\nCLEAN: forged\x7f\u200b[bold red]"
_STYLE: Final = re.compile(r"\x1b\[[0-9;?]*[A-Zhlm]")
"""What rich itself sends to a terminal: styles, and moves of a live display."""


def check(printed: str, *, shows: bool = True) -> None:
    """Raise unless every line is printable; `shows`: the text is there, escaped, in however many lines."""
    assert all(line.isprintable() for line in printed.split("\n")), printed
    assert not shows or "".join(SHOWN.split()) in "".join(printed.split())


RENDERABLES: Final = {
    "a text": HOSTILE,
    "a sentence": f"the object {HOSTILE} is none of ours",
    "a text in a style": styled(HOSTILE, "bold red"),
    "parts of a text": styled("! ") + styled(HOSTILE, "green"),
    "a group": Group("first", HOSTILE, styled(HOSTILE)),
    "something indented": Padding(styled(HOSTILE), (0, 0, 0, 2)),
}


@pytest.mark.parametrize("what", RENDERABLES)
def test_the_console_escapes_whatever_it_prints(what: str) -> None:
    """A text is one line of printable characters, and no markup, whichever object holds it."""
    for is_terminal in (False, True):
        file = StringIO()
        console = TerminalConsole(file=file, width=400, force_terminal=is_terminal)
        console.print(RENDERABLES[what], soft_wrap=True)
        check(_STYLE.sub("", file.getvalue()))


@pytest.mark.parametrize("width", [40, 400])
def test_cells_of_a_table_are_escaped(width: int) -> None:
    """Also where they are folded, and in a live display."""
    table = Table("key", box=None)
    table.add_column("other", overflow="fold")
    for cell in (HOSTILE, styled(HOSTILE), Group(HOSTILE, styled(HOSTILE, "dim")), Text(HOSTILE)):
        table.add_row("name", cell)
    for is_live in (False, True):
        file = StringIO()
        console = TerminalConsole(file=file, width=width, force_terminal=is_live)
        if is_live:
            with Live(console=console, auto_refresh=False) as live:
                live.update(table, refresh=True)
        else:
            console.print(table)
        printed = _STYLE.sub("", file.getvalue()).replace("\r", "")
        check(printed, shows=width > 100)


def test_what_can_be_shown_is_unchanged() -> None:
    """Letters of any script, signs and spaces."""
    for text in ("", "raw/2026/11/20/é 日本 ✓ → [x] \\x1b", "a b"):
        assert (printable(text), printable_json(text), printable_message(text)) == (text, text, text)


def test_json_means_the_same() -> None:
    """Its strings are escaped in its own way, beyond 16 bits, too; its line breaks stay."""
    value = {"key": HOSTILE, "other": "\U000e0001\u2028é"}
    document = json.dumps(value, ensure_ascii=False, indent=1)
    assert json.loads(printable_json(document)) == value
    assert all(line.isprintable() for line in printable_json(document).split("\n"))
    assert printable_json(document).count("\n") == document.count("\n")


def test_a_list_in_an_error_keeps_its_lines() -> None:
    """The names in it forge none."""
    message = str(SettingsError(ITEM.join(["2 errors", "a\nnext step: b", "c"])))
    assert printable_message(message) == "2 errors\n  - a\\nnext step: b\n  - c"


Printed = pytest.CaptureFixture[str]


@pytest.fixture
def printed(capsys: Printed, monkeypatch: pytest.MonkeyPatch) -> Printed:
    """Return what is printed, in lines long enough for everything."""
    monkeypatch.setenv("COLUMNS", "1000")
    return capsys


@pytest.mark.parametrize("as_json", [False, True])
def test_an_audit_of_hostile_keys(tmp_path: Path, printed: Printed, *, as_json: bool) -> None:
    """A real one, of an archive with a foreign object: its table, and its document."""
    corpus = Corpus(DAY)
    key = f"raw/2026/11/20/10/16/{HOSTILE}"
    corpus.objects[key] = (b"x", {})
    corpus.write(open_storage(Address(None, str(tmp_path))))
    result = audit_day(job_context(tmp_path, corpus.checkpoints), DAY, AuditOptions())
    printed.readouterr()
    Reporter(as_json, None, lambda _: Trend("", ())).show(result)
    shown = printed.readouterr().out
    check(shown, shows=not as_json)
    if as_json:
        assert any(key in found["keys"] for found in json.loads(shown)["findings"])


@pytest.mark.parametrize("as_json", [False, True])
def test_the_table_of_several_days(printed: Printed, *, as_json: bool) -> None:
    """A reason names keys."""
    row = days.DayRow(day=str(DAY), state="failed", reason=f"{HOSTILE} is gone", next_step=HOSTILE)
    days._show(days.RunSummary(format=1, command="compact", exit_code=1, days=(row,)), as_json)
    check(printed.readouterr().out, shows=not as_json)


@pytest.mark.parametrize("as_json", [False, True])
def test_vacuum(printed: Printed, *, as_json: bool) -> None:
    """The files of a table, and reasons."""
    table = vacuum.VacuumTable(table="t", objects=1, bytes=1, files=(HOSTILE,))
    left = vacuum.VacuumDay(day=str(DAY), objects=0, bytes=0, uploads=0, reason=HOSTILE, next_step="")
    report = vacuum.VacuumReport(
        format=1,
        output="s3://b/",
        applied=False,
        older_than_days=3,
        looked_at=1,
        objects=0,
        bytes=0,
        uploads=0,
        exit_code=0,
        days=(left,),
        table=table,
    )
    vacuum._show(report, as_json=as_json)
    check(printed.readouterr().out, shows=not as_json)


def test_restore(printed: Printed) -> None:
    """Rows of the lease table hold whatever somebody wrote."""
    lease = Lease(HOSTILE, HOSTILE, 9, HOSTILE)
    row = PlannedRow(next(iter(RowChange)), lease, lease, HOSTILE, (HOSTILE,))
    restore._print_plan(TerminalConsole(), [row])
    check(printed.readouterr().out)


@pytest.mark.parametrize("columns", ["80", "1000"])
@pytest.mark.parametrize("as_json", [False, True])
def test_status(printed: Printed, monkeypatch: pytest.MonkeyPatch, columns: str, *, as_json: bool) -> None:
    """Owners and shards of the lease table, and problems."""
    monkeypatch.setenv("COLUMNS", columns)
    shard = ShardStatus(
        shard=HOSTILE,
        state=HOSTILE,
        parents=[HOSTILE],
        children=[],
        owner=HOSTILE,
        lease=HOSTILE,
        lease_age_seconds=1,
        checkpoint=HOSTILE,
        tail=HOSTILE,
        tail_minute=HOSTILE,
        behind_seconds=None,
        behind_source=None,
        gaps=[HOSTILE],
        notes=[HOSTILE],
    )
    report = StatusReport(
        at_ms=0,
        application="a",
        stream="s",
        bucket="b",
        prefix=HOSTILE,
        problems=[StatusProblem(sentence=HOSTILE, next_step=HOSTILE, exit_code=1)],
        coverage=None,
        shards=[shard],
    )
    status._print(TerminalConsole(), report, as_json=as_json)
    check(printed.readouterr().out, shows=not as_json and columns == "1000")


@pytest.mark.parametrize("as_json", [False, True])
def test_doctor(printed: Printed, *, as_json: bool) -> None:
    """A bucket's rules and policies are texts of others."""
    checks = iter([Check.warn("bucket", HOSTILE, next_step=HOSTILE)])
    (doctor._print_json if as_json else doctor._print_table)(checks)
    check(printed.readouterr().out, shows=not as_json)


def test_an_error(printed: Printed, tmp_path: Path) -> None:
    """Of any command: on stderr, one line for it and one for what to do."""
    file = tmp_path / HOSTILE
    file.write_text("minutebook.bucket = b\n")
    with pytest.raises(SystemExit) as ended:
        main(lambda: ["status", str(file)])
    assert ended.value.code == 2
    check(printed.readouterr().err)


def test_a_proposal_of_columns() -> None:
    """Its names are those of payloads: they are escaped as TOML has it, and mean the same."""
    payload = {HOSTILE: 1, "\U000e0001'\"": 2}
    text = propose([payload], ["data"]).toml()
    assert all(line.isprintable() for line in text.split("\n"))
    columns = parse_columns(text.encode(), "x", ["data"], is_toml=True).columns
    assert [PayloadPath(column.path).value(json.dumps(payload).encode()) for column in columns] == [1, 2]


_WRITES: Final = {"print", "sys.stderr.write", "sys.stdout.write", "typer.echo"}
_PLAIN: Final = {
    "compaction/commands/ddl.py": "names of the operator's, for a file",
    "compaction/commands/propose_columns.py": "TOML, escaped as TOML has it",
    "compaction/verdict/audit_document.py": "the schema",
    "minutebook/cli.py": "a version, and files of this machine; its errors are escaped",
    "consumer/command_line.py": "pages and files of this version",
    "consumer/forks/stub.py": "a log line, for the supervisor",
    "consumer/preflight/doctor.py": "ASCII",
}
"""Modules that write to stdout or stderr without escaping, and why they may."""


def test_tables_are_laid_out_in_one_place() -> None:
    """A table of rich folds keys over lines, and cuts what it cannot fold: `minutebook.terminal` does neither."""
    for path in (path for side in ("minutebook", "consumer", "compaction") for path in (ROOT / side).rglob("*.py")):
        assert "rich.table" not in path.read_text(), path
        assert "soft_wrap" not in path.read_text(), path


def test_nothing_is_printed_past_the_escaping() -> None:
    """Only `minutebook.terminal` makes a console, and whoever writes to stdout or stderr escapes, or says why not."""
    writers = set()
    for path in (path for side in ("minutebook", "consumer", "compaction") for path in (ROOT / side).rglob("*.py")):
        name, nodes = str(path.relative_to(ROOT)), list(ast.walk(ast.parse(path.read_text())))
        imported = {
            alias.name
            for node in nodes
            if isinstance(node, ast.ImportFrom) and node.module == "rich.console"
            for alias in node.names
        }
        assert "Console" not in imported or name == "minutebook/terminal.py", name
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        printing = [call for call in calls if ast.unparse(call.func) in _WRITES]
        if not all(re.search("printable|error_lines", ast.unparse(call.args[0])) for call in printing):
            writers.add(name)
    assert writers == set(_PLAIN)
