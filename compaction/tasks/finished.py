"""Facts that a finished task stores beside its part, so that a later run can reuse it or judge the day without lines.

    dt=D/_gen-G/_facts/<fingerprint>-<digest>.parquet   one row per object of the task; the footer names the part

After a rewrite each object of the day has a row; a task that only reads stores facts without a part.
A killed run leaves parts that no manifest names. The next run of the generation cuts the same tasks, finds their
facts by fingerprint, reuses whole parts and reads the rest. All of this must hold to reuse a part:

    the facts' digest is that in their name ... no byte was lost or changed
    their footer has the task's fingerprint,
    and their rows are the task's objects ..... in order: key, ETag, size, LastModified, and what is
                                                known of the object's first content
    they left out the lines to be left out .... producer copies, by their digest; mostly none
    the part that they name ................... lies in the generation's folder, has the stated size, ETag and rows,
                                                and as many records as its objects have lines

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
from compaction.inventory.segments import Alteration, Disorder, History, SegmentFacts, with_history
from compaction.parquet.plan import RawObject, Task
from compaction.parquet.rows import PARQUET_TYPE, read_footer
from minutebook.errors import FormatError
from minutebook.format.position import Position
from minutebook.published.generation import FACTS_FOLDER
from minutebook.published.inventory import inventory_digest
from minutebook.published.schema import SCHEMA_VERSION
from minutebook.store.retrying import RetryingStorage, RetryingStore

YOUNG_MS: Final = 24 * 3_600_000
"""Maximum age of facts to be reused. The sweep deletes parts after three days, so a run that reuses one has two days
left before another run's sweep could delete it."""
_FORMAT: Final = "facts-4"
"""3: with `step_back_ms`. 4: with the digests of contents. Files of earlier formats are not read."""
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
_WORDS: Final = ("problem", "digest", "first_digest")
_TEXTS: Final = ("key", "etag", "metadata", *_POSITIONS, "samples", *_WORDS)
_NUMBERS: Final = ("size", "modified_ms", "stepped_back", "repeated", "changed", "altered", *_COUNTS)
_SCHEMA: Final = pa.schema([*((name, pa.string()) for name in _TEXTS), *((name, pa.int64()) for name in _NUMBERS)])


class Part(NamedTuple):
    """A Parquet file that exists. `segments`: number of objects in it; `typed`: counts of its typed columns.

    `digest` is the SHA-256 of its bytes in hex; empty: not known. `several`: the number of records, where one may be
    several rows.
    """

    key: str
    rows: int
    size: int
    segments: int
    typed: TypedCounts | None = None
    etag: str = ""
    digest: str = ""
    several: int | None = None

    @property
    def records(self) -> int:
        """The number of its records."""
        return self.rows if self.several is None else self.several


class FinishedTask(NamedTuple):
    """The facts of a task, and its part; None: it only read. `left_out`: digest of the lines that the part lacks.

    `is_later`: the objects were read when the generation was written already; it does not hold what was read.
    """

    part: Part | None
    facts: tuple[SegmentFacts, ...]
    left_out: str = ""
    is_later: bool = False


class Reading(NamedTuple):
    """What was read of an object of one size, ETag and LastModified."""

    etag: str
    size: int
    modified_ms: int
    facts: SegmentFacts


class StoredFacts(NamedTuple):
    """A file of facts."""

    readings: tuple[Reading, ...]
    is_later: bool


class _Footer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The task of these facts, and its part; `part` is empty where there is none."""

    format: str
    task: str
    part: str
    rows: int
    size: int
    etag: str
    typed: StatedCounts | None
    left_out: str = ""
    is_later: bool = False
    digest: str = ""
    several: int | None = None


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


def keep_facts(out: RetryingStorage, folder: str, task: Task, finished: FinishedTask) -> str:
    """Store the facts of a task, in one PUT, after its part exists; return their key."""
    name = fingerprint(task)
    body = encode_facts(name, task.objects, finished)
    key = facts_key(folder, name, body)
    out.put_if_absent(key, body, content_type=PARQUET_TYPE)
    return key


def facts_key(folder: str, name: str, body: bytes) -> str:
    """Return the key of a file of facts in a generation's folder: its fingerprint, and the digest of its bytes."""
    return f"{folder}{FACTS_FOLDER}{name}-{_digest(body)}.parquet"


