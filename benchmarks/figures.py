"""What every benchmark prints: a Markdown table, the machine it ran on, and its raw numbers as JSON."""

import json
import os
import platform
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

_CPUINFO: Final = Path("/proc/cpuinfo")


class Column(NamedTuple):
    """A column: its title, the field of a row that it shows, and how."""

    title: str
    field: str
    form: str = ""


def table(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a Markdown table of the rows."""
    lines = ["| " + " | ".join(column.title for column in columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        cells = (_cell(row.get(column.field), column.form) for column in columns)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def publish(
    name: str, columns: Sequence[Column], rows: Sequence[Mapping[str, Any]], raw: object, json_file: Path | None
) -> None:
    """Print the table under the machine's name; keep the raw numbers in a file, if one was named."""
    sys.stdout.write(f"### {name}\n\n{machine()}\n\n{table(columns, rows)}\n")
    sys.stdout.flush()
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        document = {"benchmark": name, "machine": machine(), "rows": list(rows), "raw": raw}
        json_file.write_text(json.dumps(document, indent=1) + "\n")


def median(values: Sequence[float]) -> float:
    """Return the median."""
    return float(statistics.median(values))


def machine() -> str:
    """Name the machine: its processor, cores, memory, kernel, Python, and what else it did at the moment."""
    names = [line.partition(":")[2].strip() for line in _CPUINFO.read_text().splitlines() if "model name" in line]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB, "
        f"Linux {platform.release().split('-')[0]}, Python {platform.python_version()}; "
        f"load at the end {os.getloadavg()[0]:.1f}"
    )


def _cell(value: object, form: str) -> str:
    return "" if value is None else format(value, form)
