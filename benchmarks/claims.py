"""Mode `claims`: the processor's own CPU per record, without a server behind the requests.

botocore serialises, signs and parses as always; its transport is answered on the spot with DynamoDB's empty answer.
What is left out is the network and the service, which wait in parallel (32 requests in flight).
"""

import argparse
import json
import os
import random
import statistics
import sys
import time

from botocore.awsrequest import AWSRequest, AWSResponse

from archive.access import PLAIN
from archive.clock import SystemClock
from archive.format.payload import PayloadPath
from archive.format.record import Record
from archive.logs import configure_logging
from archive.retry import Backoff
from consumer.dedupe.deduplicator import Claims
from consumer.dedupe.table import DynamoDedupeTable, make_claims_client
from demo.embedded import ACCESS_KEY, REGION, SECRET_KEY

STRETCH = 1000


class _Raw:
    """The body of DynamoDB's answer to an accepted PutItem."""

    def stream(self, *_: object, **__: object) -> list[bytes]:
        return [b"{}"]


def _answer(request: AWSRequest, **_: object) -> AWSResponse:
    headers = {"content-type": "application/x-amz-json-1.0", "x-amzn-requestid": "0"}
    return AWSResponse(request.url, 200, headers, _Raw())


def main(argv: list[str]) -> int:
    """Print CPU microseconds per record and what one core could claim in a second."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks claims", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="stretches of 1,000 records (default 5)")
    options = parser.parse_args(argv)
    configure_logging("warning")
    os.environ.setdefault("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    client = make_claims_client(REGION, "http://127.0.0.1:9", PLAIN)
    client.meta.events.register("before-send.dynamodb.PutItem", _answer)
    clock, rng = SystemClock(), random.Random(1)  # noqa: S311 - jitter
    claims = Claims(
        DynamoDedupeTable(client, "bench"),
        PayloadPath("event.id"),
        "bench/shardId-000000000000",
        clock,
        lambda: Backoff(clock, rng, budget_seconds=10),
        lifetime_seconds=lambda: 172_800,
    )
    costs = []
    for run in range(options.runs + 1):
        records = [
            Record(str(run * STRETCH + n), 0, "p", 0, json.dumps({"event": {"id": f"{run}-{n}"}}).encode())
            for n in range(STRETCH)
        ]
        began = time.process_time()
        claims.judge(records)
        costs.append((time.process_time() - began) / STRETCH)
    cost = statistics.median(costs[1:])  # the first run imports and warms up
    sys.stdout.write(f"claims: {cost * 1e6:.0f} us of CPU per record; one core claims {1 / cost:,.0f} records/s\n")
    return 0
