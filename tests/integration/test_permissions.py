"""Every request of every command, as it leaves this process, against the command's policy in `deploy/iam`.

Nothing may be missing, and nothing be there that no command asks for. What KCL asks for beside the processors is in
`tests/data/kcl-requests.json`, which the end-to-end ring compares with a real daemon.
"""

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from compaction.audit.audit import audit_day
from compaction.commands.audit_and_compact import _checkpoints, run_audit
from compaction.follow.day import FollowedDay, FollowPorts
from compaction.job.context import AuditOptions, JobContext
from compaction.job.request import AuditRequest
from compaction.job.settings import JobSettings, load_job_settings
from compaction.night.due import DueDay, find_due
from compaction.night.rewrite import CompactOptions, compact_day
from compaction.publish.publisher import Publisher
from compaction.stream.kinesis import ArchivedStream
from compaction.tables.catalog import opened_followed
from consumer.boundaries.due import make_boundaries
from consumer.boundaries.saying import DaemonRuns
from consumer.child_logs.processor_log import ProcessorEvent
from consumer.connections import stream_of
from consumer.cut.command import check_held, read_sources, run_cut, run_handover
from consumer.daemon.start import settle_start
from consumer.dedupe.claim_batches import VERBS, EventClaim, StatementBatch
from consumer.dedupe.table import DynamoDedupeTable, make_claims_client
from consumer.expire.command import run_expire
from consumer.leases.rows import Lease as LeaseRow
from consumer.preflight.doctor import run_doctor
from consumer.preflight.preflight import preflight, settled
from consumer.processor.processor import ShardProcessor
from consumer.requests import CutRequest, ExpireRequest, HandoverRequest, RestoreRequest, StatusRequest
from consumer.restore.command import run_restore
from consumer.settings.settings import load_with_kcl
from consumer.status.command import run_status
from demo.embedded import REGION, EmbeddedAws
from minutebook.aws.access import PLAIN
from minutebook.aws.clients import make_kinesis_client, make_s3_client
from minutebook.clock import Clock, SystemClock, new_id, new_random
from minutebook.errors import SafetyRefusal
from minutebook.format.boundaries import CompleteMarker, encode_boundary, marker_key
from minutebook.format.day import Day, day_of_ms
from minutebook.format.markers import JSON_TYPE
from minutebook.format.minute import MINUTE_MS, iso_time, minute_of, minute_path
from minutebook.format.position import Position
from minutebook.format.record import Record
from minutebook.published.generation import DayFolder
from minutebook.retry import Backoff
from minutebook.store.objects import PutOutcome
from minutebook.store.places import StorePrefix, open_storage
from minutebook.store.retrying import RetryingStore
from minutebook.store.s3 import S3Store
from minutebook.store.storage import Address
from tests.corpus.auditing import answer_later, in_process, job_context
from tests.corpus.model import PREFIX
from tests.fakes.archive_scene import ArchiveScene
from tests.fakes.clock import ManualClock
from tests.fakes.daemon_double import DaemonDouble, Lease
from tests.fakes.glue import FakeGlue, behind_header
from tests.fakes.published_day import published_objects
from tests.fakes.shard import FakeShard
from tests.fakes.stream import DAY_MS
from tests.fakes.typed_lines import mapping
from tests.integration.asking import SHARD, TODAY, Home, check
from tests.witness.policies import (
    Names,
    Request,
    bucket_policy,
    command_names,
    is_allowed,
    kcl_requests,
)
from tests.witness.requests import hearing

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_kinesis import KinesisClient

_CLOCK: Final = SystemClock()


@pytest.fixture
def home(
    embedded_aws: EmbeddedAws, kinesis_client: "KinesisClient", bucket: str, tmp_path: Path, s3_store: S3Store
) -> Home:
    """Return an application whose stream is there."""
    kinesis_client.create_stream(StreamName=bucket, ShardCount=1)
    kinesis_client.get_waiter("stream_exists").wait(StreamName=bucket, WaiterConfig={"Delay": 1})
    return Home(embedded_aws, tmp_path, bucket, s3_store)


