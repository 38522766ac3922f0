"""Typed columns of changes from a database: structs and a list, with and without leaves that do not fit.

40,000 payloads as Debezium writes them (before, after, source, items) are read into columns again and again, in one
process and in turns: none with a misfit, then three in ten with a price of too many digits. No I/O, no Parquet.

    python -m benchmarks nested [--rows 40000] [--runs 5]
"""

import argparse
import collections
import json
import time
from typing import Final

import pyarrow as pa

from benchmarks.figures import median
from compaction.columns.columns import Columns
from compaction.columns.decode.decoder import new_payload_columns
from tests.fakes.typed_lines import lines_of, mapping

_ROW: Final = "struct<id: int64, customer: string, price: decimal(10,2), quantity: int32, paid: bool, at: timestamp>"
COLUMNS: Final = {
    "op": "string",
    "ts_ms": "timestamp(ms)",
    "before": _ROW,
    "after": _ROW,
    "source": "struct<db: string, table: string, lsn: int64, txId: int64>",
    "items": "list<struct<sku: string, price: decimal(10,2)>>",
}
_SHARES: Final = (0, 3)
"""Rows of ten with a leaf that does not fit."""


def change(number: int, tenths: int) -> bytes:
    """Return the payload of a change; in so many of ten one price has three digits behind the point."""
    is_bad = number % 10 < tenths
    row = {
        "id": number,
        "customer": f"customer-{number % 997}",
        "price": float(f"{number}.{'125' if is_bad else '25'}"),
        "quantity": number % 7,
        "paid": number % 2 == 0,
        "at": f"2026-11-20T10:{number % 60:02}:07.123456789Z",
    }
    return json.dumps(
        {
            "op": "u",
            "ts_ms": 1_795_165_687_123 + number,
            "before": None if number % 3 else {**row, "price": 1.5},
            "after": row,
            "source": {"db": "shop", "table": "orders", "lsn": 10**9 + number, "txId": number},
            "items": [{"sku": f"sku-{each}", "price": 9.75} for each in range(number % 4)],
        },
        separators=(",", ":"),
    ).encode()


def seconds(columns: Columns, lines: pa.Table) -> float:
    """Return the CPU seconds that the columns of lines take."""
    begin = time.process_time()
    payload_columns = new_payload_columns(columns)
    collections.deque(payload_columns.tables_of(lines), maxlen=0)
    return time.process_time() - begin


def main(words: list[str]) -> int:
    """Print rows a second for each share of misfits."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks nested", description=__doc__)
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args(words)
    columns = mapping(COLUMNS)
    days = {tenths: lines_of([change(number, tenths) for number in range(given.rows)]) for tenths in _SHARES}
    taken: dict[int, list[float]] = {tenths: [] for tenths in _SHARES}
    for _ in range(given.runs):
        for tenths, lines in days.items():
            taken[tenths].append(seconds(columns, lines))
    for tenths, times in taken.items():
        least = min(times)
        print(  # noqa: T201 - a program
            f"{tenths * 10} % of rows with a misfit: {given.rows / least:,.0f} rows/s at best, "
            f"{given.rows / median(times):,.0f} in the median, {least / min(taken[0]):.1f} times the time without"
        )
    return 0
