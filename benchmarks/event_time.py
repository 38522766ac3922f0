"""A published day cut by the day of its events: what it costs a row, how many files it makes, what queries open.

Rows are flights whose events lie days before their arrival, most of them none. The day is published in so many files,
each of which a task cuts; tasks run in this process, one after the other. Every row must be in the table once.
"""

import argparse
import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog

from archive.clock import SystemClock, new_id
from archive.published.schema import SCHEMA
from archive.store.places import StorePrefix
from archive.store.storage import Address
from compaction.events.files import EventFiles, EventWork
from compaction.events.work import EventSizes
from compaction.iceberg.commit import TableCommitter
from compaction.iceberg.table import IcebergTable
from demo.flights import read_flights
from tests.corpus.shelf import Shelf
from tests.integration.lake import DAY

if TYPE_CHECKING:
    from compaction.publish.publisher import Publisher

_EVENTS = pa.schema([*SCHEMA, ("event_time", pa.timestamp("us", "UTC")), ("_unfit", pa.string())])
_DAY_US = 86_400_000_000


def main(arguments: list[str]) -> int:
    """Run it. Exit code 1 when a row is not there once."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks event_time", description=__doc__)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--late", type=float, default=0.05, help="share of rows that are 1 to 30 days late")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="minutebook-event-time-") as folder:
        shelf = Shelf(StorePrefix(Address(None, folder), "out/"))
        _publish(shelf, options.rows, options.files, options.late)
        return _cut(shelf, folder, options.rows)


def _cut(shelf: Shelf, folder: str, rows: int) -> int:
    publisher, spent = shelf.publisher(DAY), list[float]()

    def in_turn(work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        begin = time.process_time()
        found = [work(item) for item in items]
        spent.append(time.process_time() - begin)
        return found

    # Each published file is a task, as on a large day.
    work = EventWork(shelf.place.address, in_turn, SystemClock(), EventSizes(order=1))
    catalog = SqlCatalog("default", uri=f"sqlite:///{folder}/catalog.sqlite", warehouse=f"file://{folder}/warehouse")
    table = IcebergTable(catalog, "events.raw", by_event=True)
    begin = time.process_time()
    TableCommitter(table, publisher, shelf.clock, new_id, EventFiles(publisher, work, 30)).commit()
    whole = time.process_time() - begin
    read = catalog.load_table("events.raw")
    files = [task.file for task in read.scan().plan_files()]
    day = DAY.shift(-7)
    late = f"event_time >= '{day}T00:00:00+00:00' and event_time < '{day.shift(1)}T00:00:00+00:00'"
    opened = len(list(read.scan(row_filter=late).plan_files()))
    numbers = read.scan(selected_fields=("sequence_number",)).to_arrow()["sequence_number"]
    sizes = (_published_bytes(publisher), sum(file.file_size_in_bytes for file in files))
    sys.stdout.write(
        f"{rows:,} rows; split {spent[0] * 1e6 / rows:.2f} us of CPU a row, gather {spent[1] * 1e6 / rows:.2f}, with "
        f"the commit {whole * 1e6 / rows:.2f}\n{len(files)} files in {len({str(file.partition) for file in files})} "
        f"partitions, {sizes[1]:,} bytes (published: {sizes[0]:,}); one event day opens {opened} file(s)\n"
        f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB\n"
    )
    return 0 if len(numbers) == rows == len(numbers.unique()) else 1


def _published_bytes(publisher: "Publisher") -> int:
    _, manifest = publisher.published()
    return 0 if manifest is None else sum(file.bytes for file in manifest.files)


def _publish(shelf: Shelf, rows: int, files: int, late: float) -> None:
    """Publish the day: a shelf's, whose one-row files are replaced by the ones that are asked for."""
    shelf.publish(DAY, "one", (1,) * files)
    publisher = shelf.publisher(DAY)
    pointer, manifest = publisher.published()
    if pointer is None or manifest is None:
        raise AssertionError
    payloads = cycle(flight.data for flight in read_flights())
    described = []
    for number, file in enumerate(manifest.files):
        path = Path(shelf.storage.uri(file.key))
        count = rows // files + (number < rows % files)
        pq.write_table(_table(number, count, late, payloads), path, compression="zstd", row_group_size=200_000)
        described.append({"key": file.key, "rows": count, "bytes": path.stat().st_size})
    stored = Path(shelf.storage.uri(pointer.manifest))
    said = json.loads(stored.read_text()) | {"files": described, "rows": rows, "columns": {"event_time": "timestamp"}}
    stored.write_text(json.dumps(said))
    current = Path(shelf.storage.uri(publisher.folder.pointer))
    current.write_text(json.dumps(json.loads(current.read_text()) | {"rows": rows}))


def _table(number: int, count: int, late: float, payloads: Iterator[str]) -> pa.Table:
    rng = random.Random(number)  # noqa: S311 - delays, not secrets
    days = [rng.randint(1, 30) if rng.random() < late else 0 for _ in range(count)]
    arrivals = [DAY.begin_ms * 1000 + at * (_DAY_US // count) for at in range(count)]
    nothing: list[None] = [None] * count
    columns: dict[str, list[Any]] = {
        "shard_id": [f"shardId-{number:012d}"] * count,
        "sequence_number": [f"4968{number:04d}{at:048d}" for at in range(count)],
        "sub_sequence_number": [0] * count,
        "partition_key": [f"key-{at}" for at in range(count)],
        "arrival_time": arrivals,
        "data": [next(payloads) for _ in range(count)],
        "data_bytes": nothing,
        "segment": [f"raw/{number}/{at // 1000}" for at in range(count)],
        "event_time": [at - back * _DAY_US for at, back in zip(arrivals, days, strict=True)],
        "_unfit": nothing,
    }
    return pa.table(columns, schema=_EVENTS)
