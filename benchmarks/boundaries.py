"""What boundaries cost a worker with many quiet shards, and how soon one is published: seconds behind its time.

The product's own threads run as beside a daemon, with boto3 and a Kinesis in another process that answers after
`--millis`. All shards are quiet, so each must be looked at. The archive is a folder. CPU is that of this process from
one boundary to the next: looks, rows and publishing, of which the supervisor has nothing else.

    python -m benchmarks boundaries [--shards 1 100 1000] [--millis 100] [--every 300]
"""

import argparse
import json
import multiprocessing
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from benchmarks.figures import Column, publish
from benchmarks.quiet_services import Answers, serve
from consumer.boundaries.due import JOBS, Boundaries
from consumer.boundaries.known import MARKED, KnownShards
from consumer.boundaries.looks import Looker
from consumer.boundaries.pool import JobPool
from consumer.boundaries.saying import DaemonRuns, RowWriter
from consumer.child_logs.processor_log import OPENED, ProcessorEvent
from consumer.stream.kinesis import KinesisStream
from minutebook.aws.access import PLAIN
from minutebook.aws.clients import make_kinesis_client
from minutebook.clock import SystemClock, new_random
from minutebook.completeness.publisher import Publisher
from minutebook.format.aggregate import LAST_HASH_KEY
from minutebook.format.boundaries import marker_key
from minutebook.format.coverage_markers import (
    FirstShard,
    FirstShards,
    OpenedMarker,
    encode_coverage_marker,
    first_shards_key,
    opened_marker_key,
)
from minutebook.retry import Backoff
from minutebook.store.directory_storage import DirectoryStorage
from minutebook.store.retrying import RetryingStore

_CLOCK: Final = SystemClock()
_PREFIX: Final = "raw/"
_LEAD_MS: Final = 20_000
_PATIENCE_SECONDS: Final = 900
_COLUMNS: Final = (
    Column("shards", "shards"),
    Column("ms an answer", "millis"),
    Column("published behind the boundary, s", "behind_seconds", ".0f"),
    Column("CPU s a boundary", "cpu_seconds", ".1f"),
    Column("% of a core", "percent", ".2f"),
)


class _Log:
    def is_read_to_its_end(self) -> bool:
        return True


def _slow(listener: socket.socket, shards: int, millis: float) -> None:
    """Serve a stream whose answers take a while."""
    rows = [
        {**_shard(number, shards), "SequenceNumberRange": {"StartingSequenceNumber": "1"}} for number in range(shards)
    ]

    class Slow(Answers):
        kinesis = {**Answers.kinesis, "ListShards": {"Shards": rows}}  # noqa: RUF012 - as the class it follows

        def do_POST(self) -> None:  # noqa: N802 - as the class it follows
            time.sleep(millis / 1000)  # noqa: TID251 - a server's answer takes this long
            super().do_POST()

    serve(listener, Slow)


def _shard(number: int, shards: int) -> dict[str, Any]:
    width = (LAST_HASH_KEY + 1) // shards
    last = LAST_HASH_KEY if number + 1 == shards else (number + 1) * width - 1
    return {
        "ShardId": f"shardId-{number:012d}",
        "HashKeyRange": {"StartingHashKey": str(number * width), "EndingHashKey": str(last)},
    }


def _begin_archive(store: RetryingStore, shards: int) -> list[str]:
    """Store the markers of the shards; return their ids."""
    first = []
    for row in (_shard(number, shards) for number in range(shards)):
        keys = row["HashKeyRange"]
        first.append(
            FirstShard(
                shard=row["ShardId"],
                starting_hash_key=keys["StartingHashKey"],
                ending_hash_key=keys["EndingHashKey"],
            )
        )
    for shard in first:
        opened = OpenedMarker(
            format=1, shard=shard.shard, sentinel="TRIM_HORIZON", starting_hash_key=shard.starting_hash_key,
            ending_hash_key=shard.ending_hash_key, parents=[], writer="w", opened_at="",
        )  # fmt: skip
        store.put_if_absent(opened_marker_key(_PREFIX, shard.shard), encode_coverage_marker(opened))
    body = encode_coverage_marker(FirstShards(format=1, shards=first, writer="w", written_at=""))
    store.put_if_absent(first_shards_key(_PREFIX), body)
    return [shard.shard for shard in first]


