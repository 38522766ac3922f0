"""Producer duplicates on real Spark and a real S3 server: ids go through Spark's shuffle, payloads do not."""

from collections.abc import Iterator

import pytest

from compaction.audit.audit import audit_day
from compaction.event_ids.rows import IdOrder
from compaction.job.context import AuditOptions, JobContext
from compaction.night.rewrite import Compacted, CompactOptions, compact_day
from compaction.parquet.plan import MergeGroup, RawObject, Task
from compaction.spark.engine import SparkEngine
from compaction.tasks.task import Order
from compaction.verdict.findings import Code
from demo.embedded import REGION, EmbeddedAws
from minutebook.clock import SystemClock
from minutebook.errors import ObjectVanished
from minutebook.format.day import Day
from minutebook.format.payload import PayloadPath
from minutebook.store.places import StorePrefix, open_storage
from minutebook.store.storage import Address
from tests.corpus.auditing import compare, job_context
from tests.corpus.defects import PRODUCER_DEFECTS
from tests.corpus.desk import published_rows
from tests.corpus.model import Corpus, Expected, Seen, Shape

DAY = Day.parse("2026-11-20")


@pytest.fixture(scope="module")
def engine(aws_environment: None) -> Iterator[SparkEngine]:  # noqa: ARG001 - its workers need the credentials
    """Return one Spark session for the module: a JVM takes seconds."""
    with SparkEngine("local[2]") as started:
        yield started


class Bench:
    """A bucket with an archive in which each shard but one repeats events, and runs on it."""

    def __init__(self, aws: EmbeddedAws, bucket: str, engine: SparkEngine) -> None:
        self.address = Address(bucket, "", REGION, aws.s3_endpoint)
        self.out = StorePrefix(self.address, "tables/events/")
        self.engine = engine
        self.corpus = Corpus(DAY, seed=5, shape=Shape(shards=len(PRODUCER_DEFECTS) + 1, records=40))
        self.expected: list[Expected] = []
        for number, defect in enumerate(PRODUCER_DEFECTS):
            shard = self.corpus.shards[number]
            self.expected += defect(self.corpus, shard, shard.in_day(DAY)[2])
        self.corpus.write(open_storage(self.address))

    def context(self) -> JobContext:
        """Return the context of one run on Spark."""
        given = job_context(self.address, self.corpus.checkpoints, clock=SystemClock(), engine=self.engine)
        return given._replace(shuffle=self.engine.shuffle)

    def compact(self, *, drop: bool) -> Compacted:
        """Compact the corpus' day."""
        audit = AuditOptions(event_id="n", published=self.out, drop_producer_duplicates=drop)
        given = self.context()
        return compact_day(given, given.open(self.address), DAY, CompactOptions(audit, self.out))


@pytest.fixture
def bench(embedded_aws: EmbeddedAws, bucket: str, engine: SparkEngine) -> Bench:
    """Return a fresh bucket."""
    return Bench(embedded_aws, bucket, engine)


def test_the_audit_reports_copies(bench: Bench) -> None:
    """Each kind of copy, in the shard where it stands, and nothing else."""
    audit = audit_day(bench.context(), DAY, AuditOptions(event_id="n")).audit
    compare(audit.findings, bench.expected, Seen.KEYS)
    assert audit.verdict == "clean"


def assert_no_event_twice(bench: Bench, done: Compacted) -> None:
    """An event is an id and a payload: the archive has two with one id, and both are published."""
    assert done.manifest is not None
    rows = [data for _, _, data in published_rows(open_storage(bench.address), done.manifest)]
    events = [(event, data) for data in rows if (event := PayloadPath("n").text(data)) is not None]
    assert len(events) == len(set(events)) == 1 + len({event for event, _ in events})


def test_copies_are_left_out_of_the_parquet(bench: Bench) -> None:
    """As many rows fewer as there are copies; no event stands there twice; a second run has nothing to do."""
    copies = sum(wanted.times for wanted in bench.expected if wanted.code == Code.PRODUCER_DUPLICATE)
    whole = bench.compact(drop=False)
    assert whole.manifest is not None
    assert (whole.manifest.rows, whole.manifest.removed) == (bench.corpus.records, 0)
    done = bench.compact(drop=True)
    assert (done.state, done.verdict) == ("published", "clean")
    assert done.manifest is not None
    assert (done.manifest.rows, done.manifest.removed) == (bench.corpus.records - copies, copies)
    assert done.manifest.generation != whole.manifest.generation
    assert_no_event_twice(bench, done)
    assert bench.compact(drop=True).state == "already"


def test_an_error_of_a_task_keeps_its_kind_through_the_shuffle(bench: Bench) -> None:
    """What a worker raises comes back as the same error of our tree, with its next step."""
    segment = bench.corpus.shards[0].segments[3]
    raw_object = RawObject(
        segment.key, '"gone"', 1, segment.metadata.shard_id, segment.metadata.minute, segment.metadata.first
    )
    order = Order(Task(0, (MergeGroup((raw_object,), merge=True),)), bench.address, ids=IdOrder("n", 0, 2))
    with pytest.raises(ObjectVanished, match="changed while the day was rewritten"):
        bench.engine.shuffle([order])
