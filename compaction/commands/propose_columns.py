"""`minutebook columns`: propose columns for a sample of a day's payloads, or try a file on it. Without Spark."""

import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

import pyarrow as pa

from compaction.columns.columns import Columns
from compaction.columns.counts import TypedCounts
from compaction.columns.documents import read_documents
from compaction.columns.files.columns_file import parse_columns, read_columns
from compaction.columns.files.proposing import propose
from compaction.columns.payload_columns import PayloadColumns
from compaction.inventory.segments import make_row
from compaction.job.request import ColumnsRequest
from compaction.job.settings import load_job_settings
from compaction.parquet.fetching import fetch
from compaction.parquet.plan import RawObject, raw_objects
from compaction.parquet.reading import SegmentReader
from compaction.shard_groups.opened import open_in_task
from minutebook.clock import SystemClock
from minutebook.errors import SettingsError
from minutebook.format.day import day_of_ms, parse_day
from minutebook.logs import configure_logging
from minutebook.owner import read_owned
from minutebook.published.schema import SCHEMA
from minutebook.store.parallel import in_parallel
from minutebook.store.retrying import RetryingStorage
from minutebook.terminal import TerminalConsole

_OBJECTS: Final = 100
"""Segments of a day that are read, spread over its shards and minutes."""


def propose_columns(request: ColumnsRequest, environ: Mapping[str, str]) -> int:
    """Print a proposal, or how many payloads of a sample fit a file; returns 0: misfits are no error."""
    day = parse_day(request.date, day_of_ms(SystemClock().now_ms()))
    settings = load_job_settings(request.file, environ)
    configure_logging("warning")
    columns = None if request.columns is None else read_columns(request.columns, SCHEMA.names)
    storage, prefix = open_in_task(settings.archive.address), settings.archive.prefix
    read_owned(storage, prefix, settings.owner)
    rows = [row for page in in_parallel(storage.list_objects, list(day.hour_paths(prefix))) for row in page]
    rows.sort(key=lambda row: row.key.encode())
    lines = list(_sample(storage, raw_objects(make_row(prefix, row) for row in rows), request.sample))
    if not lines:
        raise SettingsError(f"{day} holds no line", next_step="name a day of the archive that holds records")
    table = pa.concat_tables(lines)
    columns = columns or _propose(table)
    payload_columns = PayloadColumns(columns)
    payload_columns.columns_of(table)
    _show(columns, payload_columns.counts())
    return 0


def _sample(storage: RetryingStorage, objects: list[RawObject], count: int) -> Iterator[pa.Table]:
    """Yield about `count` lines, equally many of up to 100 objects that are spread over the day."""
    sampled = objects[:: max(1, -(-len(objects) // _OBJECTS))]
    share = max(1, -(-count // max(1, len(sampled))))
    left = count
    for raw_object in sampled:
        body = fetch(storage, raw_object)
        if body is None or left <= 0:
            continue
        of_object = 0
        for table in islice(SegmentReader(raw_object).tables(body.drain()), share):
            part = table.slice(0, min(share - of_object, left))
            of_object += part.num_rows
            left -= part.num_rows
            if part.num_rows:
                yield part


def _propose(table: pa.Table) -> Columns:
    documents = read_documents(table["data"].combine_chunks(), exact=False)
    rows = [row for number, row in enumerate(documents.rows) if number not in documents.apart]
    text = propose(rows, SCHEMA.names).toml()
    sys.stdout.write(text)
    return parse_columns(text.encode(), "the proposal", SCHEMA.names, is_toml=True)


def _show(columns: Columns, counts: TypedCounts) -> None:
    """Print on stderr how many payloads fit: stdout is the proposed file."""
    console = TerminalConsole(stderr=True)
    console.print(
        f"{counts.rows:,} payloads: {counts.rows - counts.unfit:,} fit {len(columns.columns)} column(s), "
        f"{counts.unfit:,} do not",
    )
    for sample in counts.samples:
        (shard, position), kind = sample.positions[0], sample.kind.replace("_", " ")
        console.print(
            f"  {sample.column}: {kind}, {sample.rows:,} row(s), first {shard} {position}",
        )
