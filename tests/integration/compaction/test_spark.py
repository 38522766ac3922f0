"""The nightly job on real Spark and a real S3 server."""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from compaction.audit.audit import audit_day
from compaction.commands.ddl import columns_of, paths_of
from compaction.commands.latest import latest_view
from compaction.job.context import AuditOptions, JobContext
from compaction.night.rewrite import Compacted, CompactOptions, compact_day
from compaction.parquet.plan import MergeGroup, RawObject, Task
from compaction.parquet.rows import ParquetPart
from compaction.publish.publisher import Publisher
from compaction.spark.engine import SparkEngine, completed_tasks
from compaction.tasks.progress import no_progress
from compaction.tasks.task import Order
from compaction.verdict.audit_document import decode_audit
from demo.embedded import REGION, EmbeddedAws
from minutebook.clock import SystemClock
from minutebook.compression import Compression
from minutebook.errors import DayNotPublished, FormatError, StoreRefused, StoreUnavailable
from minutebook.format.day import Day
from minutebook.format.position import Position
from minutebook.published.generation import DayFolder
from minutebook.published.schema import SCHEMA
from minutebook.reader import read, read_day, read_days
from minutebook.store.directory_storage import FileSink
from minutebook.store.places import StorePrefix, open_storage
from minutebook.store.storage import Address
from tests.corpus.auditing import compare, job_context
from tests.corpus.chain_defects import missing_object, overlapping_segments
from tests.corpus.changes import by_position, of_debezium, of_dynamodb
from tests.corpus.model import Corpus, Defect, Seen, Shape
from tests.corpus.object_defects import copied_object, edited_count, swapped_lines, truncated_object
from tests.corpus.shelf import Shelf
from tests.fakes.typed_lines import lines_of, mapping

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

DAY = Day.parse("2026-11-20")
SEEDED: tuple[Defect, ...] = (
    missing_object,
    copied_object,
    truncated_object,
    swapped_lines,
    edited_count,
    overlapping_segments,
)


@pytest.fixture(scope="module")
def engine(aws_environment: None) -> Iterator[SparkEngine]:  # noqa: ARG001 - its workers need the credentials
    """Return one Spark session for the module: a JVM takes seconds."""
    with SparkEngine("local[2]") as started:
        yield started


@contextmanager
def listening() -> Iterator[tuple[str, int]]:
    """Return an address that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()


def hang_or_refuse(address: tuple[str, int], number: int) -> int:
    """Wait for an answer, for ever; or, beside it, be refused."""
    if number:
        raise StoreRefused("access denied", next_step="grant it")
    with socket.create_connection(address) as connection:
        return len(connection.recv(1))


def unavailable_before(task: tuple[int, int]) -> int:
    """Give up in the first tries."""
    number, tries = task
    context = TaskContext.get()
    assert context is not None
    if context.attemptNumber() < tries:
        raise StoreUnavailable(f"SlowDown on try {context.attemptNumber() + 1}", next_step="wait")
    return number


@pytest.mark.usefixtures("engine")
def test_spark_reads_the_years_1_and_9999(tmp_path: Path) -> None:
    """Spark 3.5 with its defaults, too, which fails on old dates of files that do not say which calendar is meant."""
    columns = mapping({"at": "timestamp", "day": "date", "local": "local_timestamp"})
    part = ParquetPart(FileSink(tmp_path / "day.parquet"), columns)
    lines = lines_of(
        [
            b'{"at":"0001-01-01T00:00:00Z","day":"0001-01-01","local":"0001-01-01T00:00:00"}',
            b'{"at":"9999-12-31T23:59:59.9999999Z","day":"9999-12-31","local":"9999-12-31T23:59:59"}',
        ]
    )
    part.add(lines, "segment")
    part.close()
    session = SparkSession.builder.getOrCreate()  # that of the engine
    session.conf.set("spark.sql.session.timeZone", "UTC")
    rows = session.read.parquet(str(tmp_path / "day.parquet"))
    found = rows.selectExpr("cast(at as string)", "cast(day as string)", "cast(local as string)").collect()
    assert [tuple(row) for row in found] == [
        ("0001-01-01 00:00:00", "0001-01-01", "0001-01-01 00:00:00"),
        ("9999-12-31 23:59:59.999999", "9999-12-31", "9999-12-31 23:59:59"),
    ]


class Bench:
    """A bucket with an archive and an output, and runs on them."""

    def __init__(self, aws: EmbeddedAws, bucket: str, engine: SparkEngine) -> None:
        self._address = Address(bucket, "", REGION, aws.s3_endpoint)
        self.storage = open_storage(self._address)
        self.out = StorePrefix(self._address, "tables/events/")
        self._engine = engine

    def context(self, corpus: Corpus) -> JobContext:
        """Return the context of one run."""
        given = job_context(self._address, corpus.checkpoints, clock=SystemClock(), engine=self._engine)
        return given._replace(group_sources=lambda _: self._engine)

    def compact(self, corpus: Corpus) -> Compacted:
        """Compact the corpus' day."""
        given = self.context(corpus)
        return compact_day(given, given.open(self.out.address), DAY, CompactOptions(AuditOptions(), self.out))

    def published(self) -> pa.Table:
        """Read the published day."""
        storage = job_context(self._address).archive
        publisher = Publisher(storage, DayFolder(self.out.prefix, DAY))
        pointer = publisher.current().pointer
        assert pointer is not None
        manifest = publisher.manifest(pointer)
        assert manifest is not None
        tables = []
        for file in manifest.files:
            stored = self.storage.get(file.key)
            assert stored is not None
            tables.append(pq.read_table(pa.BufferReader(stored.body)))
        return pa.concat_tables(tables)

    def codes(self) -> list[str]:
        """Return the codes of the audit that the pointer names."""
        publisher = Publisher(job_context(self._address).archive, DayFolder(self.out.prefix, DAY))
        pointer = publisher.current().pointer
        assert pointer is not None
        return [about.code for about in decode_audit(publisher.audit(pointer) or b"").findings]


