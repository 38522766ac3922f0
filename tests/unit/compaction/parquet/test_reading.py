"""Objects come in order, and Arrow sees in a body what the archive's own codec sees, however its lines are cut."""

import gzip
import hashlib
import itertools
import json
import random
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compaction.inventory.segments import SegmentFacts
from compaction.parquet.fetching import FETCHES, FetchedBody, content_digest, fetch_ahead
from compaction.parquet.gathering import GatheredLines
from compaction.parquet.plan import RawObject
from compaction.parquet.reading import BLOCK_BYTES, SegmentReader
from minutebook.codec.library import native_library
from minutebook.errors import FormatError
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.format.record import Record, encode_lines
from minutebook.retry import Backoff
from minutebook.store.directory_storage import DirectoryStorage
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import ObjectBody, Storage
from tests.fakes.clock import ManualClock

if TYPE_CHECKING:
    from compaction.parquet.rows import ParquetPart

MINUTE = 29_920_000
SHARD = "shardId-000000000000"
OBJECT = RawObject("key.gz", "etag", 1, SHARD, MINUTE, Position(1))

payloads = st.one_of(st.binary(max_size=60), st.text(max_size=40).map(str.encode))
records = st.lists(
    st.builds(
        Record,
        sequence_number=st.integers(0, 10**60).map(str),
        sub_sequence_number=st.integers(0, 5),
        partition_key=st.text(max_size=20),
        arrival_ms=st.integers(MINUTE * MINUTE_MS, (MINUTE + 1) * MINUTE_MS - 1),
        data=payloads,
    ),
    min_size=1,
    max_size=40,
)


class GatheredPart:
    """Takes lines as a part does."""

    def __init__(self) -> None:
        self.rows: list[dict[str, object]] = []
        self.tables = 0

    def add(self, lines: pa.Table, segment: str | pa.StringArray) -> None:
        """Keep lines, with the segment of each."""
        lines.validate(full=True)
        segments = [segment] * lines.num_rows if isinstance(segment, str) else segment.to_pylist()
        self.rows += [{**row, "segment": of} for row, of in zip(lines.to_pylist(), segments, strict=True)]
        self.tables += 1


def read(body: bytes, block_bytes: int = BLOCK_BYTES) -> tuple[list[dict[str, object]], SegmentFacts]:
    """Read a body in blocks of this size, with the native codec and without: both see the same."""
    (found, again) = (SegmentReader(OBJECT, block_bytes, native=native) for native in (True, False))
    rows = [row for table in found.tables([body]) for row in table.to_pylist()]
    assert rows == [row for table in again.tables([body]) for row in table.to_pylist()]
    gathering, part = SegmentReader(OBJECT, block_bytes), GatheredPart()
    gathered = GatheredLines(cast("ParquetPart", part))
    for table in gathering.tables([body], gathered):
        gathered.flush()
        part.add(table, OBJECT.key)
    gathered.flush()
    assert part.rows == [{**row, "segment": OBJECT.key} for row in rows]
    assert found.facts({}) == again.facts({}) == gathering.facts({})
    return rows, found.facts({})


@settings(max_examples=60, deadline=None)
@given(records, st.sampled_from([64, 1000, 1 << 20]))
def test_every_record_comes_back(written: list[Record], block_bytes: int) -> None:
    """Fields, payload bytes, counts, ends and order, wherever blocks are cut."""
    rows, facts = read(gzip.compress(encode_lines(SHARD, written)), block_bytes)
    positions = [record.position for record in written]
    assert [(row["sequence_number"], row["partition_key"]) for row in rows] == [
        (record.sequence_number, record.partition_key) for record in written
    ]
    assert (facts.lines, facts.problem) == (len(written), "")
    assert facts.payload_bytes == sum(len(record.data) for record in written)
    assert (facts.first, facts.last, facts.low, facts.high) == (
        positions[0],
        positions[-1],
        min(positions),
        max(positions),
    )
    steps = list(itertools.pairwise(positions))
    assert facts.disorder.stepped_back == sum(after < before for before, after in steps)
    assert facts.disorder.repeated == sum(after == before for before, after in steps)


