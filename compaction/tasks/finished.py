"""Facts that a finished task stores beside its part, so that a later run can reuse it.

    dt=D/_gen-G/_facts/<fingerprint>-<digest>.parquet   one row per object of the task; the footer names the part

A killed run leaves parts that no manifest names. The next run of the generation cuts the same tasks, finds their
facts by fingerprint, reuses whole parts and reads the rest. All of this must hold to reuse a part:

    the facts' digest is that in their name ... no byte was lost or changed
    their footer has the task's fingerprint,
    and their rows are the task's objects ..... in order: key, ETag, size
    they left out the lines to be left out .... producer copies, by their digest; mostly none
    the part that they name ................... lies in the generation's folder, has the stated size, ETag and rows,
                                                and as many rows as its objects have lines

Functions that call the store raise StoreUnavailable or StoreRefused.
"""

import hashlib
import io
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from compaction.columns.arrow_columns import long_column, text_column, with_gaps
from compaction.columns.counts import StatedCounts, TypedCounts
from compaction.inventory.segments import Disorder, SegmentFacts
from compaction.parquet.plan import RawObject, Task
from compaction.parquet.rows import PARQUET_TYPE, read_footer
from minutebook.errors import FormatError
from minutebook.format.position import Position
from minutebook.published.inventory import inventory_digest
from minutebook.published.schema import SCHEMA_VERSION
from minutebook.store.retrying import RetryingStorage

FACTS_FOLDER: Final = "_facts/"
YOUNG_MS: Final = 24 * 3_600_000
"""Maximum age of facts to be reused. The sweep deletes parts after three days, so a run that reuses one has two days
left before another run's sweep could delete it."""
_FORMAT: Final = "facts-3"
"""2: with the ETag of the part. 3: with `step_back_ms`."""
_FOOTER_KEY: Final = b"minutebook"
_DIGITS: Final = 32
_POSITIONS: Final = ("first", "last", "low", "high")
_COUNTS: Final = (
    "lines",
    "raw_bytes",
    "payload_bytes",
    "arrival_min_ms",
    "arrival_max_ms",
    "step_back_ms",
    "wrong_minute",
    "wrong_shard",
)
_TEXTS: Final = ("key", "etag", "metadata", *_POSITIONS, "samples")
_NUMBERS: Final = ("size", "stepped_back", "repeated", *_COUNTS)
_SCHEMA: Final = pa.schema([*((name, pa.string()) for name in _TEXTS), *((name, pa.int64()) for name in _NUMBERS)])


class Part(NamedTuple):
    """A Parquet file that exists. `segments`: number of objects in it; `typed`: counts of its typed columns."""

    key: str
    rows: int
    size: int
    segments: int
    typed: TypedCounts | None = None
    etag: str = ""


class FinishedTask(NamedTuple):
    """The facts of a task, and its part. `left_out`: digest of the lines that the part lacks; empty: none."""

    part: Part
    facts: tuple[SegmentFacts, ...]
    left_out: str = ""


class _Footer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The task of these facts, and its part. Earlier versions do not know `left_out`."""

    format: str
    task: str
    part: str
    rows: int
    size: int
    etag: str
    typed: StatedCounts | None
    left_out: str = ""


def fingerprint(task: Task) -> str:
    """Return a digest of a task's objects and of the format of its part.

    It includes the newest LastModified: copying an object onto itself changes its metadata, not its ETag or size.
    """
    objects = ((raw_object.key, raw_object.etag, raw_object.size) for raw_object in task.objects)
    newest_ms = max((raw_object.modified_ms for raw_object in task.objects), default=0)
    return inventory_digest(objects, _FORMAT, f"parquet-{SCHEMA_VERSION}", str(newest_ms))[:_DIGITS]


def find_facts(out: RetryingStorage, folder: str, since_ms: int) -> dict[str, tuple[str, ...]]:
    """Return the keys of facts in a generation's folder stored at or after `since_ms`, by fingerprint."""
    by_task: dict[str, list[str]] = defaultdict(list)
    for row in out.list_objects(f"{folder}{FACTS_FOLDER}"):
        name = row.key.removeprefix(f"{folder}{FACTS_FOLDER}")
        if row.last_modified_ms >= since_ms and name.endswith(".parquet"):
            by_task[name.partition("-")[0]].append(row.key)
    return {task: tuple(keys) for task, keys in by_task.items()}


def keep_facts(out: RetryingStorage, folder: str, task: Task, finished: FinishedTask) -> None:
    """Store the facts of a task, in one PUT, after its part exists.

    Nothing is stored if an object could not be read to its end: a retry may find it whole.
    """
    if any(read.problem for read in finished.facts):
        return
    name = fingerprint(task)
    body = encode_facts(name, task.objects, finished)
    key = f"{folder}{FACTS_FOLDER}{name}-{_digest(body)}.parquet"
    out.put_if_absent(key, body, content_type=PARQUET_TYPE)


def reuse(
    out: RetryingStorage, folder: str, task: Task, keys: Iterable[str], left_out: str = ""
) -> FinishedTask | None:
    """Return what an earlier run of the task left, if it is whole; None: the task must run.

    `left_out`: digest of the lines to be left out.
    """
    name = fingerprint(task)
    for key in keys:
        stored = out.get(key)
        if stored is None or not key.endswith(f"-{_digest(stored.body)}.parquet"):
            continue
        finished = _decoded(stored.body, name, task.objects)
        if finished is not None and finished.left_out == left_out and _is_whole(out, folder, finished):
            return finished
    return None


