"""`minutebook doctor`: the whole pre-flight, as a table or as JSON."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from consumer.preflight.check import Check, CheckOutcome
from consumer.preflight.preflight import failed_checks_code, preflight
from consumer.settings.settings import load_with_kcl
from minutebook.clock import SystemClock, new_id, new_random

_MARKS: Final = {
    CheckOutcome.OK: "[green]ok[/]",
    CheckOutcome.WARN: "[yellow]warn[/]",
    CheckOutcome.FAIL: "[bold red]FAIL[/]",
    CheckOutcome.UNKNOWN: "[cyan]unknown[/]",
}


def run_doctor(path: Path | None, environ: Mapping[str, str], *, as_json: bool) -> int:
    """Run every check and print it; return the exit code. Raises SettingsError if the file itself is wrong."""
    loaded = load_with_kcl(path, environ)
    results = preflight(loaded, environ, whole=True, clock=SystemClock(), rng=new_random(), new_id=new_id)
    checks = _print_json(results) if as_json else _print_table(results)
    return failed_checks_code(checks)


def _print_json(results: Iterator[Check]) -> list[Check]:
    checks = list(results)
    rows = [asdict(check) for check in checks]
    Console().out(json.dumps({"exit_code": failed_checks_code(checks), "checks": rows}, indent=2), highlight=False)
    return checks


def _print_table(results: Iterator[Check]) -> list[Check]:
    console = Console()
    with console.status("asking Java, Kinesis, S3 and DynamoDB ..."):
        checks = list(results)
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in checks:
        sentence = (
            f"{_plain(check.sentence)}\n[dim]→ {_plain(check.next_step)}[/]"
            if check.next_step
            else _plain(check.sentence)
        )
        table.add_row(_MARKS[check.outcome], check.name, sentence)
    console.print(table)
    counts = {outcome: sum(check.outcome is outcome for check in checks) for outcome in CheckOutcome}
    console.print(", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count))
    return checks


def _plain(text: str) -> str:
    return text.replace("[", "\\[")
