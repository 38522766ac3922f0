"""What a finished task leaves beside its part, so that a later run need not do it again.

    dt=D/_gen-G/_facts/<fingerprint>-<digest>.parquet   one row per object of the task; the footer names the part

A run whose driver was killed leaves parts that nobody names. The next run of the same generation cuts the same tasks
and finds, by their fingerprints, what each of them has shown: it takes over those that are whole, and reads the rest.
Nothing is believed because it lies there. All of this must hold, or the task is done as if nothing lay there:

    its digest is that in its name ......... no byte was lost or changed
    its footer's fingerprint is the task's,
    and so are its rows .................... the objects, in order: key, ETag, size
    the lines that it left out are those
    that are to be left out ................ copies of producers', by their digest; mostly none
    the part that it names ................. lies in the generation's own folder, has the size, the ETag and the rows
                                             that it says, and these are as many as its objects have lines

A day takes over what the tasks of its hours have left, by the same rules: the part is copied (`copy_from`).
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
from compaction.event_ids.kept import CachedIds
from compaction.inventory.facts import Disorder, SegmentFacts
from compaction.parquet.plan import RawObject, Task
from compaction.parquet.rows import PARQUET_TYPE, read_footer
from compaction.tasks.taken import CachedTask
from minutebook.errors import FormatError
from minutebook.format.position import Position
from minutebook.published.inventory import inventory_digest
from minutebook.published.schema import SCHEMA_VERSION
from minutebook.store.retrying import RetryingStorage

FACTS_FOLDER: Final = "_facts/"
MOST_COPIED: Final = 5 << 30
"""What S3 copies in one request."""
YOUNG_MS: Final = 24 * 3_600_000
"""How old a task's facts may be to be taken over. The sweep spares what is younger than three days: a run that takes
them over has two days left until another one's sweep could remove the part."""
_FORMAT: Final = "facts-2"
"""2: with the ETag of the part."""
_STATED: Final = b"minutebook"
_DIGITS: Final = 32
_POSITIONS: Final = ("first", "last", "low", "high")
_COUNTS: Final = (
    "lines",
    "raw_bytes",
    "payload_bytes",
    "arrival_min_ms",
    "arrival_max_ms",
    "wrong_minute",
    "wrong_shard",
)
_TEXTS: Final = ("key", "etag", "metadata", *_POSITIONS, "samples")
_NUMBERS: Final = ("size", "stepped_back", "repeated", *_COUNTS)
_SCHEMA: Final = pa.schema([*((name, pa.string()) for name in _TEXTS), *((name, pa.int64()) for name in _NUMBERS)])


class Part(NamedTuple):
    """A Parquet file that exists. `segments` counts the objects in it, `typed` what fits its columns."""

    key: str
    rows: int
    size: int
    segments: int
    typed: TypedCounts | None = None
    etag: str = ""


class FinishedTask(NamedTuple):
    """What a task has shown, and its part. `left_out` names the lines that the part lacks; empty: none.

    `key` is that of its facts, where they are stored; `ids` names the file of event ids that an hour has kept.
    """

    part: Part
    facts: tuple[SegmentFacts, ...]
    left_out: str = ""
    key: str = ""
    ids: CachedIds | None = None


