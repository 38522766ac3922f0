"""`minutebook doctor`: the whole pre-flight, as a table or as JSON."""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

from rich.text import Text

from consumer.preflight.check import Check, CheckOutcome
from consumer.preflight.preflight import failed_checks_code, preflight
from consumer.settings.settings import load_with_kcl
from minutebook.clock import SystemClock, new_id, new_random
from minutebook.terminal import Table, TerminalConsole, styled

_MARKS: Final = {
    CheckOutcome.OK: Text("ok", "green"),
    CheckOutcome.WARN: Text("warn", "yellow"),
    CheckOutcome.FAIL: Text("FAIL", "bold red"),
    CheckOutcome.UNKNOWN: Text("unknown", "cyan"),
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
    sys.stdout.write(json.dumps({"exit_code": failed_checks_code(checks), "checks": rows}, indent=2) + "\n")
    return checks


def _print_table(results: Iterator[Check]) -> list[Check]:
    console = TerminalConsole()
    with console.status("asking Java, Kinesis, S3 and DynamoDB ..."):
        checks = list(results)
    table = Table("", "")
    for check in checks:
        step = [styled(f"→ {check.next_step}", "dim")] if check.next_step else []
        table.add(_MARKS[check.outcome], check.name, beside=[check.sentence, *step])
    console.print(table)
    counts = {outcome: sum(check.outcome is outcome for check in checks) for outcome in CheckOutcome}
    console.print(", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count))
    return checks
