"""The processor's own cost: the daemon's lines in, gzip segments out, one core, no network.

Beside it, in turns in the same run, the way a kclpy program does it by hand: kclpy's decoder (an object per
record), `json.dumps` per line and zlib's default level. Both read the same bytes.
"""

import argparse
import base64
import gzip
import io
import json
import random
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Self, TypeVar

from amazon_kclpy import dispatch

from archive.clock import SystemClock, new_id
from archive.format.position import Position
from archive.logs import configure_logging
from archive.store.objects import ListedObject, ObjectHead, PutOutcome, StoredObject
from consumer.processor.processor import ShardProcessor
from consumer.processor.protocol import run_process
from consumer.settings.settings import Settings
from consumer.stream.port import Answer, Beginning, ShardInfo, StreamIdentity

SHARD = "shardId-000000000000"
FIRST = 49680430009993180326445188721472315949130085524050018306
START_MS = 1_795_256_160_000
BATCH_RECORDS = 1000
Input = TypeVar("Input")


class _NullStore:
    """Takes every object and forgets it: what is measured is the processor."""

    def __init__(self) -> None:
        self.bytes = 0
        self.segments = 0

    def put_if_absent(self, key: str, body: bytes, metadata: Mapping[str, str], content_type: str) -> PutOutcome:  # noqa: ARG002 - the port's shape
        self.bytes += len(body)
        self.segments += 1
        return PutOutcome.CREATED

    def head(self, key: str) -> ObjectHead | None:  # noqa: ARG002 - the port's shape
        return None

    def get(self, key: str) -> StoredObject | None:  # noqa: ARG002 - the port's shape
        return None

    def list_objects(self, prefix: str) -> Iterator[ListedObject]:  # noqa: ARG002 - the port's shape
        return iter(())


class _NullStream:
    def describe(self) -> StreamIdentity:
        return StreamIdentity("arn:aws:kinesis:us-east-1:000000000000:stream/bench", START_MS, 86_400_000 * 36500)

    def shard(self, shard_id: str) -> ShardInfo | None:
        return ShardInfo(shard_id, "0", "1", (), (), closed=False)

    def holds(self, shard_id: str, position: Position) -> bool:  # noqa: ARG002 - the port's shape
        return True

    def all_shards(self, *, at_ms: int | None = None, since_ms: int | None = None) -> Mapping[str, ShardInfo]:  # noqa: ARG002 - the port's shape
        return {}

    def open(self, shard_id: str, beginning: Beginning) -> Answer | None:  # noqa: ARG002 - the port's shape
        return None

    def read(self, shard_id: str, iterator: str) -> Answer:  # noqa: ARG002 - the port's shape
        return Answer(None, None)

    def service_ms(self) -> int | None:
        return None

    def within(self, budget_seconds: float) -> Self:  # noqa: ARG002 - the port's shape
        return self


def make_lines(payload_bytes: int, total_bytes: int) -> list[bytes]:
    """Return the daemon's lines: JSON events of about `payload_bytes`, six batches a minute."""
    rng = random.Random(1)  # noqa: S311 - the same input on every run
    lines, made, number = [], 0, 0
    while made < total_bytes:
        records = []
        for _ in range(BATCH_RECORDS):
            event = {"id": number, "carrier": rng.choice(("UA", "AA", "DL", "B6")), "distance": rng.randrange(5000)}
            pad = max(0, payload_bytes - len(json.dumps(event)) - 12)
            event["note"] = "".join(rng.choices("etaoin shrdlu 0123456789", k=pad))
            data = json.dumps(event).encode()
            made += len(data)
            records.append(
                {
                    "action": "record",
                    "data": base64.b64encode(data).decode(),
                    "partitionKey": f"N{number % 997}",
                    "sequenceNumber": str(FIRST + number),
                    "subSequenceNumber": 0,
                    "approximateArrivalTimestamp": START_MS + len(lines) * 10_000,
                }
            )
            number += 1
        message = {"action": "processRecords", "records": records, "millisBehindLatest": 0}
        lines.append(json.dumps(message, separators=(",", ":")).encode() + b"\n")
    return lines