def _is_whole(out: RetryingStorage, folder: str, finished: FinishedTask) -> bool:
    part, facts, left_out = finished.part, finished.facts, finished.left_out
    name = part.key.removeprefix(folder)
    is_ours = part.key.startswith(folder) and "/" not in name and name.startswith("part-")
    lines = sum(read.lines for read in facts)
    if not is_ours or (part.rows > lines if left_out else part.rows != lines):
        return False
    head = out.head(part.key)
    if head is None or (head.size, head.etag) != (part.size, part.etag):
        return False
    try:
        check_footer(out, part)
    except FormatError:
        return False
    return True


def check_footer(out: RetryingStorage, part: Part) -> str:
    """Read a stored file's footer back and return its ETag, so that only what is really stored gets published.

    Raises FormatError if the file has another size, other numbers of rows or misfits, or is no Parquet file.
    """
    tail = read_footer(out, part.key)
    if tail.size != part.size:
        raise FormatError(f"{part.key} has {tail.size} bytes, {part.size} were written")
    try:
        stored = pq.read_metadata(pa.BufferReader(tail.data))
    except (pa.ArrowException, OSError) as exc:
        raise FormatError(f"{part.key} has no footer: {exc}") from exc
    if stored.num_rows != part.rows:
        raise FormatError(f"{part.key} holds {stored.num_rows} rows, {part.rows} were written")
    if part.typed is not None and (unfit := _unfit(stored)) != part.typed.unfit:
        raise FormatError(f"{part.key} holds {unfit} rows that do not fit, {part.typed.unfit} were written")
    return tail.etag


def _unfit(stored: pq.FileMetaData) -> int:
    """Count the rows with a text in `_unfit`, the last column, from the file's statistics."""
    groups = [group for group in map(stored.row_group, range(stored.num_row_groups)) if group.num_rows]
    last = stored.num_columns - 1
    return sum(group.num_rows - group.column(last).statistics.null_count for group in groups)


def encode_facts(name: str, objects: Sequence[RawObject], finished: FinishedTask) -> bytes:
    """Return the file of facts: one row per object, in the task's order."""
    part, facts, left_out = finished.part, finished.facts, finished.left_out
    typed = None if part.typed is None else StatedCounts.of(part.typed)
    footer = _Footer(_FORMAT, name, part.key, part.rows, part.size, part.etag, typed, left_out)
    rows = [_row(raw_object, read) for raw_object, read in zip(objects, facts, strict=True)]
    columns = [_texts([row[field] for row in rows]) for field in _TEXTS]
    columns += [long_column(row[field] for row in rows) for field in _NUMBERS]
    schema = _SCHEMA.with_metadata({_FOOTER_KEY: msgspec.json.encode(footer)})
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), sink, compression="zstd")
    return sink.getvalue()


def _decoded(body: bytes, name: str, objects: Sequence[RawObject]) -> FinishedTask | None:
    """Read a file of facts; None if it is invalid or belongs to another task."""
    try:
        table = pq.ParquetFile(pa.BufferReader(body)).read()
        footer = msgspec.json.decode((table.schema.metadata or {}).get(_FOOTER_KEY, b""), type=_Footer)
        if (footer.format, footer.task) != (_FORMAT, name) or not table.schema.equals(_SCHEMA):
            return None
        rows = table.to_pylist()
        expected = [(raw_object.key, raw_object.etag, raw_object.size) for raw_object in objects]
        if [(row["key"], row["etag"], row["size"]) for row in rows] != expected:
            return None
        typed = None if footer.typed is None else footer.typed.counts()
        part = Part(footer.part, footer.rows, footer.size, len(rows), typed, footer.etag)
        return FinishedTask(part, tuple(map(_facts, rows)), footer.left_out)
    except (pa.ArrowException, OSError, msgspec.MsgspecError, FormatError):
        return None


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:_DIGITS]


def _row(raw_object: RawObject, read: SegmentFacts) -> dict[str, Any]:
    return {
        "key": raw_object.key,
        "etag": raw_object.etag,
        "metadata": msgspec.json.encode(read.metadata).decode(),
        **{name: None if (at := getattr(read, name)) is None else str(at) for name in _POSITIONS},
        "samples": " ".join(read.disorder.samples),
        "size": raw_object.size,
        "stepped_back": read.disorder.stepped_back,
        "repeated": read.disorder.repeated,
        **{name: getattr(read, name) for name in _COUNTS},
    }


def _facts(row: Mapping[str, Any]) -> SegmentFacts:
    fields = {name: row[name] for name in _COUNTS}
    fields |= {name: None if row[name] is None else Position.parse(row[name]) for name in _POSITIONS}
    metadata = msgspec.json.decode(row["metadata"], type=dict[str, str])
    disorder = Disorder(row["stepped_back"], row["repeated"], tuple(row["samples"].split()))
    return SegmentFacts(row["key"], metadata, disorder=disorder, **fields)


def _texts(values: Sequence[Any]) -> pa.Array:
    return with_gaps(text_column([value or "" for value in values]), [value is not None for value in values])