def test_consume(home: Home) -> None:
    """The pre-flight, the start, and a processor's life; what KCL asks for is recorded."""
    with hearing(home.names) as heard:
        loaded = load_with_kcl(home.file, {})
        checks = preflight(loaded, os.environ, whole=False, clock=_CLOCK, rng=new_random(), new_id=new_id)
        assert {each.exit_code for each in checks} == {0}
        settle_start(loaded.settings, stream_of(loaded.settings, _CLOCK), _CLOCK)
        assert settled(loaded, _CLOCK, new_random(), new_id).exit_code == 0
        shard, settings = FakeShard(), loaded.settings
        shard.put(b"x", _CLOCK.now_ms() - 5 * MINUTE_MS)
        store = S3Store(make_s3_client(REGION, settings.s3_endpoint, PLAIN), settings.bucket)
        rng = new_random()
        processor = ShardProcessor(settings, store, stream_of(settings, _CLOCK), _CLOCK, rng, new_id)
        daemon = DaemonDouble(Lease(shard), processor)
        daemon.start()
        daemon.deliver()
        daemon.request_shutdown()
        boundaries_of(home)
    beside = [request for seldom in (False, True) for request in kcl_requests(home.names, seldom=seldom)]
    check("consume", heard, beside=beside)


class ReadLog:
    """A daemon's log that was read to its end."""

    def is_read_to_its_end(self) -> bool:
        """Return that it was."""
        return True


def boundaries_of(home: Home) -> None:
    """Let a supervisor look at the stream's quiet shard, store what it knows, and publish boundaries."""
    settings = load_with_kcl(home.file, {}).settings
    stream, published = stream_of(settings, _CLOCK), list[int]()
    raw = S3Store(make_s3_client(REGION, settings.s3_endpoint, PLAIN), settings.bucket)
    store = RetryingStore(raw, lambda: Backoff(_CLOCK, new_random(), budget_seconds=5))
    boundaries = make_boundaries(
        dataclasses.replace(settings, complete_slot_seconds=60),
        settle_start(settings, stream, _CLOCK),
        stream,
        store,
        store,
        _CLOCK,
        worker="worker",
        runs=DaemonRuns("run"),
        leads=lambda: True,
        on_complete=published.append,
    )
    assert boundaries is not None
    boundaries.daemon_started(ReadLog())
    now_ms = _CLOCK.now_ms()
    for event in (
        ProcessorEvent(event="shard_opened", shard=SHARD, after="TRIM_HORIZON"),
        ProcessorEvent(
            event="read_mark_written",
            shard=SHARD,
            continuity="proven",
            covered_from_ms=now_ms - 10 * MINUTE_MS,
            covered_until_ms=now_ms - 5 * MINUTE_MS,
        ),
    ):
        boundaries.note(event)
    boundaries.settle()
    looks = [boundaries.look(shard) for shard in boundaries.due_shards()]
    assert [look.row is not None for look in looks] == [True]
    boundaries.store(at_once=True)
    boundaries.publish()
    assert published, "the boundary that the look has reached"


def test_dedupe(home: Home) -> None:
    """The table of the claims: made, given its time to live, written and read."""
    with hearing(home.names) as heard:
        table = DynamoDedupeTable(
            make_claims_client(REGION, home.aws.dynamodb_endpoint, PLAIN), f"{home.names.application}-dedupe"
        )
        while not table.ensure():
            _CLOCK.sleep(0.05)
        table.claim(EventClaim("event", "me", "digest"), expires=1, now=0)
        for verb in VERBS:
            table.claim_batch(StatementBatch(verb, [EventClaim("other", "me", "digest")], expires=1, now=0))
        table.read_tail(f"{home.bucket}/{SHARD}")
    check("dedupe", heard)


