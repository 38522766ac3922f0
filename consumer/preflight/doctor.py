"""`minutebook doctor`: the whole pre-flight, as a table or as JSON."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Final

from rich.text import Text

from consumer.preflight.check import Check, CheckOutcome
from consumer.preflight.preflight import failed_checks_code, preflight
from consumer.settings.settings import load_with_kcl
from minutebook.clock import SystemClock, new_id, new_random
from minutebook.logs import configure_logging
from minutebook.properties_file import PropertiesFile, Source
from minutebook.properties_folder import PropertiesFolder, StreamFile, streams_of
from minutebook.streams_run import StreamEnd, StreamsRun
from minutebook.terminal import Table, TerminalConsole, styled
from minutebook.wording import ITEM

_AT_ONCE: Final = 4
"""Streams of a folder that are checked side by side."""
_MARKS: Final = {
    CheckOutcome.OK: Text("ok", "green"),
    CheckOutcome.WARN: Text("warn", "yellow"),
    CheckOutcome.FAIL: Text("FAIL", "bold red"),
    CheckOutcome.UNKNOWN: Text("unknown", "cyan"),
}


def run_doctor(path: Path | None, environ: Mapping[str, str], *, as_json: bool, stream: str | None = None) -> int:
    """Run every check and print it; return the exit code. Raises SettingsError if the file itself is wrong."""
    configure_logging("error")
    source = streams_of(path, environ, stream)
    if isinstance(source, PropertiesFolder):
        return _run_of_streams(source, environ, as_json=as_json)
    results = _checks(source, environ)
    checks = _print_json(results) if as_json else _print_table(results)
    return failed_checks_code(checks)


def _run_of_streams(folder: PropertiesFolder, environ: Mapping[str, str], *, as_json: bool) -> int:
    """Check a few streams at once, and print a row for each: what failed, and what is worth a look."""

    def work(_: StreamFile, properties: PropertiesFile) -> StreamEnd:
        return end_of_stream(list(_checks(properties, environ)))

    run = StreamsRun("doctor", folder, as_json, at_once=_AT_ONCE)
    with nullcontext() if as_json else TerminalConsole().status(f"asking for {len(folder.streams)} streams ..."):
        ended = run.ends(work)
    return run.show(ended)


def end_of_stream(checks: Sequence[Check]) -> StreamEnd:
    """Return the row of a stream: its failed checks, then its warnings, and the next step of the first."""
    bad = [each for each in checks if each.outcome is CheckOutcome.FAIL]
    bad += [each for each in checks if each.outcome is CheckOutcome.WARN]
    told = [f"{each.outcome} {each.name}: {each.sentence}" for each in bad] or [f"{len(checks)} checks: ok"]
    next_step = next((each.next_step for each in bad if each.next_step), "")
    return StreamEnd(failed_checks_code(checks), ITEM.join(told), next_step, _document(checks))


def _checks(source: Source, environ: Mapping[str, str]) -> Iterator[Check]:
    loaded = load_with_kcl(source, environ)
    return preflight(loaded, environ, whole=True, clock=SystemClock(), rng=new_random(), new_id=new_id)


def _document(checks: Sequence[Check]) -> dict[str, object]:
    return {"exit_code": failed_checks_code(checks), "checks": [asdict(check) for check in checks]}


def _print_json(results: Iterator[Check]) -> list[Check]:
    checks = list(results)
    sys.stdout.write(json.dumps(_document(checks), indent=2) + "\n")
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
