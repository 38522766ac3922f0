"""`minutebook columns`: propose columns for a sample of a day's payloads, or try a file on it. Without Spark."""

import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

import pyarrow as pa

from compaction.columns.columns import EVENT_INDEX, Columns
from compaction.columns.counts import TypedCounts
from compaction.columns.decode.decoder import Decoder, new_payload_columns
from compaction.columns.decode.finding import Sniffed, sniff
from compaction.columns.decode.registered import Schemas, open_schemas
from compaction.columns.documents import Documents, read_documents
from compaction.columns.files.columns_file import parse_columns, read_columns
from compaction.columns.files.proposing import events_or_payloads, propose
from compaction.columns.files.sniffing import is_decodable, kind_of, told
from compaction.columns.payload_columns import DecodedBlock
from compaction.columns.steps import multiply
from compaction.commands.compare_columns import CHANGED, NO_TABLE, TableConflicts, compare
from compaction.inventory.segments import make_row
from compaction.job import checks
from compaction.job.request import ColumnsRequest
from compaction.job.settings import load_job_settings
from compaction.parquet.fetching import fetch
from compaction.parquet.plan import RawObject, raw_objects
from compaction.parquet.reading import SegmentReader
from compaction.shard_groups.opened import open_in_task
from compaction.tables.catalog import opened_table
from minutebook.clock import SystemClock
from minutebook.errors import SettingsError
from minutebook.format.day import day_of_ms, parse_day
from minutebook.logs import configure_logging
from minutebook.owner import read_owned
from minutebook.published.schema import SCHEMA
from minutebook.store.parallel import in_parallel
from minutebook.store.places import open_retrying
from minutebook.store.retrying import RetryingStorage
from minutebook.terminal import TerminalConsole

_BUDGET_SECONDS: Final = 60
_OBJECTS: Final = 100
"""Segments of a day that are read, spread over its shards and minutes."""
_SNIFF: Final = "minutebook columns --sniff looks for steps that decode them"
_OBJECTS_ALONE: Final = "columns need a JSON object a payload; others are published whole, in data or data_bytes"
_MOST_EVENTS: Final = 1_000_000
_SAMPLED_BYTES: Final = 64 << 20
"""Bytes of lines that are sampled: with large records there are fewer."""
_DECODED_BYTES: Final = 256 << 20
"""Decoded payloads that are held at once."""


def propose_columns(request: ColumnsRequest, environ: Mapping[str, str]) -> int:
    """Print a proposal, or how many payloads of a sample fit a file; returns 0: misfits are no error.

    With `since` or `iceberg` print how a file differs from what is published, and return 4 where that changes.
    """
    if request.sniff and request.columns is not None:
        raise SettingsError("--sniff proposes a file, and --columns tries one", next_step="drop one of them")
    if request.since is not None or request.iceberg is not None or request.iceberg_catalog is not None:
        return _compare(request, environ)
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
    schemas = open_schemas(settings.schemas(settings.output(request.out))._replace(keeps=False))
    if columns is None:
        text, columns = proposed(table, is_sniffed=request.sniff, schemas=schemas)
        sys.stdout.write(text)
    payload_columns = new_payload_columns(columns, schemas)
    for _ in payload_columns.tables_of(table):
        pass  # what is counted is shown
    _show(columns, payload_columns.counts())
    return 0


def _compare(request: ColumnsRequest, environ: Mapping[str, str]) -> int:
    today = day_of_ms(SystemClock().now_ms())
    since = None if request.since is None else parse_day(request.since, today)
    settings = load_job_settings(request.file, environ)
    name = checks.table_of_stream(
        checks.iceberg_table(request.iceberg, request.iceberg_catalog), settings.application_name
    )
    columns, out = checks.columns_of_request(settings, request.columns, None, None), settings.output(request.out)
    if columns is None:
        raise SettingsError("--since and --iceberg compare a file of columns", next_step="name it with --columns")
    configure_logging("warning")
    found = NO_TABLE
    if name is not None:
        with opened_table(name, request.iceberg_catalog, out, by_event=columns.event is not None) as table:
            found = TableConflicts(table.name, table.conflicts(columns.types))
    compared = compare(open_retrying(out.address, _BUDGET_SECONDS), out.prefix, since, columns, found)
    console = TerminalConsole()
    for line in compared.lines:
        console.print(line)
    return CHANGED if compared.is_changed else 0