@pytest.mark.usefixtures("engine")
def test_the_view_of_the_latest_rows_is_what_a_replay_gives(tmp_path: Path) -> None:
    """As in DuckDB; only quotes are others."""
    session = SparkSession.builder.getOrCreate()  # that of the engine
    for number, history in enumerate((of_debezium(1), of_dynamodb(1))):
        file = tmp_path / f"{number}.parquet"
        pq.write_table(history.changes, file)
        session.read.parquet(str(file)).createOrReplaceTempView("changes")
        view = latest_view(
            "changes",
            [*paths_of(columns_of(history.changes.schema))],
            history.latest_by,
            None,
            texts={"op", "eventName"},
        )
        session.sql(view.replace("REPLACE VIEW", "REPLACE TEMPORARY VIEW").replace('"', "`").rstrip(";\n"))
        rows = [row.asDict(recursive=True) for row in session.table("changes_latest").collect()]
        assert by_position(rows) == by_position(history.rows)


@pytest.fixture
def bench(embedded_aws: EmbeddedAws, bucket: str, engine: SparkEngine) -> Bench:
    """Return a fresh bucket."""
    return Bench(embedded_aws, bucket, engine)


def test_a_clean_day_goes_from_s3_to_s3(bench: Bench) -> None:
    """Each record is in the published files once, byte for byte, and a second run does nothing."""
    corpus = Corpus(DAY, shape=Shape(shards=10, records=200, payload_bytes=300))
    corpus.write(bench.storage)
    done = bench.compact(corpus)
    assert (done.state, done.verdict) == ("published", "clean")
    rows = bench.published().to_pylist()
    found = [
        (
            row["shard_id"],
            Position(int(row["sequence_number"]), row["sub_sequence_number"]),
            row["data"].encode() if row["data"] is not None else row["data_bytes"],
        )
        for row in rows
    ]
    expected = [
        (shard.shard_id, record.position, record.data)
        for shard in corpus.shards
        for index in shard.in_day(DAY)
        for record in shard.segments[index].records
    ]
    assert found == expected
    assert bench.compact(corpus).state == "already"


def test_an_object_that_is_stored_again_is_told(bench: Bench, s3_client: "S3Client", bucket: str) -> None:
    """CopyObject keeps the ETag: with the same metadata the day stays clean, with another one it does not."""
    corpus = Corpus(DAY, shape=Shape(shards=3))
    corpus.write(bench.storage)
    assert bench.compact(corpus).verdict == "clean"
    key, fields = corpus.shards[1].segments[3].key, corpus.shards[1].segments[3].fields
    for more, expected in (({}, ("clean", "replaced")), ({"note": "edited"}, ("defects", "altered_object"))):
        s3_client.copy_object(
            Bucket=bucket,
            Key=key,
            CopySource={"Bucket": bucket, "Key": key},
            Metadata=fields | more,
            MetadataDirective="REPLACE",
        )
        done = bench.compact(corpus)
        assert (done.state, done.verdict) == ("already", expected[0])
        assert expected[1] in bench.codes()


def test_spark_reads_the_days_that_the_pointers_name(engine: SparkEngine, tmp_path: Path) -> None:
    """Of files below a folder that Spark passes over by itself; a generation that was replaced is not among them."""
    shelf = Shelf(StorePrefix(Address(None, str(tmp_path)), ""))
    shelf.publish(DAY, "old")
    rows = shelf.publish(DAY, "new")
    shelf.publish(DAY.shift(1), "empty", ())
    spark, out, next_day = SparkSession(engine._context), str(tmp_path), str(DAY.shift(1))
    days = read_days(spark, out, str(DAY), next_day)

    assert {row["segment"] for row in read_day(spark, out, str(DAY)).collect()} == {rows[0]["segment"]}
    assert [row.asDict() for row in days.groupBy("dt").count().collect()] == [{"dt": str(DAY), "count": len(rows)}]
    assert days.columns == [*SCHEMA.names, "dt"]
    with pytest.raises(DayNotPublished):
        read_day(spark, out, "2026-11-19")


