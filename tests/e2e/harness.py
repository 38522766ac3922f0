"""One application under test: a fresh stream, bucket and lease table on the embedded AWS, and its workers."""

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from consumer.daemon.prepared.classes import Classes, find_classes
from consumer.daemon.prepared.jvm_flags import jvm_flags
from consumer.daemon.process import daemon_command
from consumer.preflight.java import find_jars, find_java
from demo.embedded import REGION, EmbeddedAws
from demo.readback import StoredSegment, Verdict, compare, read_archive
from minutebook.clock import new_id
from minutebook.format.keys import end_marker_key, start_marker_key
from minutebook.format.markers import EndMarker, StartMarker, decode_marker
from minutebook.store.s3 import S3Store
from tests.e2e.leases import LeaseRow, assign_lease, read_leases, seed_leases
from tests.e2e.worker import Worker
from tests.witness.ledger import Producer
from tests.witness.waiting import is_gone, wait_until

if TYPE_CHECKING:
    from mypy_boto3_kinesis.type_defs import ShardTypeDef

M = TypeVar("M", StartMarker, EndMarker)

PREFIX = "raw/"
_BIN = Path(sys.executable).parent
LOGBACK = Path(__file__).parents[2] / "properties" / "logback.xml"
_KEPT = ("PATH", "JAVA_HOME", "TMPDIR", "HOME", "LD_LIBRARY_PATH", "PYTHONPATH")
"""The last one for `make kcl`, which puts another KCL before the installed one."""

QUICK = {
    "AwsCredentialsProvider": "DefaultCredentialsProvider",
    "regionName": REGION,
    "retrievalMode": "POLLING",
    "metricsLevel": "NONE",
    "disableWorkerMetrics": "true",
    # Shorter, and a busy machine makes healthy workers lose their leases: no test needs that, and this is KCL's own.
    "failoverTimeMillis": "10000",
    "leaseAssignmentIntervalMillis": "1000",
    "shardSyncIntervalMillis": "2000",
    "parentShardPollIntervalMillis": "500",
    # An empty answer costs emulator and JVM some 25 ms of CPU time together, and most tests wait for minutes.
    "idleTimeBetweenReadsInMillis": "1000",
    "maxRecords": "500",
    "callProcessRecordsEvenForEmptyRecordList": "true",
    "shutdownGraceMillis": "15000",
}