def test_doctor(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """On an archive with a segment, at which it looks for replicas, tags of a rule, and archive tiers."""
    home.begin().segment(SHARD, (TODAY - 1) * 1440)
    with home.file.open("a") as file:
        file.write("minutebook.storageClass=INTELLIGENT_TIERING\n")
    rule = {
        "ID": "tagged",
        "Status": "Enabled",
        "Filter": {"Tag": {"Key": "k", "Value": "v"}},
        "Expiration": {"Days": 9},
    }
    home.aws.s3_client().put_bucket_lifecycle_configuration(
        Bucket=home.bucket, LifecycleConfiguration={"Rules": [rule]}
    )
    with hearing(home.names) as heard:
        assert run_doctor(home.file, os.environ, as_json=True) == 0, capsys.readouterr().out
    check("doctor", heard)


def test_status(home: Home) -> None:
    """Of a shard with a record behind the archive's end."""
    home.begin().segment(SHARD, (TODAY - 1) * 1440)
    with hearing(home.names) as heard:
        assert run_status(StatusRequest(home.file, as_json=True), {}) == 0
    check("status", heard)


def test_restore(home: Home, dynamodb_client: "DynamoDBClient") -> None:
    """Without any table; then with a leader's lock that is left in a table of its own."""
    home.begin().segment(SHARD, (TODAY - 1) * 1440)
    coordinator = f"{home.names.application}-CoordinatorState"
    with hearing(home.names) as heard:
        assert run_restore(RestoreRequest(home.file, apply=True), {}) == 0
        make_coordinator(dynamodb_client, coordinator)
        lock = {"key": {"S": "Leader"}, "ownerName": {"S": "w"}, "recordVersionNumber": {"S": "v"}}
        dynamodb_client.put_item(TableName=coordinator, Item=lock)
        assert run_restore(RestoreRequest(home.file, apply=True), {}) == 0
    check("restore", heard)


def make_coordinator(client: "DynamoDBClient", name: str) -> None:
    """Make the table in which KCL 3.0 to 3.4 keep the leader's lock."""
    client.create_table(
        TableName=name,
        AttributeDefinitions=[{"AttributeName": "key", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "key", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )


def test_cut_and_handover(home: Home, tmp_path: Path, dynamodb_client: "DynamoDBClient") -> None:
    """Two hours ago; the other application's table is made anew, and found made by the second run.

    A coordinator table of KCL 3.1 may be there. Of a cut older than a day the stream is read.
    """
    at = _CLOCK.now_ms() // MINUTE_MS - 120
    home.begin().chain(SHARD, range(at - 90, at + 3))
    file = tmp_path / "cut.json"
    with hearing(home.names) as heard:
        assert run_cut(CutRequest(iso_time(at * MINUTE_MS), home.file, file), {}) == 0
    check("cut", heard)
    with hearing(home.names) as heard:
        assert run_handover(HandoverRequest(file, home.names.other, home.file, apply=True), {}) == 0
        make_coordinator(dynamodb_client, f"{home.names.other}-CoordinatorState")
        assert run_handover(HandoverRequest(file, home.names.other, home.file, apply=True), {}) == 0
        sources = read_sources(load_with_kcl(home.file, {}).settings, _CLOCK)
        with pytest.raises(SafetyRefusal, match="is trimmed"):
            check_held(sources.stream, [LeaseRow(SHARD, Position(1))], {})
    check("handover", heard)


def test_audit(home: Home) -> None:
    """Names and metadata by the command; lines are read with GETs of the same keys."""
    home.begin().segment(SHARD, (TODAY - 2) * 1440)
    day = str(Day(TODAY - 2))
    with hearing(home.names) as heard:
        run_audit(AuditRequest(str(home.file), date=day, level="inventory"), {})
    check("audit", heard)


def test_audit_against_the_stream(home: Home, kinesis_client: "KinesisClient") -> None:
    """Level stream reads Kinesis, two minutes later by the service's time, and writes down what it proved.

    What it finds missing is withdrawn from the newest boundary.
    """
    kinesis_client.put_record(StreamName=home.bucket, Data=b"x", PartitionKey="p")
    found = kinesis_client.get_shard_iterator(StreamName=home.bucket, ShardId=SHARD, ShardIteratorType="TRIM_HORIZON")
    [row] = kinesis_client.get_records(ShardIterator=found["ShardIterator"])["Records"]
    arrival_ms = round(row["ApproximateArrivalTimestamp"].timestamp() * 1000)
    record = Record(row["SequenceNumber"], 0, row["PartitionKey"], arrival_ms, row["Data"])
    minute, settings = minute_of(arrival_ms), load_job_settings(home.file, {})
    scene = ArchiveScene(home.store)
    scene.settle(stream_of(load_with_kcl(home.file, {}).settings, _CLOCK).describe())
    stored = scene.segment(SHARD, minute, [record])
    scene.begin(SHARD, first=str(record.position))
    with hearing(home.names) as heard:
        client = make_kinesis_client(REGION, home.aws.kinesis_endpoint, PLAIN)
        answer_later(client)
        reader = ArchivedStream(client, home.bucket, _CLOCK, new_random())
        context = _context(home, settings, _CLOCK)._replace(stream=lambda: reader, shards=reader.listed)
        options = AuditOptions(level="stream", so_far_ms=(minute + 1) * MINUTE_MS)
        assert audit_day(context, day_of_ms(arrival_ms), options).audit.verdict == "clean"
    publish_boundary(home)
    home.aws.s3_client().delete_object(Bucket=home.bucket, Key=stored.key)
    with hearing(home.names) as heard_again:
        assert audit_day(context, day_of_ms(arrival_ms), options).audit.verdict == "defects"
    check("audit-stream", heard, beside=heard_again.requests)


def publish_boundary(home: Home) -> None:
    """Store that all is complete up to the next minute but one."""
    boundary_ms = (_CLOCK.now_ms() // MINUTE_MS + 2) * MINUTE_MS
    marker = CompleteMarker(
        since=iso_time(boundary_ms - 9 * DAY_MS), boundary=iso_time(boundary_ms), shards={}, gaps=(), writer="w"
    )
    key = marker_key(PREFIX, boundary_ms)
    assert home.store.put_if_absent(key, encode_boundary(marker), {}, JSON_TYPE) is PutOutcome.CREATED


def test_compact(home: Home) -> None:
    """A night looks at what is due, also beside an expired day; a day is published, replaced and swept.

    A segment that is missing is withdrawn from the newest boundary. A large file goes in pieces, and one is given up.
    A payload is behind a header of a registry, whose schema is kept.
    """
    day, glue = Day(TODAY - 2), FakeGlue()
    scene = home.begin()
    behind = behind_header(glue.register("{}", "JSON"), b"{}")
    broken = day.shift(-3)
    scene.chain(SHARD, [broken.first_minute + number for number in range(3)], missing={1})
    scene.segment(SHARD, day.first_minute, [Record("7", 0, "k", day.begin_ms, behind)])
    publish_boundary(home)
    home.store.put_if_absent(f"{PREFIX}_expired/{day.shift(-1)}.json", b"{}", {}, "application/json")
    with hearing(home.names) as heard, glue.serving() as address:
        with home.file.open("a") as file:
            file.write(f"minutebook.glueEndpoint={address}\n")
        assert _due(home, day, _CLOCK).why == "it is not published"
        for number, days in enumerate((0, 10, 20)):
            _compact(home, day, ManualClock(_CLOCK.now_ms() + days * DAY_MS))
            if number == 0:
                assert _due(home, day, _CLOCK).pointer == "accepted"
                scene.segment(SHARD, day.first_minute + 1)
        _compact(home, broken, _CLOCK)
        storage = open_storage(home.address)
        for number, finish in enumerate(("close", "abort")):
            key = f"{PREFIX}_parquet/dt={day}/_gen-1/part-{number}.parquet"
            sink = storage.open_write(key, "x/y", lambda: Backoff(_CLOCK, new_random(), budget_seconds=10))
            sink.write(bytes(6 << 20))
            getattr(sink, finish)()
    check("compact", heard)


def test_follow(home: Home, tmp_path: Path) -> None:
    """A tick writes a part, another one a part of a segment more, beside a published day; nothing is deleted."""
    scene = home.begin()
    publish_boundary(home)
    today = Day(TODAY)
    scene.segment(SHARD, today.first_minute)
    settings = load_job_settings(home.file, {})
    out = StorePrefix(home.address, f"{PREFIX}_parquet/")
    context = _context(home, settings, _CLOCK)
    catalog = StorePrefix(Address(None, str(tmp_path)), "")
    with hearing(home.names) as heard, opened_followed("events.raw", None, catalog) as table:
        arguments = (context.archive, context.place, context.open(out.address), out, _CLOCK, new_id, in_process)
        for number in range(2):
            # pyiceberg would read the files with the catalog's own credentials: here none of its requests is heard.
            day = FollowedDay(FollowPorts(*arguments, table), today)
            day.list_new(_CLOCK.now_ms())
            day.write()
            assert (day.segments, day.is_behind) == (1, False)
            scene.segment(SHARD, today.first_minute + 1 + number)
        # As with a commit beside what is published. It deletes marks after three days: follow commits younger days.
        Publisher(context.open(out.address), DayFolder(out.prefix, today)).table_marks.put("g", "t", new_id(), b"{}")
        storage = open_storage(home.address)
        for number, finish in enumerate(("close", "abort")):
            key = f"{PREFIX}_parquet/dt={today}/_live/part-{number}.parquet"
            sink = storage.open_write(key, "x/y", lambda: Backoff(_CLOCK, new_random(), budget_seconds=10))
            sink.write(bytes(6 << 20))
            getattr(sink, finish)()
    check("follow", heard)


def _compact(home: Home, day: Day, clock: Clock) -> None:
    """Do what the command does, with its tasks in this process."""
    settings = load_job_settings(home.file, {})
    context = _context(home, settings, clock)
    out = StorePrefix(home.address, f"{PREFIX}_parquet/")
    options = AuditOptions(stream=settings.stream_name, application=settings.application_name, published=out)
    columns = mapping({"n": "int64"}, ["glue-registry"])
    compact_day(context, context.open(out.address), day, CompactOptions(options, out, "known", columns=columns))


def _due(home: Home, day: Day, clock: Clock) -> DueDay:
    """Return what a night finds due of a day."""
    settings = load_job_settings(home.file, {})
    out = StorePrefix(home.address, f"{PREFIX}_parquet/")
    due = find_due(_context(home, settings, clock), out, AuditOptions(published=out), 14)
    return {each.day: each for each in due.days}[day]


def _context(home: Home, settings: JobSettings, clock: Clock) -> JobContext:
    """Return what the commands work on, on real servers, but for Spark."""
    return job_context(home.address, clock=clock)._replace(
        owner=settings.owner,
        checkpoints=lambda: _checkpoints(settings),
        shards=lambda: settings.stream.open(clock).listed(),
        schemas=settings.schemas,
    )


def test_expire(home: Home) -> None:
    """A day of 40 days ago that was published beside the archive."""
    scene, first = home.begin(), (TODAY - 40) * 1440
    for number in range(3):
        scene.segment(SHARD, first + number)
    scene.read_on(SHARD, (TODAY - 39) * DAY_MS)
    raw = [(row.key, row.etag, row.size) for row in home.store.list_objects(f"{PREFIX}{minute_path(first)[:10]}/")]
    for key, body in published_objects(f"{PREFIX}_parquet/", str(Day(TODAY - 40)), raw, "g1", "clean").items():
        home.store.put_if_absent(key, body, {}, "x/y")
    published = f"s3://{home.bucket}/{PREFIX}_parquet/"
    with hearing(home.names) as heard:
        assert run_expire(ExpireRequest("30d", published, home.file, apply=True), {}) == 0
    assert len(list(home.store.list_objects(f"{PREFIX}2"))) == 1
    check("expire", heard)


def test_every_policy_is_tested() -> None:
    """By the test of its command."""
    tests = {
        "consume",
        "dedupe",
        "doctor",
        "status",
        "restore",
        "cut",
        "handover",
        "audit",
        "audit-stream",
        "compact",
        "follow",
        "expire",
    }
    reading = {"cat", "reader", "wait"}  # tests/integration/test_reading.py
    assert set(command_names()) == tests | reading | {
        "vacuum"
    }  # tests/integration/compaction/commands/test_vacuum.py


@pytest.mark.parametrize("command", ["consume", "status", "compact"])
@pytest.mark.parametrize("action", ["s3:PutObject", "s3:DeleteObject"])
def test_the_bucket_protects_the_archive_from_every_role(command: str, action: str) -> None:
    """Whatever a role's own policy says: no overwriting, and no deleting but by the role of expire."""
    names = Names()
    caller = {"aws:PrincipalArn": f"arn:aws:iam::{names.account}:role/{command}"}
    everything = {"Effect": "Allow", "Action": action, "Resource": "*"}
    policy = [everything, *bucket_policy(names)]
    segment = f"arn:aws:s3:::{names.bucket}/{names.prefix}2026/11/21/10/16/{SHARD}/1-0.jsonl.gz"

    assert not is_allowed(policy, Request(action, segment, caller))
    by_match = Request(action, segment, {**caller, "s3:if-match": "etag"})
    assert not is_allowed(policy, by_match)
    assert is_allowed(policy, by_match._replace(resource=f"arn:aws:s3:::{names.bucket}/{names.prefix}_parquet/x"))
    assert is_allowed(policy, Request("s3:PutObject", segment, {**caller, "s3:if-none-match": "*"})) == (
        action == "s3:PutObject"
    )
