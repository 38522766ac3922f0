"""A table whose columns evolved, and every reader's answer: before the evolution (time travel) and after it.

Two days go into an Iceberg table: the second one brings a new column, and wider ones with values that the narrow ones
do not hold; a commit of it crashes first, and what it left is vacuumed. pyiceberg reads both snapshots, DuckDB counts
what pyiceberg's scan gives it. Where DuckDB's iceberg extension is on the path, and with `--jar`, Iceberg's runtime
for the PySpark there, both read the table by themselves (`make readers`).
"""

import argparse
import json
import sys
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.readers import Reader, duckdb_itself, duckdb_of_scan, spark_itself
from compaction.commands.vacuum.command import vacuum_table
from compaction.tables.orphans import TableFolders
from compaction.tables.table import IcebergTable
from minutebook.clock import SystemClock
from minutebook.format.day import Day
from tests.corpus.desk import Desk
from tests.corpus.typed_day import payload_day
from tests.fakes.failing_storage import Crash
from tests.fakes.typed_lines import mapping
from tests.integration.lake import DAY, NEXT, Lake, local_lake

_CARRIERS: Final = ("AA", "DL", "UA")
_NARROW: Final = {"carrier": "string", "n": "int32", "price": "decimal(5,2)", "who": "struct<a: int32>"}
_WIDE: Final = {
    "carrier": "string",
    "n": "int64",
    "price": "decimal(20,2)",
    "who": "struct<a: int64, b: string>",
    "new": "bool",
}
_COUNTS: Final = "select carrier, count(*) from day group by 1 order by 1"
_SUMS: Final = "select count(*), sum(n), sum(price), sum(who.a) from day"
_NEW: Final = "select count(new), count(who.b) from day where n > 2147483647"


class Answers(NamedTuple):
    """What a reader said of the snapshot before, and of the table as it is."""

    reader: str
    before: list[list[tuple[Any, ...]]]
    after: list[list[tuple[Any, ...]]]


def main(arguments: list[str]) -> int:
    """Run it. Exit code 1 when two readers differ, or one is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks evolved_table", description=__doc__)
    parser.add_argument("--jar", type=Path, help="iceberg-spark-runtime of the PySpark that is on the path")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="minutebook-evolved-") as folder:
        lake = local_lake(Path(folder, "lake"))
        _commit(lake, Path(folder, "narrow"), DAY, _NARROW, 1)
        first = lake.table(lambda table: table.current_snapshot().snapshot_id)
        left = _crash(lake, Path(folder, "crashed"))
        _commit(lake, Path(folder, "wide"), NEXT, _WIDE, 1 << 40)
        gone = _vacuumed(lake)
        with ExitStack() as stack:
            readers = [duckdb_of_scan(lake), stack.enter_context(duckdb_itself(lake))]
            if options.jar is not None:
                readers.append(stack.enter_context(spark_itself(lake, options.jar, Path(folder))))
            found = [_answers(reader, first) for reader in readers if reader is not None]
    for answers in found:
        sys.stdout.write(f"{answers.reader}\n  before: {answers.before}\n  after:  {answers.after}\n")
    sys.stdout.write(f"a crashed commit left {left} files, vacuum deleted {gone}\n")
    right = all(answers[1:] == _expected() for answers in found) and left == gone
    sys.stdout.write("all readers agree\n" if right else f"A READER IS WRONG: expected {_expected()}\n")
    return 0 if right else 1


def _payload(number: int, times: int) -> bytes:
    fields = {
        "carrier": _CARRIERS[number % 3],
        "n": number * times,
        "price": f"{number * times}.25",
        "who": {"a": number * times, "b": "x"},
        "new": True,
    }
    return json.dumps(fields).encode()


def _desk(folder: Path, day: Day, times: int) -> Desk:
    desk = Desk(folder, payload_day(day, 2, lambda number: _payload(number, times)))
    desk.clock.advance(2 * 86_400)
    return desk


def _commit(lake: Lake, folder: Path, day: Day, columns: dict[str, str], times: int) -> None:
    desk = _desk(folder, day, times)
    with lake.catalog() as catalog:
        done = desk.compact(day=day, columns=mapping(columns), table=IcebergTable(catalog, lake.name))
    if done.table is None or done.table.state != "committed":
        raise RuntimeError(done)


def _crash(lake: Lake, folder: Path) -> int:
    """Let a commit of the second day end in front of its request; returns how many files it left."""
    metadata = Path(lake.table(lambda table: table.location()).removeprefix("file://"), "metadata")
    before = {path.name for path in metadata.iterdir()}
    desk = _desk(folder, NEXT, 1 << 40)

    def crash() -> None:
        raise Crash("in front of the commit")

    with lake.catalog() as catalog, suppress(Crash):
        catalog.before_commit = crash
        desk.compact(day=NEXT, columns=mapping(_WIDE), table=IcebergTable(catalog, lake.name))
    return len({path.name for path in metadata.iterdir()} - before)


def _vacuumed(lake: Lake) -> int:
    """Vacuum the table's folders as if all in them were old; returns how many files went."""
    with lake.catalog() as catalog:
        done = vacuum_table(TableFolders(catalog, lake.name), SystemClock().now_ms() + 1_000, apply=True)
    if done.reason:
        raise RuntimeError(done)
    return done.objects


def _answers(reader: Reader, first: int) -> Answers:
    if [("new" in reader.columns(snapshot)) for snapshot in (first, None)] != [False, True]:
        raise RuntimeError(reader.name)
    return Answers(
        reader.name,
        [reader.ask(query, first) for query in (_COUNTS, _SUMS)],
        [reader.ask(query, None) for query in (_COUNTS, _SUMS, _NEW)],
    )


def _expected() -> tuple[list[Any], list[Any]]:
    rows, total = 36, sum(range(36))
    both = total * (1 + (1 << 40))
    return (
        [[(carrier, rows // 3) for carrier in _CARRIERS], [(rows, total, f"{total + rows // 4}.00", total)]],
        [
            [(carrier, 2 * rows // 3) for carrier in _CARRIERS],
            [(2 * rows, both, f"{both + rows // 2}.00", both)],
            [(rows - 1, rows - 1)],
        ],
    )