def as_daemon_sends(lines: Iterable[bytes]) -> io.BytesIO:
    """Return what comes down the pipe in a processor's life."""
    first = {"action": "initialize", "shardId": SHARD, "sequenceNumber": "TRIM_HORIZON", "subSequenceNumber": 0}
    return io.BytesIO(b"".join([json.dumps(first).encode() + b"\n", *lines, b'{"action":"shutdownRequested"}\n']))


def ours(source: io.BytesIO) -> int:
    """Archive what the daemon sends; returns the compressed bytes."""
    store = _NullStore()
    settings = Settings(
        stream_name="bench", application_name="bench", region="us-east-1", bucket="b", checkpoint_interval_seconds=1e9
    )
    processor = ShardProcessor(settings, store, _NullStream(), SystemClock(), random.Random(1), new_id)  # noqa: S311
    # The protocol answers go nowhere; a checkpoint would wait for an answer, so none may be due.
    try:
        run_process(processor, source, io.BytesIO(), sys.stderr)
    except Exception as exc:
        if "ended in the middle" not in str(exc):  # the last checkpoint meets the end of the input: expected
            raise
    return store.bytes


def by_hand(lines: Iterable[bytes]) -> int:
    """Do the same with kclpy's decoder, json and zlib, as a program written on the samples does."""
    size, minute, out = 0, -1, io.BytesIO()
    stream = gzip.GzipFile(fileobj=out, mode="wb", compresslevel=6)
    for line in lines:
        action = json.loads(line, object_hook=dispatch.message_decode)
        for record in action.records:
            if record.timestamp_millis // 60_000 != minute:
                stream.close()
                size += len(out.getvalue())
                minute, out = record.timestamp_millis // 60_000, io.BytesIO()
                stream = gzip.GzipFile(fileobj=out, mode="wb", compresslevel=6)
            entry = {
                "shard_id": SHARD,
                "sequence_number": record.sequence_number,
                "sub_sequence_number": record.sub_sequence_number,
                "partition_key": record.partition_key,
                "arrival_ms": record.timestamp_millis,
                "data": record.binary_data.decode(),
            }
            stream.write(json.dumps(entry).encode() + b"\n")
    stream.close()
    return size + len(out.getvalue())


def _timed(work: Callable[[Input], int], given: Input) -> tuple[float, int]:
    began = time.process_time()
    size = work(given)
    return time.process_time() - began, size


def main(argv: list[str]) -> int:
    """Print CPU seconds per run, MB/s of payload, records/s and the ratio of the medians."""
    configure_logging("warning")
    parser = argparse.ArgumentParser(prog="python -m benchmarks processor", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=60, help="payload per run (default 60)")
    parser.add_argument("--runs", type=int, default=5, help="runs of each side, in turns (default 5)")
    options = parser.parse_args(argv)
    for payload_bytes in (1000, 200):
        lines = make_lines(payload_bytes, options.megabytes * 1_000_000)
        records = len(lines) * BATCH_RECORDS
        mine, theirs = [], []
        for _ in range(options.runs):
            mine.append(_timed(ours, as_daemon_sends(lines)))
            theirs.append(_timed(by_hand, lines))
        for name, runs in (("minutebook", mine), ("kclpy + json + zlib", theirs)):
            seconds = statistics.median(cpu for cpu, _ in runs)
            sys.stdout.write(
                f"{payload_bytes:5d} B  {name:20s} {options.megabytes / seconds:7.1f} MB/s of payload per core  "
                f"{records / seconds:9,.0f} records/s  {runs[0][1] / 1e6:6.1f} MB out\n"
            )
        ratios = [other / own for (own, _), (other, _) in zip(mine, theirs, strict=True)]
        sys.stdout.write(f"{payload_bytes:5d} B  ratio, run by run: median {statistics.median(ratios):.1f}\n")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    sys.stdout.write(f"peak memory of this process, inputs included: {peak} MB\n")
    return 0
