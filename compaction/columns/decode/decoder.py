"""Apply steps to the payloads of lines, in blocks whose bytes are bounded after decoding.

Steps are a chain of generators over records: only one record at a time is decoded, except that steps that read Avro
send a batch of their input to a child.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

import pyarrow as pa

from compaction.columns.arrow_columns import bytes_column, with_gaps
from compaction.columns.columns import Columns
from compaction.columns.decode.avro import BATCH_BYTES, BATCH_RECORDS, FILE_MAGIC, AvroReader, Sealed
from compaction.columns.decode.compressed import gunzip, unzstd
from compaction.columns.decode.dynamodb import from_dynamodb
from compaction.columns.decode.glue_registry import GlueRegistry
from compaction.columns.decode.outcome import MAX_BYTES, MAX_EVENTS, Events, Outcome, Text, too_long, too_many
from compaction.columns.decode.registered import Schemas
from compaction.columns.decode.several import from_cloudwatch_logs, from_documents, from_each
from compaction.columns.decode.texts import from_base64, from_json_text, with_json_text, without_bom
from compaction.columns.documents import bytes_of
from compaction.columns.misfits import Misfit
from compaction.columns.payload_columns import DecodedBlock, PayloadColumns
from compaction.columns.steps import GLUE_REGISTRY, Step, Steps

_NO_EVENT: Final[Events] = [b"{}"]
"""Every column of such a row is empty."""
StepOf = Callable[[bytes], Outcome | Events]
Stage = Callable[[Iterable[Events]], Iterator[Events]]
_Opened = list[Text | Sealed]
"""The events of a record before their Avro is read."""


def new_payload_columns(columns: Columns, schemas: Schemas | None = None) -> PayloadColumns:
    """Return a reader of columns that decodes payloads by the steps of their file, and by registered schemas."""
    return PayloadColumns(columns, Decoder(columns.decode, schemas) if columns.decode else None)


class Decoder:
    """Implements `PayloadDecoder`: decodes payloads, one after another.

    No payload makes it raise. A registry that does not answer does: RegistryUnavailable, RegistryRefused.
    """

    def __init__(self, steps: Steps, schemas: Schemas | None = None) -> None:
        self._stages = [_stage(step, schemas) for step in steps]

    def apply(self, payloads: Iterable[bytes]) -> Iterator[Events]:
        """Yield what the steps make of payloads, or why one fails."""
        records: Iterator[Events] = ([payload] for payload in payloads)
        for stage in self._stages:
            records = stage(records)
        return records

    def blocks(self, lines: pa.Table, rows: int, text_bytes: int) -> Iterator[DecodedBlock]:
        """Yield the payloads of lines, decoded: at most `rows` a block, which ends behind `text_bytes`."""
        payloads = zip(*(bytes_of(lines[name].combine_chunks()) for name in ("data", "data_bytes")), strict=True)
        whole = (blob or b"" if data is None else data for data, blob in payloads)
        block = _Block()
        for record, events in enumerate(self.apply(whole)):
            is_unread = len(events) == 1 and isinstance(events[0], Misfit)
            for index, text in enumerate(events or _NO_EVENT):
                block.add(record, index if events and not is_unread else None, text)
                if block.size >= text_bytes or len(block.texts) >= rows:
                    yield block.finished()
                    block = _Block()
        if block.texts:
            yield block.finished()


class _Block:
    def __init__(self) -> None:
        self._misfits: dict[int, Misfit] = {}
        self._records: list[int] = []
        self._indexes: list[int | None] = []
        self.texts: list[bytes] = []
        self.size = 0

    def add(self, record: int, index: int | None, text: Text) -> None:
        text = _as_utf8(text)
        if isinstance(text, Misfit):
            self._misfits[len(self.texts)] = text
            text = b""
        self.texts.append(text)
        self._records.append(record)
        self._indexes.append(index)
        self.size += len(text)

    def finished(self) -> DecodedBlock:
        column = bytes_column(self.texts)
        texts = pa.Array.from_buffers(pa.string(), len(column), column.buffers())
        if self._misfits:
            texts = with_gaps(texts, [row not in self._misfits for row in range(len(column))])
        begin, end = self._records[0], self._records[-1] + 1
        return DecodedBlock(begin, end, texts, self._misfits, (self._records, self._indexes))


def _as_utf8(text: Text) -> Text:
    if isinstance(text, Misfit):
        return text
    try:
        text.decode()
    except UnicodeDecodeError:
        return Misfit("not_utf8", "not UTF-8 text")
    return text


def _one_by_one(step: StepOf, name: str) -> Stage:
    """Return the stage of a step that reads one text after another."""

    def stage(records: Iterable[Events]) -> Iterator[Events]:
        for events in records:
            yield _of_one(step, events, name) if len(events) > 1 else _texts(step, events)

    return stage


def _texts(step: StepOf, events: Events) -> Events:
    """Return what a step makes of a record that is one event."""
    if not events or isinstance(events[0], Misfit):
        return events
    outcome = step(events[0])
    return [outcome] if isinstance(outcome, Misfit) else [*outcome]


def _of_one(step: StepOf, events: Events, name: str) -> Events:
    """Return what a step makes of a record's events; together they have the bound of one record."""
    made, size = list[Text](), 0
    for event in events:
        texts = _texts(step, [event])
        made += texts
        size += sum(len(text) for text in texts if not isinstance(text, Misfit))
        if size > MAX_BYTES:
            return [too_long(name)]
        if len(made) > MAX_EVENTS:
            return [too_many(name)]
    return made


