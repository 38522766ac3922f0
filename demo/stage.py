"""The stage: a folder for this run, a stream, a bucket, and workers with their properties files."""

import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Self

import javaproperties

from demo import table
from demo.bootstrap import CHECKOUT, ensure_java
from demo.child import Child
from demo.embedded import EmbeddedAws
from demo.readback import count_archived
from demo.worker import Worker
from minutebook.clock import Clock
from minutebook.errors import MinutebookError
from minutebook.store.s3 import S3Store

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

SHARDS = 4
STREAM = "flights"
BUCKET = "minutebook-demo"
PREFIX = "flights/"
TEMPLATE = CHECKOUT / "properties" / "demo.properties"
LEASES_PER_WORKER = 4
_ACTIVE_SECONDS = 30
_FOLLOW_SECONDS = 60


class Stage:
    """Everything that the scenario acts on; leaving it ends every process that was started on it.

    `settings` are properties for every worker, beside those of the template.
    """

    def __init__(self, folder: Path, aws: EmbeddedAws, clock: Clock, settings: Mapping[str, str]) -> None:
        self._settings = settings
        self.folder = folder
        self.aws = aws
        self.clock = clock
        self.kinesis = aws.kinesis_client()
        self.store = S3Store(aws.s3_client(), BUCKET)
        self.workers: dict[str, Worker] = {}
        self.follower: Child | None = None
        self._java = ensure_java()
        self._counted: dict[str, int] = {}
        self._counted_next: dict[str, int] = {}
        self._exits = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    def build(self) -> None:
        """Create the bucket and the stream."""
        self.aws.s3_client().create_bucket(Bucket=BUCKET)
        self.kinesis.create_stream(StreamName=STREAM, ShardCount=SHARDS)
        self.wait_active()

    @property
    def environment(self) -> dict[str, str]:
        """What every process of ours needs: credentials of the servers, a catalog, and a Java."""
        catalog = table.catalog_variables(self.folder)
        return {**self.aws.environment, **catalog, "JAVA_HOME": str(self._java.parents[1])}

    def properties(self, name: str) -> Path:
        """Return where a worker's properties file is."""
        return self.folder / f"worker-{name}.properties"

    @property
    def parquet(self) -> Path:
        """Where `minutebook follow` and the nightly job write."""
        return self.folder / "parquet"

    def start_follow(self) -> None:
        """Start `minutebook follow` with the properties of worker A, where it is installed."""
        if not table.is_installed():
            return
        program, properties = Path(sys.executable).with_name("minutebook"), self.properties("a")
        words = [str(program), "follow", str(properties), "--out", str(self.parquet), *table.OPTIONS]
        inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        environment = {**inherited, "TMPDIR": str(self.folder), **self.environment}
        log = self.folder / "follow.log"
        self.follower = Child("minutebook follow", words, log=log, clock=self.clock, environment=environment)
        self._exits.callback(self.follower.kill)

    def stop_follow(self) -> None:
        """Ask it to end. Raises MinutebookError if it ended otherwise."""
        if self.follower is not None and (code := self.follower.stop(grace_seconds=_FOLLOW_SECONDS)):
            raise MinutebookError(f"minutebook follow ended with {code}", next_step=f"read {self.follower.log}")

    def read_table(self) -> table.TableRows | None:
        """Ask the table; None: it is not installed, or has no rows yet."""
        return table.read_table(self.folder) if self.follower is not None else None

    def start_worker(self, name: str, **overrides: str) -> Worker:
        """Start `minutebook consume` with a properties file of its own; `overrides` are environment variables."""
        self.workers[name] = self._start(name, self._settings, overrides)
        return self.workers[name]

    def start_next(self, application: str, prefix: str) -> Worker:
        """Start the only worker of another application on the same stream, whose leases were written before."""
        settings = {
            "applicationName": application,
            "minutebook.prefix": prefix,
            # Its archive begins behind another application's.
            "minutebook.adoptCheckpoint": "true",
            "minutebook.flushSeconds": "2",
            "maxLeasesForWorker": "100",
        }
        return self._start("next", settings, {})

    def _start(self, name: str, settings: Mapping[str, str], overrides: Mapping[str, str]) -> Worker:
        properties = self.properties(name)
        values = javaproperties.loads(TEMPLATE.read_text(encoding="ascii"))
        values |= {
            "applicationName": "minutebook-demo",
            "streamName": STREAM,
            "regionName": self.aws.environment["AWS_REGION"],
            "workerId": f"worker-{name}",
            "kinesisEndpoint": self.aws.kinesis_endpoint,
            "dynamoDBEndpoint": self.aws.dynamodb_endpoint,
            "minutebook.s3Endpoint": self.aws.s3_endpoint,
            "minutebook.bucket": BUCKET,
            "minutebook.prefix": PREFIX,
            # KCL gives every lease to the first worker as long as it may; the others need some, too.
            "maxLeasesForWorker": str(LEASES_PER_WORKER),
            # Assignments (one a second) between two rebalancings: at KCL's 3, leases wander all through the demo.
            "varianceBalancingFrequency": "3600",
            # A killed processor takes its daemon down only after this grace.
            "shutdownGraceMillis": "5000",
            **settings,
        }
        properties.write_text(javaproperties.dumps(values, timestamp=False), encoding="ascii")
        worker = Worker(name, properties, clock=self.clock, environment={**self.environment, **overrides})
        self._exits.callback(worker.kill)
        return worker

    def open_shards(self) -> list[str]:
        """Return the shards that take records, in the order of their hash ranges."""
        shards = self.kinesis.list_shards(StreamName=STREAM)["Shards"]
        taking = [shard for shard in shards if "EndingSequenceNumber" not in shard["SequenceNumberRange"]]
        taking.sort(key=lambda shard: int(shard["HashKeyRange"]["StartingHashKey"]))
        return [shard["ShardId"] for shard in taking]

    def split(self, shard_id: str) -> set[str]:
        """Split a shard in its middle; returns the new shards."""
        before = set(self.open_shards())
        shards = self.kinesis.list_shards(StreamName=STREAM)["Shards"]
        found = next(shard for shard in shards if shard["ShardId"] == shard_id)["HashKeyRange"]
        middle = (int(found["StartingHashKey"]) + int(found["EndingHashKey"])) // 2
        self.kinesis.split_shard(StreamName=STREAM, ShardToSplit=shard_id, NewStartingHashKey=str(middle))
        self.wait_active()
        return set(self.open_shards()) - before

    def merge(self, shard_id: str, neighbour: str) -> set[str]:
        """Merge two adjacent shards; returns the new shard."""
        before = set(self.open_shards())
        self.kinesis.merge_shards(StreamName=STREAM, ShardToMerge=shard_id, AdjacentShardToMerge=neighbour)
        self.wait_active()
        return set(self.open_shards()) - before

    def wait_active(self) -> None:
        """Wait until the stream is ACTIVE."""
        deadline = self.clock.monotonic() + _ACTIVE_SECONDS
        while self._status() != "ACTIVE":
            if self.clock.monotonic() > deadline:
                raise MinutebookError(f"the stream did not become ACTIVE within {_ACTIVE_SECONDS} s")
            self.clock.sleep(0.1)

    def count_archived(self) -> int:
        """Return how many records are archived, by metadata alone."""
        return count_archived(self.store, PREFIX, self._counted)

    def count_next(self, prefix: str) -> int:
        """Return how many records another application has archived, by metadata alone."""
        return count_archived(self.store, prefix, self._counted_next)

    def feeding_client(self) -> "KinesisClient":
        """Return the producer's client, without retries of its own: each retry must be written down."""
        return self.aws.kinesis_client(total_max_attempts=1)

    def segment_puts(self) -> int:
        """Return how many PUTs of segments the workers sent, by their logs; those that lost a slot included."""
        workers = self.workers.values()
        lost = sum(len(worker.events("slot_lost")) for worker in workers)
        return lost + sum(event.attempts for worker in workers for event in worker.events("segment_committed"))

    def _status(self) -> str:
        summary = self.kinesis.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]
        return summary["StreamStatus"]


def fresh_folder(clock: Clock) -> Path:
    """Return a new folder for one run, under `.demo/` of the checkout."""
    folder = CHECKOUT / ".demo" / f"run-{clock.now_ms()}-{os.getpid()}"
    folder.mkdir(parents=True)
    return folder
