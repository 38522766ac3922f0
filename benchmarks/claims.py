"""Mode `claims`: the processor's own CPU and memory per record, in batches and, as a peer, one by one.

botocore serialises, signs and parses as always. Two services stand behind it: one answers within the process, on the
spot, so that only our side is counted; the other is a server on loopback in a process of its own, whose CPU is not
counted. Neither stores anything, and neither waits as a network does. Each row is measured in a process of its own.

    python -m benchmarks claims [--runs 20] [--profile] [--json FILE]
"""

import argparse
import cProfile
import gc
import json
import os
import platform
import pstats
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Final, NamedTuple

import botocore
from botocore.awsrequest import AWSRequest, AWSResponse

from benchmarks.dynamodb_answers import answer, serving
from consumer.dedupe.claim_batches import Answer, StatementBatch, Undecided
from consumer.dedupe.deduplicator import ClaimMap, Claims
from consumer.dedupe.table import CLAIM_CONNECTIONS, DynamoDedupeTable, make_claims_client
from demo.embedded import ACCESS_KEY, REGION, SECRET_KEY
from minutebook.aws.access import PLAIN
from minutebook.aws.clients import make_kinesis_client, make_s3_client
from minutebook.clock import SystemClock
from minutebook.format.payload import PayloadPath
from minutebook.format.record import Record
from minutebook.logs import configure_logging
from minutebook.retry import Backoff

SLICE: Final = 500
"""As many records as the processor judges at once."""
_NOWHERE: Final = "http://127.0.0.1:9"


class Way(NamedTuple):
    """What is measured. `copies` is the share of records whose event somebody has claimed."""

    name: str
    batches: bool
    server: bool
    copies: float


class Cost(NamedTuple):
    """Medians of the runs; `added_mib` is what client and threads add to a process that has S3 and Kinesis."""

    cpu_us: float
    records_per_second: float
    added_mib: float


WAYS: Final = tuple(
    Way(f"{name}{(copies and f', {copies:.0%} copies') or ''}", batches, server, copies)
    for server in (False, True)
    for name, batches, copies in (
        ("one by one", False, 0.0),
        ("25 in a request", True, 0.0),
        ("25 in a request", True, 0.02),
        ("25 in a request", True, 1.0),
    )
)


class _OneByOne(DynamoDedupeTable):
    """The peer: one conditional PutItem for each record, as it was before there were batches."""

    def claim_batch(self, batch: StatementBatch) -> Sequence[Answer]:
        """Send nothing."""
        return [Undecided.OTHERWISE] * len(batch.claims)


class _Body:
    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, *_: object, **__: object) -> list[bytes]:
        return [self._body]


def _on_the_spot(request: AWSRequest, **_: object) -> AWSResponse:
    status, body = answer(request.body)
    return AWSResponse(request.url, status, {"content-type": "application/x-amz-json-1.0"}, _Body(body))


def _claims(way: Way, endpoint: str, map_claims: ClaimMap) -> Claims:
    client = make_claims_client(REGION, endpoint, PLAIN)
    if not way.server:
        client.meta.events.register("before-send.dynamodb", _on_the_spot)
    clock, rng = SystemClock(), random.Random(1)  # noqa: S311 - jitter
    return Claims(
        (DynamoDedupeTable if way.batches else _OneByOne)(client, "bench"),
        PayloadPath("event.id"),
        "bench/shardId-000000000000",
        clock,
        lambda: Backoff(clock, rng, budget_seconds=10),
        lifetime_seconds=lambda: 172_800,
        map_claims=map_claims,
    )


def _slices(way: Way, runs: int) -> Iterator[list[Record]]:
    for run in range(runs):
        yield [
            Record(
                str(49_590_338_271_490_256_608_559_692_538_361_571_095_921_575_989_136_588_898 + run * SLICE + n),
                0,
                "p",
                0,
                json.dumps({"event": {"id": f"{run}-{n}{'-copy' if n < way.copies * SLICE else ''}"}}).encode(),
            )
            for n in range(SLICE)
        ]


def _measure(way: Way, endpoint: str, runs: int) -> Cost:
    _prepare()
    others = (make_s3_client(REGION, _NOWHERE, PLAIN), make_kinesis_client(REGION, _NOWHERE, PLAIN))
    before = _own_mib()
    claims = _claims(way, endpoint, ThreadPoolExecutor(CLAIM_CONNECTIONS).map)
    costs, seconds = [], []
    for records in _slices(way, runs + 1):
        cpu, wall = time.process_time(), time.perf_counter()
        claims.judge(records)
        costs.append((time.process_time() - cpu) / SLICE)
        seconds.append((time.perf_counter() - wall) / SLICE)
    added = _own_mib() - before
    del others
    # The first run imports and warms up.
    return Cost(statistics.median(costs[1:]) * 1e6, 1 / statistics.median(seconds[1:]), added)


def _prepare() -> None:
    configure_logging("error")
    os.environ |= {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}


def _own_mib() -> float:
    gc.collect()
    rows = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(row.split()[1]) for row in rows if row.startswith("Private_")) / 1024


def _profile(way: Way, runs: int) -> None:
    _prepare()
    claims = _claims(way, _NOWHERE, map)
    first, *slices = _slices(way, runs + 1)
    claims.judge(first)
    with cProfile.Profile() as profile:
        for records in slices:
            claims.judge(records)
    pstats.Stats(profile).sort_stats("cumulative").print_stats(45)


def main(argv: list[str]) -> int:
    """Print the table, or the profile."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks claims", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="slices of 500 records a row (default 20)")
    parser.add_argument("--profile", action="store_true", help="where the CPU of batches goes, by function")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there, too")
    options = parser.parse_args(argv)
    if options.profile:
        _profile(next(way for way in WAYS if way.batches), options.runs)
        return 0
    with serving() as endpoint, get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        costs = [pool.apply(_measure, (way, endpoint if way.server else _NOWHERE, options.runs)) for way in WAYS]
    sys.stdout.write("| claims | service | CPU us a record | records/s a core | records/s seen | MiB added |\n")
    sys.stdout.write("|---|---|---|---|---|---|\n")
    for way, cost in zip(WAYS, costs, strict=True):
        service = "loopback" if way.server else "on the spot"
        sys.stdout.write(
            f"| {way.name} | {service} | {cost.cpu_us:.0f} | {1e6 / cost.cpu_us:,.0f} "
            f"| {cost.records_per_second:,.0f} | {cost.added_mib:.1f} |\n"
        )
    if options.json:
        rows = [{**way._asdict(), **cost._asdict()} for way, cost in zip(WAYS, costs, strict=True)]
        machine = {"python": platform.python_version(), "botocore": botocore.__version__, "runs": options.runs}
        options.json.write_text(json.dumps({**machine, "rows": rows}, indent=1) + "\n")
    return 0