def _in_batches(reader: AvroReader, unseal: Callable[[bytes], Sealed | Outcome], name: str) -> Stage:
    """Return the stage of a step that reads several texts at once: those that `unseal` returns sealed."""

    def stage(records: Iterable[Events]) -> Iterator[Events]:
        batch, size, count, schemas = list[_Opened](), 0, 0, set[str]()
        for events in records:
            opened = _opened(unseal, events, name)
            batch.append(opened)
            for text in opened:
                if isinstance(text, Sealed) and text.schema not in schemas:
                    schemas.add(text.schema)
                    size += len(text.schema)
            size += sum(map(_size, opened))
            count += len(opened)
            if size >= BATCH_BYTES or count >= BATCH_RECORDS:
                yield from _of_batch(reader, batch, name)
                batch, size, count, schemas = [], 0, 0, set()
        yield from _of_batch(reader, batch, name)

    return stage


def _opened(unseal: Callable[[bytes], Sealed | Outcome], events: Events, name: str) -> _Opened:
    """Return the events of a record, some sealed; together they have the bound of one record."""
    opened, size = _Opened(), 0
    for text in events:
        found = text if isinstance(text, Misfit) else unseal(text)
        opened += found if isinstance(found, list) else [found]
        size += _size(opened[-1])
        if size > MAX_BYTES:
            return [too_long(name)]
    return opened


def _size(text: Text | Sealed) -> int:
    return 0 if isinstance(text, Misfit) else len(text.payload if isinstance(text, Sealed) else text)


def _of_batch(reader: AvroReader, batch: list[_Opened], name: str) -> Iterator[Events]:
    outcomes = reader.read([text for opened in batch for text in opened if isinstance(text, Sealed)])
    for opened in batch:
        made, size = list[Text](), 0
        for text in opened:
            outcome = next(outcomes) if isinstance(text, Sealed) else [text]
            found: Events = [outcome] if isinstance(outcome, Misfit) else [*outcome]
            size += sum(map(_size, found))
            made += found if size <= MAX_BYTES else []
        if size > MAX_BYTES:
            made = [too_long(name)]
        yield made if len(made) <= MAX_EVENTS else [too_many(name)]


def _stage(step: Step, schemas: Schemas | None) -> Stage:
    if step.name == GLUE_REGISTRY:
        if schemas is None:
            raise ValueError(f"the step {GLUE_REGISTRY} is read with schemas")
        return _in_batches(AvroReader(step.name), GlueRegistry(schemas).open, step.name)
    if step.name == "avro":
        return _in_batches(AvroReader(), partial(_sealed, schema=step.schema), step.name)
    return _one_by_one(_STEPS[step.name](step), step.name)


def _sealed(payload: bytes, schema: str) -> Sealed | Outcome:
    """Seal a payload of a schema; without one, only an object container file."""
    return Sealed(schema, payload) if schema or payload.startswith(FILE_MAGIC) else [payload]


_STEPS: Final[dict[str, Callable[[Step], StepOf]]] = {
    "gzip": lambda _: gunzip,
    "zstd": lambda _: unzstd,
    "bom": lambda _: without_bom,
    "base64": lambda _: from_base64,
    "json-text": lambda step: partial(with_json_text, path=step.path) if step.path else from_json_text,
    "dynamodb": lambda _: from_dynamodb,
    "documents": lambda _: from_documents,
    "cloudwatch-logs": lambda _: from_cloudwatch_logs,
    "each": lambda step: partial(from_each, path=step.path),
}