GOOD = {
    "shard_id": SHARD,
    "sequence_number": "5",
    "sub_sequence_number": 0,
    "partition_key": "k",
    "arrival_ms": MINUTE * MINUTE_MS,
    "data": "x",
}


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[1]",
        b"{}",
        msgspec.json.encode({**GOOD, "extra": 1}),
        msgspec.json.encode({**GOOD, "sequence_number": 5}),
        msgspec.json.encode({**GOOD, "sequence_number": "05"}),
        msgspec.json.encode({**GOOD, "sequence_number": "x"}),
        msgspec.json.encode({**GOOD, "sub_sequence_number": -1}),
        msgspec.json.encode({**GOOD, "arrival_ms": None}),
        msgspec.json.encode({**GOOD, "data": None}),
        msgspec.json.encode({**GOOD, "data_base64": "eA=="}),
        msgspec.json.encode({name: value for name, value in GOOD.items() if name != "data"}),
        msgspec.json.encode({**{n: v for n, v in GOOD.items() if n != "data"}, "data_base64": "*"}),
        msgspec.json.encode(GOOD) * 2,
        msgspec.json.encode(GOOD)[:-3],
        b'{"data":"\xff"}',
    ],
)
def test_a_bad_line_is_named_by_its_number(line: bytes) -> None:
    """Whatever is not a line of ours ends the reading with the number of the line."""
    good = msgspec.json.encode(GOOD)
    _, facts = read(gzip.compress(good + b"\n" + line + b"\n"))
    assert facts.problem.startswith("line 2: ")


@pytest.mark.parametrize("end", [b"x", b"\n\n", b""])
def test_a_body_that_ends_wrongly_is_a_problem(end: bytes) -> None:
    """A last line without its break, an empty line, and bytes behind the gzip stream."""
    body = gzip.compress(msgspec.json.encode(GOOD) + end)
    _, facts = read(body if end else body + b"more")
    assert facts.problem


def test_an_empty_body_is_no_problem() -> None:
    """A segment whose records were all dropped holds no line."""
    rows, facts = read(gzip.compress(b""))
    assert (rows, facts.lines, facts.first, facts.problem) == ([], 0, None, "")


WAIT_SECONDS = 20


class Recorder:
    """A store that says which keys were asked for; no folder, whose files are not read ahead."""

    def __init__(self, root: Path) -> None:
        self._folder = DirectoryStorage(root)
        self.asked: dict[str, threading.Event] = {}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the folder's
        """Delegate everything else."""
        return getattr(self._folder, name)

    def store(self, key: str, body: bytes, size: int) -> RawObject:
        """Put an object; `size` is what its listing is to say."""
        self._folder.put_if_absent(key, body, {"name": key}, "")
        self.asked[key] = threading.Event()
        head = self._folder.head(key)
        assert head is not None
        return RawObject(key, head.etag, size, SHARD, 1, Position(1))

    def open_read(self, key: str, etag: str | None) -> ObjectBody:
        """Remember the key."""
        self.asked[key].set()
        return self._folder.open_read(key, etag)


class Counting(DirectoryStorage):
    """A folder that counts the files that were read."""

    read = 0

    def open_read(self, key: str, etag: str | None) -> ObjectBody:
        """Count."""
        self.read += 1
        return super().open_read(key, etag)