def run(folder: Path, endpoint: str, *, shards: int, millis: float, every_ms: int) -> dict[str, Any]:
    """Publish two boundaries; the second one counts, because a worker reads every shard's markers once."""
    store = RetryingStore(DirectoryStorage(folder), lambda: Backoff(_CLOCK, new_random(), budget_seconds=5))
    names = _begin_archive(store, shards)
    stream = KinesisStream(lambda: make_kinesis_client("us-east-1", endpoint, PLAIN), "bench", _CLOCK, new_random())
    stream.describe()
    known = KnownShards()
    runs = DaemonRuns("run")
    boundaries = Boundaries(
        known,
        Looker(stream, _CLOCK),
        RowWriter(store, _PREFIX, known, _CLOCK, worker="w", runs=runs, every_ms=every_ms),
        Publisher(store, _PREFIX, every_ms=every_ms, begin_ms=0, writer="run"),
        stream,
        _CLOCK,
        every_ms=every_ms,
        leads=lambda: True,
        runs=runs,
    )
    boundaries.daemon_started(_Log())
    now_ms = _CLOCK.now_ms()
    first_ms = (now_ms + _LEAD_MS) // every_ms * every_ms + every_ms
    for shard in names:
        boundaries.note(ProcessorEvent(event=OPENED, shard=shard, after="TRIM_HORIZON"))
        boundaries.note(
            ProcessorEvent(
                event=MARKED, shard=shard, covered_from_ms=now_ms - 2 * every_ms, covered_until_ms=now_ms - 60_000,
                continuity="proven",
            )
        )  # fmt: skip
    with JobPool(_CLOCK, threads=JOBS).running() as pool, pool.serving(boundaries):
        _await(folder, first_ms)
        cpu, second_ms = time.process_time(), first_ms + every_ms
        behind = _await(folder, second_ms)
        cpu = time.process_time() - cpu
    return {
        "shards": shards,
        "millis": millis,
        "behind_seconds": behind,
        "cpu_seconds": cpu,
        "percent": 100 * cpu / (every_ms / 1000),
    }


def _await(folder: Path, boundary_ms: int) -> float:
    """Wait for a boundary's marker; return how many seconds behind its time it is there."""
    path = folder / marker_key(_PREFIX, boundary_ms)
    until = _CLOCK.monotonic() + _PATIENCE_SECONDS + max(0, boundary_ms - _CLOCK.now_ms()) / 1000
    while not path.exists():
        if _CLOCK.monotonic() > until:
            raise TimeoutError(f"{path.name} was not published")
        _CLOCK.sleep(0.5)
    return (_CLOCK.now_ms() - boundary_ms) / 1000


def main(arguments: list[str]) -> int:
    """Print a row for each number of shards."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks boundaries", description=__doc__)
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 100, 1000])
    parser.add_argument("--millis", type=float, default=100)
    parser.add_argument("--every", type=int, default=300, help="seconds between two boundaries")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    rows = []
    for shards in options.shards:
        listener = socket.create_server(("127.0.0.1", 0))
        server = multiprocessing.Process(target=_slow, args=(listener, shards, options.millis), daemon=True)
        server.start()
        try:
            with tempfile.TemporaryDirectory() as folder:
                endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}"
                rows.append(
                    run(Path(folder), endpoint, shards=shards, millis=options.millis, every_ms=options.every * 1000)
                )
        finally:
            server.kill()
        sys.stderr.write(f"{json.dumps(rows[-1])}\n")
    publish("Boundaries of quiet shards", _COLUMNS, rows, rows, options.json)
    return 0