def test_the_reader_reads_s3(bench: Bench, embedded_aws: EmbeddedAws) -> None:
    """By pyarrow's own S3, with the credentials that boto3 finds."""
    corpus = Corpus(DAY, shape=Shape(shards=2, records=50))
    corpus.write(bench.storage)
    bench.compact(corpus)
    day = read(
        bench.storage.uri(bench.out.prefix),
        str(DAY),
        str(DAY),
        verdicts=("clean",),
        endpoint=embedded_aws.s3_endpoint,
    )

    assert day.count_rows() == bench.published().num_rows > 0


def test_seeded_defects_are_reported_by_their_names(bench: Bench) -> None:
    """One defect in each shard of an archive of zstd, all read by Spark tasks: exactly their findings."""
    corpus = Corpus(DAY, seed=5, shape=Shape(shards=len(SEEDED) + 1, compression=Compression.ZSTD))
    expected = [
        wanted
        for number, defect in enumerate(SEEDED)
        for wanted in defect(corpus, corpus.shards[number], corpus.shards[number].in_day(DAY)[2])
    ]
    corpus.write(bench.storage)
    audit = audit_day(bench.context(corpus), DAY, AuditOptions()).audit
    compare(audit.findings, expected, Seen.KEYS)
    assert audit.verdict == "defects"


def test_an_unreadable_bucket_is_unknown(bench: Bench, s3_client: "S3Client", bucket: str) -> None:
    """What cannot be listed is not clean and not defective: it could not be proven."""
    s3_client.delete_bucket(Bucket=bucket)
    audit = audit_day(bench.context(Corpus(DAY)), DAY, AuditOptions()).audit
    assert audit.verdict == "unknown"
    assert audit.checks[0].id == "archive_readable"


def test_an_error_of_a_task_keeps_its_kind(bench: Bench, engine: SparkEngine) -> None:
    """What a worker raises comes back as the same error of our tree, with its next step."""
    corpus = Corpus(DAY)
    truncated_object(corpus, corpus.shards[0], 3)
    corpus.write(bench.storage)
    stored = bench.storage.head(corpus.shards[0].segments[3].key)
    assert stored is not None
    metadata = corpus.shards[0].segments[3].metadata
    raw_object = RawObject(stored.key, stored.etag, stored.size, metadata.shard_id, metadata.minute, metadata.first)
    with pytest.raises(FormatError, match=r"cut short|damaged"):
        engine([Order(Task(0, (MergeGroup((raw_object,), merge=True),)), bench.out.address)])


def test_a_denied_task_ends_the_job_at_once(engine: SparkEngine) -> None:
    """Nobody waits for the tasks that still run: here one that never ends."""
    with (
        listening() as address,
        pytest.raises(StoreRefused, match="denied") as raised,
    ):
        engine.each(partial(hang_or_refuse, address), [0, 1])
    assert raised.value.next_step == "grant it"


def where_pyspark_lies(_: int) -> str:
    """Tell where a worker found PySpark."""
    return str(sys.modules["pyspark"].__file__)


def test_workers_take_pyspark_out_of_the_installation(engine: SparkEngine) -> None:
    """Not out of Spark's zip, which keeps no bytecode: each run would compile it anew."""
    assert set(engine.each(where_pyspark_lies, [1, 2])) == {sys.modules["pyspark"].__file__}


def test_a_task_is_tried_again_when_its_error_may_have_passed(engine: SparkEngine) -> None:
    """503 until a request's budget is spent: Spark's next try may find S3 well."""
    assert engine.each(unavailable_before, [(0, 0), (1, 1)]) == [0, 1]


def test_the_last_try_names_the_error(engine: SparkEngine) -> None:
    """As one of our tree, with exit code 5 and a next step; not as a Java trace."""
    with pytest.raises(StoreUnavailable, match="SlowDown on try 4") as raised:
        engine.each(unavailable_before, [(0, 99)])
    assert raised.value.next_step == "wait"


def test_a_job_says_what_it_does(bench: Bench, engine: SparkEngine) -> None:
    """In Spark's UI by its description, and to whoever asks for progress: each phase with its day and its tasks.

    Of a day of few shards only the tasks that read lines go to Spark.
    """
    corpus = Corpus(DAY)
    corpus.write(bench.storage)
    told: list[tuple[str, int, int]] = []
    engine._progress = lambda *step: told.append(step)
    try:
        given = bench.context(corpus)._replace(group_sources=None)
        compact_day(given, given.open(bench.out.address), DAY, CompactOptions(AuditOptions(), bench.out))
    finally:
        engine._progress = no_progress
    context = engine._context
    assert {phase for phase, _, _ in told} == {f"read and write {DAY}"}
    assert (told[0][1], told[-1][1] == told[-1][2]) == (0, True)
    assert context.getLocalProperty("spark.job.description") == f"minutebook: read and write {DAY}"
    group = context.getLocalProperty("spark.jobGroup.id")
    assert completed_tasks(context.statusTracker(), group) == told[-1][2]


def test_the_process_keeps_its_stderr(engine: SparkEngine, capfd: pytest.CaptureFixture[str]) -> None:
    """Spark's noise goes to its own file; ours still reaches stderr."""
    engine([])
    os.write(2, b"ours\n")
    assert capfd.readouterr().err == "ours\n"