def test_files_of_a_folder_are_read_when_they_are_asked_for(tmp_path: Path) -> None:
    """By the reader's own thread: they are in memory, and other threads would take turns with it."""
    folder = Counting(tmp_path)
    for name in "abc":
        folder.put_if_absent(name, name.encode(), {"name": name}, "")
    objects = [RawObject(row.key, row.etag, row.size, SHARD, 1, Position(1)) for row in folder.list_objects("")]
    store = RetryingStorage(folder, lambda: Backoff(ManualClock(), random.Random(1), budget_seconds=10))
    seen = []
    with ThreadPoolExecutor(1) as pool:
        for fetched in fetch_ahead(pool, store, objects):
            assert fetched.body is not None
            seen.append((fetched.raw_object.key, fetched.body.metadata, [*fetched.body.drain()], folder.read))
    assert seen == [(name, {"name": name}, [name.encode()], at) for at, name in enumerate("abc", 1)]


@pytest.fixture
def storage(tmp_path: Path) -> Recorder:
    """Return an empty folder."""
    return Recorder(tmp_path)


def retrying(storage: Recorder) -> RetryingStorage:
    """Return the folder as a task has it."""
    clock = ManualClock()
    return RetryingStorage(cast("Storage", storage), lambda: Backoff(clock, random.Random(1), budget_seconds=10))


@pytest.mark.parametrize("size", [1, 5 << 20, 500 << 20])
def test_bodies_come_in_the_order_of_the_pieces(storage: Recorder, size: int) -> None:
    """Whole, with their metadata, whether many or one fit into the budget."""
    objects = [storage.store(f"{number:02}", b"%d" % number * 3, size) for number in range(40)]
    with ThreadPoolExecutor(FETCHES) as pool:
        found = list(fetch_ahead(pool, retrying(storage), objects))
    assert [fetched.raw_object for fetched in found] == objects
    bodies = [fetched.body for fetched in found if fetched.body is not None]
    assert [b"".join(body.drain()) for body in bodies] == [b"%d" % number * 3 for number in range(40)]
    assert [body.metadata for body in bodies] == [{"name": raw_object.key} for raw_object in objects]


def test_the_next_object_is_on_its_way_while_one_is_read(storage: Recorder) -> None:
    """Also when each of them is larger than the whole budget; the one after it is not."""
    objects = [storage.store(key, b"x", 500 << 20) for key in "abc"]
    with ThreadPoolExecutor(FETCHES) as pool:
        fetched = fetch_ahead(pool, retrying(storage), objects)
        assert next(fetched).raw_object.key == "a"
        assert storage.asked["b"].wait(WAIT_SECONDS)
        assert not storage.asked["c"].is_set()
        fetched.close()  # type: ignore[attr-defined]  # a generator


def test_another_object_is_no_body(storage: Recorder) -> None:
    """Its ETag is not the one that was listed."""
    raw_object = storage.store("a", b"x", 1)
    with ThreadPoolExecutor(FETCHES) as pool:
        found = list(fetch_ahead(pool, retrying(storage), [raw_object._replace(etag="other"), raw_object]))
    assert [fetched.body is None for fetched in found] == [True, False]


def test_bytes_are_let_go_as_they_are_read() -> None:
    """What was yielded is held by the reader alone."""
    body = FetchedBody({}, deque([b"a", b"b"]))
    chunks = body.drain()
    assert next(chunks) == b"a"
    assert list(body.chunks) == [b"b"]


def test_small_segments_share_a_table() -> None:
    """Each row names its segment and its shard; those that Python reads stand between the others; few are no more."""
    part = GatheredPart()
    gathered = GatheredLines(cast("ParquetPart", part))
    expected: list[tuple[str, str, str]] = []
    for number in range(300):
        shard = f"shardId-{number % 3:012d}"
        raw_object = OBJECT._replace(key=f"{number}.gz", shard_id=shard)
        lines = encode_lines(
            shard, [Record(str(1 + at), 0, "k", MINUTE * MINUTE_MS + 5, b"x") for at in range(1 + number % 2)]
        )
        if number in {100, 299}:
            lines = lines.replace(b",", b", ")  # as we do not write it
        reader = SegmentReader(raw_object)
        for table in reader.tables([gzip.compress(lines)], gathered):
            gathered.flush()
            part.add(table, raw_object.key)
        assert (reader.facts({}).lines, reader.facts({}).problem) == (1 + number % 2, "")
        expected += [(raw_object.key, shard, str(1 + at)) for at in range(1 + number % 2)]
    gathered.flush()
    assert [(row["segment"], row["shard_id"], row["sequence_number"]) for row in part.rows] == expected
    if native_library() is not None:
        assert part.tables == 4


