"""Turn lines into Arrow tables; every line is checked, none is skipped.

The native codec reads the usual lines of one shard. Other blocks are decoded in Python and checked column by column;
a block that fails this is decoded line by line, to report which line is invalid and why.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from compaction.columns.arrow_columns import (
    bytes_column,
    column_of,
    column_of_longs,
    constant_column,
    long_column,
    text_column,
    with_gaps,
)
from minutebook.codec.columns import BlockColumns
from minutebook.errors import FormatError
from minutebook.format.record import Line, Record, decode_block, decode_line

LINE_SCHEMA: Final = pa.schema(
    [
        ("shard_id", pa.string()),
        ("sequence_number", pa.string()),
        ("sub_sequence_number", pa.int64()),
        ("partition_key", pa.string()),
        ("arrival_ms", pa.int64()),
        ("data", pa.string()),
        ("data_bytes", pa.binary()),
    ]
)
"""`data` holds payloads that are valid UTF-8, `data_bytes` the others; one of the two is null in each row."""
_LONGEST_NUMBER: Final = 129
_LATEST_MS: Final = ((1 << 63) - 1) // 1000
"""Parquet files hold microseconds in 64 bits."""


class Block(NamedTuple):
    """Whole lines: the first `size` bytes of a buffer."""

    buffer: bytearray
    size: int


def table_of_columns(columns: BlockColumns, shards: pa.StringArray) -> pa.Table:
    """Return lines that the native codec read, of these shards."""
    texts = column_of(pa.string(), columns.texts)
    blobs = pa.nulls(columns.rows, pa.binary())
    if columns.blobs is not None:
        texts = with_gaps(texts, columns.is_text)
        blobs = with_gaps(column_of(pa.binary(), columns.blobs), [not is_text for is_text in columns.is_text])
    return pa.Table.from_arrays(
        [
            shards,
            column_of(pa.string(), columns.sequences),
            column_of_longs(columns.subs),
            column_of(pa.string(), columns.keys),
            column_of_longs(columns.arrivals),
            texts,
            blobs,
        ],
        schema=LINE_SCHEMA,
    )


def table_of_block(block: Block, lines_before: int) -> pa.Table:
    """Return the lines of a block behind `lines_before` others; FormatError begins with an invalid line's number."""
    lines = decode_block(*block)
    table = None if lines is None else _table(lines)
    return _parse_slowly(bytes(memoryview(block.buffer)[: block.size]), lines_before) if table is None else table


def _table(lines: Sequence[Line]) -> pa.Table | None:
    """Turn lines into columns; None if a line breaks a rule of `decode_line`."""
    sequences = text_column([line.sequence_number for line in lines])
    arrivals = [line.arrival_ms for line in lines]
    payloads = _payloads(lines)
    if payloads is None or not _are_sequence_numbers(sequences) or not _are_arrivals(arrivals):
        return None
    shards = [line.shard_id for line in lines]
    is_one_shard = shards.count(shards[0]) == len(shards)
    return pa.Table.from_arrays(
        [
            constant_column(shards[0], len(shards)) if is_one_shard else text_column(shards),
            sequences,
            long_column([line.sub_sequence_number for line in lines]),
            text_column([line.partition_key for line in lines]),
            long_column(arrivals),
            *payloads,
        ],
        schema=LINE_SCHEMA,
    )


def _payloads(lines: Sequence[Line]) -> tuple[pa.Array, pa.Array] | None:
    """Return the columns of text and of bytes; None unless each line has exactly one payload."""
    texts, blobs = [line.data for line in lines], [line.data_base64 for line in lines]
    if blobs.count(msgspec.UNSET) == len(blobs):
        try:
            return text_column(texts), pa.nulls(len(lines), pa.binary())  # type: ignore[arg-type]  # raises if not
        except TypeError:  # a line without payload
            return None
    pairs = [[value for value in pair if value is not msgspec.UNSET] for pair in zip(texts, blobs, strict=True)]
    if any(len(pair) != 1 for pair in pairs):
        return None
    return _payload_columns([pair[0] for pair in pairs])


def _payload_columns(payloads: Sequence[str | bytes]) -> tuple[pa.Array, pa.Array]:
    """Return the columns of text and of bytes: valid UTF-8 is text, whichever field of the line held it."""
    decoded = [_text_if_valid(payload) if isinstance(payload, bytes) else payload for payload in payloads]
    is_text = [isinstance(payload, str) for payload in decoded]
    texts = text_column([payload if isinstance(payload, str) else "" for payload in decoded])
    blobs = bytes_column([b"" if isinstance(payload, str) else payload for payload in decoded])
    return with_gaps(texts, is_text), with_gaps(blobs, [not text for text in is_text])


def _text_if_valid(payload: bytes) -> str | bytes:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return payload


def _are_arrivals(times_ms: Sequence[int]) -> bool:
    return max(times_ms) <= _LATEST_MS and min(times_ms) >= -_LATEST_MS


def _are_sequence_numbers(texts: pa.StringArray) -> bool:
    """Return whether `Position` accepts all; `0`, which Kinesis never issues, is left to the slow path."""
    return (
        pc.all(pc.ascii_is_decimal(texts)).as_py()
        and not pc.any(pc.starts_with(texts, "0")).as_py()
        and pc.max(pc.binary_length(texts)).as_py() <= _LONGEST_NUMBER
    )


def _parse_slowly(block: bytes, lines_before: int) -> pa.Table:
    records: list[tuple[str, Record]] = []
    for number, line in enumerate(block[:-1].split(b"\n"), start=lines_before + 1):
        try:
            shard_id, record = decode_line(line)
        except FormatError as exc:
            raise FormatError(f"line {number}: {exc}") from exc
        if not _are_arrivals([record.arrival_ms]):
            raise FormatError(f"line {number}: not a line of a segment: arrival_ms {record.arrival_ms}")
        records.append((shard_id, record))
    return table_of_records(records)


def table_of_records(records: Sequence[tuple[str, Record]]) -> pa.Table:
    """Return one or more records, each with its shard id, as lines."""
    shards, values = zip(*records, strict=True)
    return pa.Table.from_arrays(
        [
            text_column(shards),
            text_column([record.sequence_number for record in values]),
            long_column([record.sub_sequence_number for record in values]),
            text_column([record.partition_key for record in values]),
            long_column([record.arrival_ms for record in values]),
            *_payload_columns([record.data for record in values]),
        ],
        schema=LINE_SCHEMA,
    )
