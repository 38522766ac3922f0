"""The whole path: Kinesis' answers through the real daemon and the processors into S3, in CPU seconds per GB.

The stream is `kinesis.cjs`, which answers KCL from memory in CBOR; S3 and DynamoDB are the embedded ones. Counted is
what `minutebook consume` and all below it have used once every record is archived and checkpointed: the JVM, the
processors and the supervisor apart. Two sizes are run: their difference is what a further GB costs, without a start.

With `--bento PROGRAM` (go install github.com/warpstreamlabs/bento/cmd/bento@v1.20.0) Bento takes the same streams in
turns, into a file instead of S3, which is kinder to it.

    python -m benchmarks whole_path [--megabytes 100 600] [--payload 1000] [--max-records 10000] [--java=-Xmx512m]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks import bento
from benchmarks.figures import Column, median, publish
from benchmarks.processes import Sampler, cpu_by_kind, memory_by_kind
from demo.bootstrap import ensure_java, ensure_node
from demo.embedded import REGION, EmbeddedAws, free_ports
from minutebook.clock import SystemClock
from tests.e2e.worker import Worker
from tests.witness.waiting import wait_until

_CLOCK: Final = SystemClock()
_SCRIPT: Final = Path(__file__).with_name("kinesis.cjs")
_BYTES_A_SECOND: Final = 1_000_000
"""What a shard of Kinesis takes: a minute holds 60 MB."""
_KINDS: Final = ("java", "processors", "supervisor")


@contextmanager
def stream(shards: int, megabytes: float, payload: int) -> Iterator[tuple[str, list[str]]]:
    """Run a stream; yields its endpoint and the last sequence number of each shard. `megabytes` is a shard's."""
    (port,) = free_ports(1)
    begin = _CLOCK.now_ms() - 7_200_000
    words = [port, shards, megabytes, payload, begin, _BYTES_A_SECOND]
    server = subprocess.Popen(  # noqa: S603 - our own script
        [str(ensure_node().binary), str(_SCRIPT), *map(str, words)], stdout=subprocess.PIPE
    )
    try:
        if server.stdout is None:  # pragma: no cover - PIPE was asked for
            raise AssertionError("no pipe")
        yield f"http://127.0.0.1:{port}", json.loads(server.stdout.readline())
    finally:
        server.kill()
        server.wait()


def properties(aws: EmbeddedAws, kinesis: str, name: str, more: dict[str, str]) -> dict[str, str]:
    """Return the settings of an application of its own on the stream: production's, but for what KCL waits for."""
    return {
        "streamName": "bench",
        "applicationName": name,
        "regionName": REGION,
        "workerId": "w1",
        "kinesisEndpoint": kinesis,
        "dynamoDBEndpoint": aws.dynamodb_endpoint,
        "metricsLevel": "NONE",
        "disableWorkerMetrics": "true",
        "minutebook.bucket": name,
        "minutebook.prefix": "raw/",
        "minutebook.s3Endpoint": aws.s3_endpoint,
        "minutebook.logLevel": "debug",
        **more,
    }


@contextmanager
def consume(aws: EmbeddedAws, folder: Path, kinesis: str, *, java: str = "", **more: str) -> Iterator[Worker]:
    """Run `minutebook consume` on a fresh application."""
    name = f"b{_CLOCK.now_ms()}"
    aws.s3_client().create_bucket(Bucket=name)
    file = folder / f"{name}.properties"
    values = properties(aws, kinesis, name, more)
    file.write_text("".join(f"{key} = {value}\n" for key, value in values.items()))
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "JAVA_HOME", "TMPDIR") if key in os.environ}
    environment = {**kept, **aws.environment, **({"JAVA_TOOL_OPTIONS": java} if java else {})}
    command = [str(Path(sys.executable).parent / "minutebook"), "consume", str(file)]
    command += ["--state-dir", str(folder / f"state-{name}")]
    with Worker(command, environment, folder / f"{name}.log") as worker:
        yield worker


class Peak(Sampler):
    """The memory of each kind at its highest, sampled."""

    def __init__(self, pid: int) -> None:
        self.mib: dict[str, float] = {}
        super().__init__(pid, every_seconds=0.5)

    def stop(self) -> dict[str, float]:
        """Return what was seen."""
        self.finish()
        return self.mib

    def sample(self) -> None:
        """Take the memory of each kind."""
        for kind, mib in memory_by_kind(self.root).items():
            self.mib[kind] = max(mib, self.mib.get(kind, 0.0))