def test_lines_of_a_large_segment_have_a_table_of_their_own() -> None:
    """With its name once: repeated for each of a million short lines, names take more than the lines."""
    part = GatheredPart()
    gathered = GatheredLines(cast("ParquetPart", part))
    for number, lines in enumerate([1, 3_000, 1]):
        written = [Record(str(1 + at), 0, "k", MINUTE * MINUTE_MS + 5, b"x") for at in range(lines)]
        reader = SegmentReader(OBJECT._replace(key=f"{number}.gz"))
        for table in reader.tables([gzip.compress(encode_lines(SHARD, written))], gathered):
            gathered.flush()
            part.add(table, f"{number}.gz")
    gathered.flush()
    assert [(row["segment"], row["sequence_number"]) for row in part.rows] == [
        ("0.gz", "1"),
        *(("1.gz", str(1 + at)) for at in range(3_000)),
        ("2.gz", "1"),
    ]
    assert part.tables == 3


class Full(GatheredPart):
    """Refuses what it is given."""

    def add(self, lines: pa.Table, segment: str | pa.StringArray) -> None:
        """Raise what reading raises."""
        del lines, segment
        raise FormatError("_schemas/1 does not parse")


def test_an_error_of_the_part_is_no_problem_of_a_segment() -> None:
    """A kept schema that is damaged, for one, is found when a row group is written: it ends the task."""
    gathered = GatheredLines(cast("ParquetPart", Full()))
    body = gzip.compress(encode_lines(SHARD, [Record("1", 0, "k", MINUTE * MINUTE_MS, b"x" * 200)]))
    readers = [SegmentReader(OBJECT) for _ in range(8_000)]
    if native_library() is None:
        pytest.skip("Python's codec gathers nothing")
    with pytest.raises(FormatError, match="_schemas/1"):
        [*itertools.chain.from_iterable(reader.tables([body], gathered) for reader in readers)]
    assert {reader.facts({}).problem for reader in readers} == {""}
    gathered.flush()


def test_the_digest_is_that_of_json() -> None:
    """Of the metadata as `json.dumps` writes them: digests of earlier releases stay."""
    metadata = {"é": 'a"b\\c\n', "a": "\U0001f9ff", "A": "", "\x00": "\x7f"}
    text = json.dumps(sorted(metadata.items())).encode()
    assert content_digest(metadata, [b"x", b"yz"]) == hashlib.sha256(text + b"xyz").hexdigest()[:32]
    assert content_digest({}, []) == hashlib.sha256(b"[]").hexdigest()[:32]


@pytest.mark.parametrize("block_bytes", [64, 1 << 20])
def test_arrivals_that_step_back_are_measured(block_bytes: int) -> None:
    """From the latest so far, also where that came a block earlier; and how many lie outside the minute."""
    arrivals = [5, 40, 20, 30, -7, 59_999, 60_000, 100]
    written = [
        Record(str(1 + at), 0, "k", MINUTE * MINUTE_MS + arrival_ms, b"x") for at, arrival_ms in enumerate(arrivals)
    ]
    _, facts = read(gzip.compress(encode_lines(SHARD, written)), block_bytes)
    assert (facts.step_back_ms, facts.wrong_minute) == (59_900, 2)
    assert (facts.arrival_min_ms, facts.arrival_max_ms) == (MINUTE * MINUTE_MS - 7, MINUTE * MINUTE_MS + 60_000)