class _Stated(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The footer's word: whose facts these are, and which part goes with them.

    Earlier versions know neither `left_out` nor `ids`, and take over what says nothing of them.
    """

    format: str
    task: str
    part: str
    rows: int
    size: int
    etag: str
    typed: StatedCounts | None
    left_out: str = ""
    ids: CachedIds | None = None


def fingerprint(task: Task) -> str:
    """Return the name of what a task reads and how its part is written: the same work, the same name.

    With the time at which one of its objects was last written: a copy onto itself changes an object's metadata, and
    neither its ETag nor its size.
    """
    objects = ((raw_object.key, raw_object.etag, raw_object.size) for raw_object in task.objects)
    newest_ms = max((raw_object.modified_ms for raw_object in task.objects), default=0)
    return inventory_digest(objects, _FORMAT, f"parquet-{SCHEMA_VERSION}", str(newest_ms))[:_DIGITS]


def find_facts(out: RetryingStorage, folder: str, since_ms: int) -> dict[str, tuple[str, ...]]:
    """Return the keys of the facts below a generation's folder that were stored since then, by fingerprint.

    Raises:
        StoreUnavailable, StoreRefused: the store.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for row in out.list_objects(f"{folder}{FACTS_FOLDER}"):
        name = row.key.removeprefix(f"{folder}{FACTS_FOLDER}")
        if row.last_modified_ms >= since_ms and name.endswith(".parquet"):
            found[name.partition("-")[0]].append(row.key)
    return {task: tuple(keys) for task, keys in found.items()}


def keep_facts(out: RetryingStorage, folder: str, task: Task, finished: FinishedTask) -> str:
    """Store what a task has shown, in one PUT, after its part is there; returns the key.

    Not where an object of it could not be read to its end: a second reading may find it whole. Empty then.

    Raises:
        StoreUnavailable, StoreRefused: the store.
    """
    if any(read.problem for read in finished.facts):
        return ""
    name = fingerprint(task)
    body = encode_facts(name, task.objects, finished)
    key = f"{folder}{FACTS_FOLDER}{name}-{_digest(body)}.parquet"
    out.put_if_absent(key, body, content_type=PARQUET_TYPE)
    return key


def reuse(
    out: RetryingStorage, folder: str, task: Task, keys: Iterable[str], left_out: str = ""
) -> FinishedTask | None:
    """Return what an earlier run of the task has left, if it is whole; None: the task is still to be done.

    `left_out` names the lines that are to be left out.

    Raises:
        StoreUnavailable, StoreRefused: the store.
    """
    name = fingerprint(task)
    for key in keys:
        stored = out.get(key)
        if stored is None or not key.endswith(f"-{_digest(stored.body)}.parquet"):
            continue
        finished = _decoded(stored.body, name, task.objects)
        if finished is not None and finished.left_out == left_out and _is_whole(out, folder, finished):
            return finished._replace(key=key)
    return None


def copy_from(out: RetryingStorage, folder: str, task: Task, taken: CachedTask, new_key: str) -> FinishedTask | None:
    """Return what a task of an hour has left, with a copy of its part in the day's folder; None: read the lines.

    The store copies the part that was looked at and no other one, and the copy's footer is read back. The copy is the
    day's own from then on: who removes the hour's files takes nothing from it.

    Raises:
        StoreUnavailable, StoreRefused: the store.
    """
    found = reuse(out, taken.folder, task, [taken.facts])
    if found is None or found.part.size > MOST_COPIED or not out.copy(found.part.key, new_key, found.part.etag):
        return None
    try:
        etag = check_footer(out, found.part._replace(key=new_key))
    except FormatError:
        return None
    copied = found._replace(part=found.part._replace(key=new_key, etag=etag))
    return copied._replace(key=keep_facts(out, folder, task, copied))


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
    """Read the file's footer back: what will be published is what is stored, not what was meant; returns its ETag.

    Raises:
        FormatError: the file has another size, holds other rows or other misfits, or is no Parquet file.
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
    """Count the rows that say why they do not fit, as the file itself does."""
    groups = [
        stored.row_group(number) for number in range(stored.num_row_groups) if stored.row_group(number).num_rows
    ]
    last = stored.num_columns - 1
    return sum(group.num_rows - group.column(last).statistics.null_count for group in groups)


def encode_facts(name: str, objects: Sequence[RawObject], finished: FinishedTask) -> bytes:
    """Return the file: a row per object, in the task's order."""
    part, facts, left_out = finished.part, finished.facts, finished.left_out
    typed = None if part.typed is None else StatedCounts.of(part.typed)
    stated = _Stated(_FORMAT, name, part.key, part.rows, part.size, part.etag, typed, left_out, finished.ids)
    rows = [_row(raw_object, read) for raw_object, read in zip(objects, facts, strict=True)]
    columns = [_texts([row[field] for row in rows]) for field in _TEXTS]
    columns += [long_column(row[field] for row in rows) for field in _NUMBERS]
    schema = _SCHEMA.with_metadata({_STATED: msgspec.json.encode(stated)})
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), sink, compression="zstd")
    return sink.getvalue()


def _decoded(body: bytes, name: str, objects: Sequence[RawObject]) -> FinishedTask | None:
    """Read the file; None when it is not one of ours, or of another task."""
    try:
        table = pq.ParquetFile(pa.BufferReader(body)).read()
        stated = msgspec.json.decode((table.schema.metadata or {}).get(_STATED, b""), type=_Stated)
        if (stated.format, stated.task) != (_FORMAT, name) or not table.schema.equals(_SCHEMA):
            return None
        rows = table.to_pylist()
        known = [(raw_object.key, raw_object.etag, raw_object.size) for raw_object in objects]
        if [(row["key"], row["etag"], row["size"]) for row in rows] != known:
            return None
        typed = None if stated.typed is None else stated.typed.counts()
        part = Part(stated.part, stated.rows, stated.size, len(rows), typed, stated.etag)
        return FinishedTask(part, tuple(_facts(row) for row in rows), stated.left_out, ids=stated.ids)
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
    given = {name: row[name] for name in _COUNTS}
    given |= {name: None if row[name] is None else Position.parse(row[name]) for name in _POSITIONS}
    disorder = Disorder(row["stepped_back"], row["repeated"], tuple(row["samples"].split()))
    return SegmentFacts(
        row["key"], msgspec.json.decode(row["metadata"], type=dict[str, str]), disorder=disorder, **given
    )


def _texts(values: Sequence[Any]) -> pa.Array:
    return with_gaps(text_column([value or "" for value in values]), [value is not None for value in values])