def _sample(storage: RetryingStorage, objects: list[RawObject], count: int) -> Iterator[pa.Table]:
    """Yield about `count` lines, equally many of up to 100 objects that are spread over the day.

    At least one of each, but no more than 64 MiB and one line.
    """
    sampled = objects[:: max(1, -(-len(objects) // _OBJECTS))]
    share = max(1, -(-count // max(1, len(sampled))))
    left, left_bytes = count, _SAMPLED_BYTES
    for raw_object in sampled:
        body = fetch(storage, raw_object)
        if body is None or left <= 0 or left_bytes <= 0:
            continue
        of_object, room = 0, min(left_bytes, _SAMPLED_BYTES // len(sampled))
        for table in islice(SegmentReader(raw_object).tables(body.drain()), share):
            fitting = max(1, room * table.num_rows // max(1, table.nbytes)) if room > 0 else 0
            rows = min(share - of_object, left, fitting, table.num_rows)
            part = table.take(pa.array(range(rows), pa.int64()))  # a slice would hold all of the table
            of_object += part.num_rows
            left -= part.num_rows
            room -= part.nbytes
            left_bytes -= part.nbytes
            if part.num_rows:
                yield part


def proposed(table: pa.Table, *, is_sniffed: bool = False, schemas: Schemas | None = None) -> tuple[str, Columns]:
    """Return a file of columns for lines, and its columns; raise SettingsError, which says why, if there are none.

    `is_sniffed`: also look for the steps that decode them, with `schemas` of a registry.
    """
    sniffed = Sniffed((), ())
    if is_sniffed:
        sniffed = sniff([_payload(table, number) for number in range(table.num_rows)], schemas)
    block = next(Decoder(sniffed.steps, schemas).blocks(table, _MOST_EVENTS, _DECODED_BYTES))
    documents = read_documents(block.texts, exact=False)
    payloads = len(documents.rows)
    rows = [row for number, row in enumerate(documents.rows) if number not in documents.unread]
    kinds = [_kind(table, block, documents, number) for number in sorted(documents.unread)]
    others = told(kinds, payloads, events_or_payloads(sniffed.steps))
    if block.end < table.num_rows:
        others.append(f"{table.num_rows - block.end:,} further payloads are not looked at: these are large enough")
    help_there = [_SNIFF] if not is_sniffed and any(map(is_decodable, kinds)) else []
    reserved = [*SCHEMA.names, EVENT_INDEX] if multiply(sniffed.steps) else SCHEMA.names
    proposal = propose(rows, reserved, payloads)
    notes = (*sniffed.reasons, *others, *help_there, *proposal.notes)
    if not proposal.proposed:
        empty = [f"{len(rows):,} of {payloads:,} payloads are objects without a value"] if rows else []
        raise SettingsError(
            f"no column can be proposed: {'; '.join([*sniffed.reasons, *others, *empty, *proposal.notes])}",
            next_step="; ".join([*help_there, _OBJECTS_ALONE]),
        )
    text = proposal._replace(notes=notes, decode=sniffed.steps).toml()
    return text, parse_columns(text.encode(), "the proposal", SCHEMA.names, is_toml=True)


def _kind(table: pa.Table, block: DecodedBlock, documents: Documents, row: int) -> str:
    """Return what a row is that is no object: of what the steps made of it, or of a payload that they do not read."""
    if (misfit := block.misfits.get(row)) is not None:
        return kind_of(_payload(table, block.events[0][row]), misfit)
    return kind_of(str(block.texts[row].as_py()).encode(), documents.problems[row][-1])


def _payload(table: pa.Table, row: int) -> bytes:
    """Return a payload as it came."""
    text = table["data"][row].as_py()
    return bytes(table["data_bytes"][row].as_py() or b"") if text is None else str(text).encode()


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
            f"  {sample.column}: {kind}, {sample.rows:,} row(s), "
            f"{f'{sample.values:,} values, ' if sample.values > sample.rows else ''}first {shard} {position}",
        )