def run(
    aws: EmbeddedAws, folder: Path, *, shards: int, megabytes: float, payload: int, max_records: int, java: str
) -> dict[str, Any]:
    """Archive a stream once; `megabytes` are those of all shards."""
    with stream(shards, megabytes / shards, payload) as (kinesis, last):
        began = _CLOCK.monotonic()
        with consume(aws, folder, kinesis, java=java, maxRecords=str(max_records)) as worker:
            peak = Peak(worker.pid)
            worker.events.wait("shard_opened")
            opened, opened_cpu = _CLOCK.monotonic() - began, cpu_by_kind(worker.pid)
            for number, sequence in enumerate(last):
                shard = f"shardId-{number:012d}"
                worker.events.wait("checkpoint_written", shard=shard, position=f"{sequence}:0")
            seconds, cpu = _CLOCK.monotonic() - began, cpu_by_kind(worker.pid)
            memory = peak.stop()
            worker.terminate()
            wait_until(lambda: not worker.daemons(), "the daemon has ended")
    return {
        "megabytes": megabytes, "payload": payload, "seconds": seconds, "opened": opened,
        "cpu": cpu, "opened_cpu": opened_cpu, "memory": memory,
    }  # fmt: skip


def main(arguments: list[str]) -> int:
    """Print a row for each size, and one for what a further GB costs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks whole_path", description=__doc__)
    parser.add_argument("--megabytes", type=float, nargs=2, default=[100, 600], help="payload, smaller size first")
    parser.add_argument("--payload", type=int, default=1000, help="bytes of a record (default 1000)")
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--max-records", type=int, default=10_000)
    parser.add_argument("--java", default="", help="options for the JVM")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--bento", type=Path, help="this program as a peer")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    os.environ["PATH"] = f"{ensure_java().parent}:{os.environ['PATH']}"
    raw, peers = [], []
    with tempfile.TemporaryDirectory() as folder, EmbeddedAws(Path(folder) / "aws") as aws:
        for _ in range(options.runs):
            for megabytes in options.megabytes:
                raw.append(
                    run(
                        aws, Path(folder), shards=options.shards, megabytes=megabytes, payload=options.payload,
                        max_records=options.max_records, java=options.java,
                    )
                )  # fmt: skip
                sys.stderr.write(json.dumps(raw[-1]) + "\n")
                if options.bento is not None:
                    with stream(options.shards, megabytes / options.shards, options.payload) as (kinesis, _):
                        peers.append(bento.run(options.bento, aws, Path(folder), kinesis, megabytes=megabytes))
                    sys.stderr.write(json.dumps(peers[-1]) + "\n")
    rows = [*_rows(raw, options.megabytes), *_peer_rows(peers, options.megabytes)]
    publish("Whole path", _COLUMNS, rows, {"minutebook": raw, "bento": peers}, options.json)
    return 0


_COLUMNS: Final = (
    Column("what", "what"),
    Column("CPU s, all", "all", ".1f"),
    *(Column(f"CPU s, {kind}", kind, ".1f") for kind in _KINDS),
    Column("seconds", "seconds", ".0f"),
    *(Column(f"peak MiB, {kind}", f"{kind}_mib", ".0f") for kind in _KINDS),
)


def _rows(raw: Sequence[dict[str, Any]], sizes: Sequence[float]) -> list[dict[str, Any]]:
    rows = []
    for size in sizes:
        runs = [one for one in raw if one["megabytes"] == size]
        row: dict[str, Any] = {kind: median([one["cpu"].get(kind, 0) for one in runs]) for kind in _KINDS}
        row |= {f"{kind}_mib": median([one["memory"].get(kind, 0) for one in runs]) for kind in _KINDS}
        row |= {"what": f"{size:g} MB", "seconds": median([one["seconds"] for one in runs])}
        row["all"] = sum(row[kind] for kind in _KINDS)
        rows.append(row)
    small, large = rows  # of one machine at one time: what is the same in both is the start
    gigabytes = (sizes[1] - sizes[0]) / 1000
    each = {kind: (large[kind] - small[kind]) / gigabytes for kind in (*_KINDS, "all")}
    return [*rows, {"what": "each further GB", **each}]


def _peer_rows(raw: Sequence[dict[str, Any]], sizes: Sequence[float]) -> list[dict[str, Any]]:
    if not raw:
        return []
    rows: list[dict[str, Any]] = []
    for size in sizes:
        runs = [one for one in raw if one["megabytes"] == size]
        row = {field: median([one[field] for one in runs]) for field in ("cpu", "seconds")}
        rows.append({"what": f"Bento, {size:g} MB", "all": row["cpu"], "seconds": row["seconds"]})
    each = (rows[1]["all"] - rows[0]["all"]) / (sizes[1] - sizes[0]) * 1000
    return [*rows, {"what": "Bento, each further GB", "all": each}]