class Application:
    """Names, properties, producer and archive of one application. `ours` are settings without `minutebook.`."""

    def __init__(self, aws: EmbeddedAws, folder: Path, *, shards: int = 1, **ours: object) -> None:
        self.name = f"e2e-{new_id()[:10]}"
        self._aws = aws
        self._folder = folder
        self.kinesis = aws.kinesis_client()
        self._dynamodb = aws.dynamodb_client()
        aws.s3_client().create_bucket(Bucket=self.name)
        self.kinesis.create_stream(StreamName=self.name, ShardCount=shards)
        self.await_stream()
        self.store = S3Store(aws.s3_client(), self.name)
        self.producer = Producer(self.kinesis, self.name)
        self._ours = ours

    def properties(self, worker_id: str, *, kcl: Mapping[str, str | None] | None = None, **ours: object) -> Path:
        """Write a worker's file; `ours` overrides the application's settings, `kcl` KCL's (None: what we preset)."""
        values = {
            **QUICK,
            **self.endpoints(),
            "applicationName": self.name,
            "workerId": worker_id,
            "minutebook.bucket": self.name,
            "minutebook.prefix": PREFIX,
            "minutebook.s3Endpoint": self._aws.s3_endpoint,
            # The tests wait for checkpoints, of which nobody else wants to read.
            "minutebook.logLevel": "debug",
            **{f"minutebook.{name}": value for name, value in {**self._ours, **ours}.items()},
            **(kcl or {}),
        }
        path = self._folder / f"{worker_id}.properties"
        path.write_text("".join(f"{name} = {value}\n" for name, value in values.items() if value is not None))
        return path

    def endpoints(self) -> dict[str, str]:
        """Return KCL's names of the stream and of the servers."""
        return {
            "streamName": self.name,
            "kinesisEndpoint": self._aws.kinesis_endpoint,
            "dynamoDBEndpoint": self._aws.dynamodb_endpoint,
        }

    def seed_leases(self, owners: Mapping[str, str], *, checkpoint: str = "TRIM_HORIZON") -> None:
        """Make the lease table, see `tests.e2e.leases`."""
        seed_leases(self._dynamodb, self.name, self.shards().values(), owners, checkpoint=checkpoint)

    def daemon(
        self,
        worker_id: str = "w1",
        *,
        environment: Mapping[str, str] | None = None,
        classes: Classes | None = None,
        **ours: object,
    ) -> Worker:
        """Start the MultiLangDaemon itself, as a deployment without our supervisor does."""
        path = self.properties(worker_id, **ours)
        with path.open("a") as file:
            file.write(
                f"executableName = {_BIN / 'minutebook-processor'} {path}\ninitialPositionInStream = TRIM_HORIZON\n"
            )
        java = find_java(os.environ).program
        variables = self.environment(environment)
        parts = classes or find_classes(java, find_jars())
        command = daemon_command(java, jvm_flags(variables), parts, path, LOGBACK)
        return Worker(command, variables, self._folder / f"{worker_id}.log")

    def consume(
        self,
        worker_id: str = "w1",
        *,
        environment: Mapping[str, str] | None = None,
        dynamodb: str | None = None,
        kcl: Mapping[str, str | None] | None = None,
        **ours: object,
    ) -> Worker:
        """Start `minutebook consume`; `dynamodb` is the address of a proxy before the real server."""
        path = self.properties(worker_id, kcl=kcl, **ours)
        if dynamodb is not None:
            path.write_text(path.read_text().replace(self._aws.dynamodb_endpoint, dynamodb))
        command = [str(_BIN / "minutebook"), "consume", str(path), "--state-dir", str(self._folder / "state")]
        return Worker(command, self.environment(environment), self._folder / f"{worker_id}.log")

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return what the processes see: nothing of this machine's credentials, locale or folder in /tmp."""
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        return {**kept, "TMPDIR": str(self._folder), **self._aws.environment, **(more or {})}

    def shards(self) -> dict[str, "ShardTypeDef"]:
        """Return every row of ListShards, by shard id: a stream that was cut often has more of them than a page."""
        page = self.kinesis.list_shards(StreamName=self.name)
        rows = page["Shards"]
        while "NextToken" in page:
            page = self.kinesis.list_shards(NextToken=page["NextToken"])
            rows += page["Shards"]
        return {row["ShardId"]: row for row in rows}

    def open_shards(self) -> list[str]:
        """Return the ids of the open shards, in order of their hash ranges."""
        rows = [row for row in self.shards().values() if "EndingSequenceNumber" not in row["SequenceNumberRange"]]
        return [row["ShardId"] for row in sorted(rows, key=lambda row: int(row["HashKeyRange"]["StartingHashKey"]))]

    def key_of(self, shard_id: str) -> str:
        """Return a partition key whose records go to this shard (MD5 of the key, as Kinesis does)."""
        hash_range = self.shards()[shard_id]["HashKeyRange"]
        first, last = int(hash_range["StartingHashKey"]), int(hash_range["EndingHashKey"])
        keys = (f"key-{number}" for number in range(10_000))
        return next(key for key in keys if first + 9 < _hash(key) < last - 9)

    def await_stream(self) -> None:
        """Wait until the stream is ACTIVE."""
        wait_until(self._is_active, "the stream is ACTIVE")

    def put_raw(self, key: str, data: bytes) -> str:
        """Put a Kinesis record of which nothing is to be delivered: it is in no ledger; returns its number."""
        return self.kinesis.put_record(StreamName=self.name, PartitionKey=key, Data=data)["SequenceNumber"]

    def split(self, shard_id: str) -> list[str]:
        """Split a shard in the middle of its hash range; returns the children, lower range first."""
        before = self.shards()
        hash_range = before[shard_id]["HashKeyRange"]
        middle = (int(hash_range["StartingHashKey"]) + int(hash_range["EndingHashKey"])) // 2
        self.kinesis.split_shard(StreamName=self.name, ShardToSplit=shard_id, NewStartingHashKey=str(middle))
        self.await_stream()
        return [shard for shard in self.open_shards() if shard not in before]

    def merge(self, shard_id: str, adjacent: str) -> str:
        """Merge two neighbours; returns the child."""
        before = self.shards()
        self.kinesis.merge_shards(StreamName=self.name, ShardToMerge=shard_id, AdjacentShardToMerge=adjacent)
        self.await_stream()
        (child,) = (shard for shard in self.open_shards() if shard not in before)
        return child

    def is_gone(self) -> bool:
        """Tell whether the stream is deleted."""
        return is_gone(self.kinesis, self.name)

    def leases(self) -> dict[str, LeaseRow]:
        """Return the lease rows by shard id."""
        return read_leases(self._dynamodb, self.name)

    def assign_lease(self, shard_id: str, worker_id: str) -> None:
        """Give a lease to a worker, see `tests.e2e.leases`."""
        assign_lease(self._dynamodb, self.name, shard_id, worker_id)

    def leader(self) -> str | None:
        """Return the worker id of KCL's leader; None until one is elected."""
        table, key = self._leader_row()
        if table not in self._dynamodb.list_tables()["TableNames"]:
            return None
        row = self._dynamodb.get_item(TableName=table, Key=key, ConsistentRead=True).get("Item")
        return None if row is None else row["ownerName"]["S"]

    def reports(self) -> list[str]:
        """Return the workers that KCL's leader takes for living."""
        table = f"{self.name}-WorkerMetricStats"
        if table not in self._dynamodb.list_tables()["TableNames"]:
            table = self.name
        return [row["wid"]["S"] for row in self._dynamodb.scan(TableName=table)["Items"] if "wid" in row]

    def leave_lock(self, owner: str) -> None:
        """Let the leader's lock be that of a host that is gone, as KCL #1803 knows it: nobody ever takes it over."""
        table, key = self._leader_row()
        self._dynamodb.update_item(
            TableName=table,
            Key=key,
            UpdateExpression="SET ownerName = :owner, leaseDuration = :for_ever",
            ExpressionAttributeValues={":owner": {"S": owner}, ":for_ever": {"S": "86400000"}},
        )

    def drop_lease_tables(self) -> None:
        """Delete every table of the application, as an operator does by mistake."""
        for table in self._dynamodb.list_tables()["TableNames"]:
            if table.startswith(self.name):
                self._dynamodb.delete_table(TableName=table)

    def objects(self) -> dict[str, str]:
        """Return key -> ETag of every object, markers included."""
        return {row.key: row.etag for row in self.store.list_objects(PREFIX)}

    def start_marker(self, shard_id: str) -> StartMarker:
        """Return a shard's start.json."""
        return self._marker(start_marker_key(PREFIX, shard_id), StartMarker)

    def end_marker(self, shard_id: str) -> EndMarker:
        """Return a shard's end.json."""
        return self._marker(end_marker_key(PREFIX, shard_id), EndMarker)

    def segments(self) -> list[StoredSegment]:
        """Read the archive."""
        return read_archive(self.store, PREFIX)

    def verdict(self) -> Verdict:
        """Compare the archive with the ledger."""
        return compare(self.segments(), self.producer.fingerprints())

    def _leader_row(self) -> tuple[str, dict[str, Any]]:
        """Return the table and the key of the leader's row: KCL 3.5 keeps all rows in one table."""
        coordinator = f"{self.name}-CoordinatorState"
        if coordinator in self._dynamodb.list_tables()["TableNames"]:
            return coordinator, {"key": {"S": "Leader"}}
        return self.name, {"leaseKey": {"S": "Leader"}}

    def _marker(self, key: str, kind: type[M]) -> M:
        found = self.store.get(key)
        assert found is not None, f"{key} is missing"
        return decode_marker(found.body, kind, key)

    def _is_active(self) -> bool:
        summary = self.kinesis.describe_stream_summary(StreamName=self.name)["StreamDescriptionSummary"]
        return summary["StreamStatus"] == "ACTIVE"


def _hash(key: str) -> int:
    return int.from_bytes(hashlib.md5(key.encode(), usedforsecurity=False).digest(), "big")
