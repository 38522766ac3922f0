"""A place for processors: a bucket and a stream on the embedded AWS, one shard, and its lease."""

import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from consumer.processor.processor import ShardProcessor
from consumer.settings.settings import Settings
from consumer.stream.kinesis import KinesisStream
from demo.embedded import REGION, EmbeddedAws
from demo.readback import StoredSegment, compare, read_archive
from minutebook.clock import Clock, SystemClock, new_id
from minutebook.format.minute import MINUTE_MS
from minutebook.store.s3 import S3Store
from tests.fakes.daemon_double import DaemonDouble, Lease
from tests.fakes.shard import FakeShard, UserRecord
from tests.integration.fork_site import Forks
from tests.integration.process_daemon import ProcessDaemon
from tests.witness.readback import assert_exactly_once, fingerprints
from tests.witness.waiting import is_gone, wait_until

PREFIX = "raw/"
_KEPT = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")


class Site:
    """One shard of one stream, archived into one fresh bucket by as many processors as a test starts."""

    def __init__(self, aws: EmbeddedAws, folder: Path) -> None:
        self.name = f"site-{new_id()[:10]}"
        self.store = S3Store(aws.s3_client(), self.name)
        self.kinesis = aws.kinesis_client()
        self.s3 = aws.s3_client()
        self.s3.create_bucket(Bucket=self.name)
        self.make_stream()
        self.shard = FakeShard()
        self.lease = Lease(self.shard)
        self._aws = aws
        self.s3_endpoint = aws.s3_endpoint
        self.folder = folder
        now = SystemClock().now_ms()
        self.minutes = [(now // MINUTE_MS - back) * MINUTE_MS for back in (4, 3, 2)]
        """The beginnings of three minutes that are over, oldest first, in epoch milliseconds."""

    def make_stream(self) -> None:
        """Create the stream and wait for it."""
        self.kinesis.create_stream(StreamName=self.name, ShardCount=1)
        wait_until(self._is_active, "the stream is ACTIVE")

    def remake_stream(self) -> None:
        """Delete the stream and create it again under its name."""
        self.kinesis.delete_stream(StreamName=self.name)
        wait_until(lambda: is_gone(self.kinesis, self.name), "the stream is gone")
        self.make_stream()

    def put(self, count: int, minute: int = 0, *, size: int = 30) -> list[UserRecord]:
        """Put records into the shard that arrived in one of `minutes`."""
        begin = len(self.shard.everything)
        return [
            self.shard.put(f'{{"n":{begin + number}}}'.ljust(size).encode(), self.minutes[minute] + number)
            for number in range(count)
        ]

    def processor(
        self,
        *,
        lease: Lease | None = None,
        path: str | None = None,
        without_keys: Mapping[str, str] | None = None,
        **ours: Any,  # noqa: ANN401 - any setting
    ) -> ProcessDaemon:
        """Start a processor; `ours` are settings without `minutebook.`, `path` is put first on PYTHONPATH.

        `without_keys`: it has these variables instead of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
        """
        environment = self.environment()
        if without_keys is not None:
            environment.pop("AWS_ACCESS_KEY_ID")
            environment.pop("AWS_SECRET_ACCESS_KEY")
            environment.update(without_keys)
        if path is not None:
            environment["PYTHONPATH"] = path
        return ProcessDaemon(lease or self.lease, self.properties(**ours), environment)

    def forks(self, *, environment: Mapping[str, str] | None = None, **ours: object) -> Forks:
        """Start a fork server; `ours` are settings without `minutebook.`."""
        return Forks(self.folder, self.properties(**ours), {**self.environment(), **(environment or {})})

    def properties(self, **ours: object) -> Path:
        """Write a file; `ours` are settings without `minutebook.`."""
        values = {
            "streamName": self.name,
            "applicationName": self.name,
            "regionName": REGION,
            "kinesisEndpoint": self._aws.kinesis_endpoint,
            **{
                f"minutebook.{name}": value
                for name, value in {
                    "bucket": self.name,
                    "prefix": PREFIX,
                    "s3Endpoint": self._aws.s3_endpoint,
                    "checkpointIntervalSeconds": 0,
                    "lingerSeconds": 60,
                    **ours,
                }.items()
            },
        }
        values["streamName"] = values.pop("minutebook.streamName", values["streamName"])
        file = self.folder / f"{new_id()[:8]}.properties"
        file.write_text("".join(f"{name} = {value}\n" for name, value in values.items()))
        return file

    def environment(self) -> dict[str, str]:
        """Return what processors see of this machine."""
        return {name: os.environ[name] for name in _KEPT if name in os.environ} | self._aws.environment

    def archive_the_rest(self) -> None:
        """Let a fresh processor, in this process, start from the checkpoint, take everything, and stop in order."""
        daemon = DaemonDouble(self.lease, self.processor_here(SystemClock()))
        daemon.start()
        daemon.deliver()
        daemon.request_shutdown()

    def processor_here(self, clock: Clock) -> ShardProcessor:
        """Return a processor in this process, with the defaults of production."""
        settings = Settings(
            stream_name=self.name, application_name=self.name, region=REGION, bucket=self.name, prefix=PREFIX
        )
        rng = random.Random(1)
        stream = KinesisStream(lambda: self.kinesis, self.name, clock, rng)
        return ShardProcessor(settings, S3Store(self.s3, self.name), stream, clock, rng, new_id)

    def segments(self) -> list[StoredSegment]:
        """Read the archive."""
        return read_archive(self.store, PREFIX)

    def objects(self) -> dict[str, str]:
        """Return key -> ETag of everything in the bucket."""
        return {row.key: row.etag for row in self.store.list_objects("")}

    def assert_exactly_once(self) -> None:
        """Fail unless every record of the shard is archived once, in a whole chain."""
        sent = fingerprints(self.shard.shard_id, self.shard.everything)
        assert_exactly_once(compare(self.segments(), sent))

    def _is_active(self) -> bool:
        summary = self.kinesis.describe_stream_summary(StreamName=self.name)["StreamDescriptionSummary"]
        return summary["StreamStatus"] == "ACTIVE"