def reuse(
    out: RetryingStorage, folder: str, task: Task, keys: Iterable[str], left_out: str = ""
) -> FinishedTask | None:
    """Return what an earlier run of the task left, if it is whole; None: the task must run.

    It must run, too, where an object could not be read to its end: a retry may find it whole. `left_out`: digest of
    the lines to be left out.
    """
    name = fingerprint(task)
    for key in keys:
        decoded = _get(out, key)
        if decoded is None or decoded[0].task != name:
            continue
        footer, readings = decoded
        expected = [(each.key, each.etag, each.size, each.modified_ms) for each in task.objects]
        if [(each.facts.key, each.etag, each.size, each.modified_ms) for each in readings] != expected:
            continue
        facts = tuple(each.facts for each in readings)
        part = Part(
            footer.part,
            footer.rows,
            footer.size,
            len(facts),
            None if footer.typed is None else footer.typed.counts(),
            footer.etag,
            footer.digest,
            footer.several,
        )
        is_same = all(
            not read.problem and _is_as_judged(read, each.history)
            for read, each in zip(facts, task.objects, strict=True)
        )
        if is_same and footer.left_out == left_out and _is_whole(out, folder, part, facts, left_out):
            return FinishedTask(part, facts, left_out)
    return None


def _is_as_judged(read: SegmentFacts, history: History | None) -> bool:
    """Whether stored facts say of an object what its history says now; a first reading names no earlier one."""
    now = with_history(read, history)
    first, first_now = read.first_digest or read.digest, now.first_digest or now.digest
    return (read.altered, first) == (now.altered, first_now)


def read_facts(out: RetryingStore, key: str) -> StoredFacts | None:
    """Read a file of facts; None if it is gone, damaged or of another format."""
    decoded = _get(out, key)
    return None if decoded is None else StoredFacts(decoded[1], decoded[0].is_later)


def _is_whole(out: RetryingStorage, folder: str, part: Part, facts: Sequence[SegmentFacts], left_out: str) -> bool:
    name = part.key.removeprefix(folder)
    is_ours = part.key.startswith(folder) and "/" not in name and name.startswith("part-")
    lines = sum(read.lines for read in facts)
    if not is_ours or (part.records > lines if left_out else part.records != lines):
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
    part = finished.part or Part("", 0, 0, 0)
    typed = None if part.typed is None else StatedCounts.of(part.typed)
    footer = _Footer(
        _FORMAT,
        name,
        part.key,
        part.rows,
        part.size,
        part.etag,
        typed,
        finished.left_out,
        finished.is_later,
        part.digest,
        part.several,
    )
    rows = [_row(raw_object, read) for raw_object, read in zip(objects, finished.facts, strict=True)]
    columns = [_texts([row[field] for row in rows]) for field in _TEXTS]
    columns += [long_column(row[field] for row in rows) for field in _NUMBERS]
    schema = _SCHEMA.with_metadata({_FOOTER_KEY: msgspec.json.encode(footer)})
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), sink, compression="zstd")
    return sink.getvalue()


def _get(out: RetryingStore, key: str) -> tuple[_Footer, tuple[Reading, ...]] | None:
    """Read a file of facts; None if it is gone, damaged or of another format."""
    stored = out.get(key)
    if stored is None or not key.endswith(f"-{_digest(stored.body)}.parquet"):
        return None
    try:
        # Threads take longer than they save, and one that lets go of the bytes while Python ends aborts the process.
        table = pq.ParquetFile(pa.BufferReader(stored.body), pre_buffer=False).read(use_threads=False)
        footer = msgspec.json.decode((table.schema.metadata or {}).get(_FOOTER_KEY, b""), type=_Footer)
        if footer.format != _FORMAT or not table.schema.equals(_SCHEMA):
            return None
        return footer, tuple(map(_reading, table.to_pylist()))
    except (pa.ArrowException, OSError, ValueError, msgspec.MsgspecError, FormatError):
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
        **{name: getattr(read, name) for name in _WORDS},
        "size": raw_object.size,
        "modified_ms": raw_object.modified_ms,
        "changed": int(read.changed),
        "altered": int(read.altered),
        "stepped_back": read.disorder.stepped_back,
        "repeated": read.disorder.repeated,
        **{name: getattr(read, name) for name in _COUNTS},
    }


def _reading(row: Mapping[str, Any]) -> Reading:
    fields = {name: row[name] for name in (*_COUNTS, *_WORDS)}
    fields |= {name: None if row[name] is None else Position.parse(row[name]) for name in _POSITIONS}
    fields |= {"changed": bool(row["changed"]), "altered": Alteration(row["altered"])}
    metadata = msgspec.json.decode(row["metadata"], type=dict[str, str] | None)
    disorder = Disorder(row["stepped_back"], row["repeated"], tuple(row["samples"].split()))
    facts = SegmentFacts(row["key"], metadata, disorder=disorder, **fields)
    return Reading(row["etag"], row["size"], row["modified_ms"], facts)


def _texts(values: Sequence[Any]) -> pa.Array:
    return with_gaps(text_column([value or "" for value in values]), [value is not None for value in values])
