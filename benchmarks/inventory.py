"""The audit at level inventory of 144,000 segments: 100 shards, one day. What it costs beside the listing.

Listing and HEADs are answered from memory: on S3 they are 1 LIST per 1,000 objects and one HEAD per object, 16 at
once. What it takes to ask is counted; the time that LIST's answers take is shown beside it.
"""

import argparse
import resource
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TypeVar

from archive.clock import SystemClock, new_id, new_random
from archive.format.day import MINUTES_A_DAY, Day
from archive.format.keys import application_key, segment_key, start_marker_key
from archive.format.markers import encode_marker
from archive.format.metadata import ChainStart, Predecessor, SegmentMetadata
from archive.format.minute import MINUTE_MS
from archive.format.position import Position
from archive.owner import StreamOwner
from archive.retry import Backoff
from archive.store.objects import ListedObject, Listing, ObjectHead, StoredObject
from archive.store.places import StorePrefix
from archive.store.retrying import RetryingStorage
from archive.store.storage import Address
from benchmarks.archives import APPLICATION, FIRST, PREFIX, start_marker
from compaction.audit.audit import audit_day
from compaction.inventory.checkpoints import Checkpoints
from compaction.job.context import AuditOptions, JobContext
from compaction.verdict.audit_document import encode_audit

T = TypeVar("T")


class _Listing:
    """A storage that only lists and heads, and knows how long that took the callers' threads."""

    def __init__(self, day: Day, shards: int) -> None:
        self.heads: dict[str, ObjectHead] = {}
        self.tails: dict[str, Position] = {}
        self.seconds = 0.0
        self._lock = threading.Lock()
        self._markers = {application_key(PREFIX): encode_marker(APPLICATION)}
        self._hours: dict[str, list[ListedObject]] = defaultdict(list)
        self._day = day
        for number in range(shards):
            self._add_shard(f"shardId-{number:012d}", number)

    def uri(self, key: str) -> str:
        return f"s3://bench/{key}"

    def list_level(self, folder: str) -> Listing:
        if folder.startswith(f"{PREFIX}_"):
            return Listing((), ())
        if folder == self._day.path(PREFIX):
            return Listing(tuple(hour for hour in sorted(self._hours) if "_" not in hour), ())
        parts = self._day.path(PREFIX).removeprefix(folder).split("/")
        return (
            Listing((f"{folder}{parts[0]}/",), ()) if self._day.path(PREFIX).startswith(folder) else Listing((), ())
        )

    def list_objects(self, prefix: str) -> Iterator[ListedObject]:
        return iter(self._timed(lambda: list(self._hours.get(prefix, ()))))

    def head(self, key: str) -> ObjectHead | None:
        return self.heads.get(key)

    def get(self, key: str) -> StoredObject | None:
        body = self._markers.get(key)
        return None if body is None else StoredObject(body, '"marker"', {})

    def _timed(self, request: Callable[[], T]) -> T:
        begin = time.perf_counter()
        answer = request()
        with self._lock:
            self.seconds += time.perf_counter() - begin
        return answer

    def _add_shard(self, shard_id: str, number: int) -> None:
        after: Predecessor = ChainStart("TRIM_HORIZON")
        sequence = FIRST + number * 10**40
        for minute in range(self._day.first_minute, self._day.first_minute + MINUTES_A_DAY):
            first, last = Position(sequence + 1), Position(sequence + 10**6)
            metadata = SegmentMetadata(
                shard_id=shard_id,
                minute=minute,
                first=first,
                last=last,
                after=after,
                records=1000,
                dropped=0,
                payload_bytes=10**6,
                arrival_min_ms=minute * MINUTE_MS,
                arrival_max_ms=minute * MINUTE_MS + 59_000,
                writer=new_id(),
            )
            key = segment_key(PREFIX, shard_id, minute, first)
            written_ms = (minute + 1) * MINUTE_MS + 6_000
            row = ListedObject(key, 300_000 + minute % 7, f'"{minute:x}-{number:x}"', written_ms)
            self.heads[key] = ObjectHead(key, row.size, row.etag, metadata.encode(), written_ms)
            self._hours[f"{PREFIX}{key.removeprefix(PREFIX)[:14]}"].append(row)
            if isinstance(after, ChainStart):
                self._add_start(shard_id, first)
            after, sequence = last, last.sequence
        self.tails[shard_id] = Position(sequence)

    def _add_start(self, shard_id: str, first: Position) -> None:
        key = start_marker_key(PREFIX, shard_id)
        self._markers[key] = encode_marker(start_marker(shard_id, first))
        self._hours[f"{PREFIX}_shards/"].append(ListedObject(key, len(self._markers[key]), '"marker"', 0))


def main(arguments: list[str]) -> int:
    """Run the benchmark; prints one line per run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks inventory", description=__doc__)
    parser.add_argument("--shards", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args(arguments)
    day = Day.parse("2026-11-20")
    listing = _Listing(day, options.shards)
    clock, rng = SystemClock(), new_random()
    context = JobContext(
        archive=RetryingStorage(
            listing,  # type: ignore[arg-type]  # only what an audit by inventory asks
            lambda: Backoff(clock, rng, budget_seconds=1),
        ),
        place=StorePrefix(Address("bench"), PREFIX),
        clock=clock,
        new_id=new_id,
        engine=lambda orders: [],  # noqa: ARG005 - no line is read
        checkpoints=lambda: Checkpoints(listing.tails),
        version="bench",
        owner=StreamOwner("bench", "us-east-1"),
    )
    for number in range(options.runs):
        listing.seconds = 0.0
        begin, worked = time.perf_counter(), time.process_time()
        audit = audit_day(context, day, AuditOptions(level="inventory")).audit
        seconds, worked = time.perf_counter() - begin, time.process_time() - worked
        size = len(encode_audit(audit))
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        sys.stdout.write(
            f"run {number + 1}: {audit.scope.objects:,} objects, {worked:.2f} s of CPU, {seconds:.2f} s by the clock "
            f"({listing.seconds:.2f} s answering LIST), {audit.verdict} with {len(audit.findings)} finding(s), "
            f"audit.json {size:,} bytes, peak memory {memory:.0f} MB\n"
        )
    return 0
