"""A night on S3 in bad weather: a share of all requests fails, and the published rows are compared.

The whole nightly job on `local[2]` and a real S3 server. A proxy between them answers 500 and 503 before a request is
carried out and after it, delays, cuts connections, and tears answers in their headers or bodies. The day has segments
out of order and segments that overlap, so it is read again and merged, and files of several parts. Each published row
is compared with the record that was archived. Then a bucket refuses a file for good: how soon does the job end?

    python -m benchmarks weather [--rates 0.01 0.1] [--seeds 3]
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from archive.clock import SystemClock
from archive.errors import StoreRefused
from archive.format.day import Day
from archive.format.position import Position
from archive.published.generation import DayFolder
from archive.store.places import StorePrefix, open_storage
from archive.store.storage import Address, Storage
from compaction.job.context import AuditOptions
from compaction.publish.publisher import Publisher
from compaction.rewrite import CompactOptions, compact_day
from compaction.spark.engine import SparkEngine
from demo.bootstrap import ensure_java
from demo.embedded import ACCESS_KEY, REGION, SECRET_KEY, EmbeddedAws
from tests.chaos.faults import CALM, Fault, even
from tests.chaos.proxy import FaultProxy
from tests.chaos.upstream import S3
from tests.corpus.auditing import job_context
from tests.corpus.chain_defects import overlapping_segments
from tests.corpus.model import Corpus, Shape
from tests.corpus.object_defects import swapped_lines
from tests.corpus.reading import published_rows
from tests.fakes.failing_s3 import FailingS3, WriteFault, serve

DAY: Final = Day.parse("2026-11-20")
SHAPE: Final = Shape(shards=6, minutes=tuple(range(-1, 120)), records=30, payload_bytes=4_000)
_FAULTS: Final = frozenset(Fault) - {Fault.CONFLICT}
_LONGEST_DELAY_SECONDS: Final = 2.0
Row = tuple[str, Position, bytes]


def main(arguments: list[str]) -> int:
    """Run the nights; 1 when one of them published another day than the archive holds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks weather", description=__doc__)
    parser.add_argument("--rates", type=float, nargs="*", default=[0.01, 0.1])
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="minutebook-weather-")))
        _settle_environment()
        aws = stack.enter_context(EmbeddedAws(folder))
        engine = stack.enter_context(SparkEngine("local[2]"))
        bad = 0
        for rate in [0.0, *options.rates]:
            for seed in range(options.seeds if rate else 1):
                bad += not _night(aws, engine, rate, seed)
        _refused(engine)
    return 1 if bad else 0


def _settle_environment() -> None:
    java = ensure_java()
    os.environ |= {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_EC2_METADATA_DISABLED": "true",
        "JAVA_HOME": str(java.parents[1]),
    }


def _night(aws: EmbeddedAws, engine: SparkEngine, rate: float, seed: int) -> bool:
    bucket = f"night-{int(rate * 1000)}-{seed}"
    aws.s3_client().create_bucket(Bucket=bucket)
    storage = open_storage(Address(bucket, "", REGION, aws.s3_endpoint))
    corpus, expected = _archive(storage)
    proxy = FaultProxy(aws.s3_endpoint, S3, random.Random(seed), longest_delay_seconds=_LONGEST_DELAY_SECONDS)  # noqa: S311 - a seed
    with proxy:
        proxy.set_rates(even(rate, _FAULTS) if rate else CALM)
        address = Address(bucket, "", REGION, proxy.endpoint)
        begin = time.perf_counter()
        verdict = _compact(engine, corpus, address)
        seconds = time.perf_counter() - begin
    pointer, manifest = Publisher(
        job_context(Address(bucket, "", REGION, aws.s3_endpoint)).archive, DayFolder("tables/", DAY)
    ).published()
    if pointer is None or manifest is None:
        sys.stdout.write(f"{rate:.0%} seed {seed}: nothing is published\n")
        return False
    found = list(published_rows(storage, manifest))
    is_right = found == sorted(expected)
    faults = sum(proxy.injected.values())
    sys.stdout.write(
        f"{rate:.0%} seed {seed}: {proxy.requests} requests, {faults} faults {_brief(proxy.injected)}, {verdict}, "
        f"{len(found)} rows {'as archived' if is_right else f'WRONG, of {len(expected)}'}, {seconds:.1f} s\n"
    )
    sys.stdout.flush()
    return is_right


def _brief(injected: Counter[Fault]) -> str:
    return "(" + ", ".join(f"{count} {fault.value}" for fault, count in sorted(injected.items())) + ")"


def _archive(storage: Storage) -> tuple[Corpus, list[Row]]:
    """Write a day in which one shard has a segment out of order, and one has overlapping ones."""
    corpus = Corpus(DAY, shape=SHAPE)
    expected = [
        (shard.shard_id, record.position, record.data)
        for shard in corpus.shards
        for index in shard.in_day(DAY)
        for record in shard.segments[index].records
    ]
    for defect, number in ((swapped_lines, 0), (overlapping_segments, 2)):
        shard = corpus.shards[number]
        for index in (5, 50, 90):
            defect(corpus, shard, index)
    corpus.write(storage)
    return corpus, expected


def _compact(engine: SparkEngine, corpus: Corpus, address: Address) -> str:
    context = job_context(address, corpus.checkpoints, clock=SystemClock(), engine=engine)
    out = StorePrefix(address, "tables/")
    options = CompactOptions(AuditOptions(), out, accept_defects=True)
    return compact_day(context, context.open(address), DAY, options).verdict


def _refused(engine: SparkEngine) -> None:
    """Let a bucket refuse the first file of the day."""
    with _small_bucket() as bucket:
        address = Address("bucket", "", REGION, bucket.endpoint)
        corpus = Corpus(DAY)
        corpus.write(open_storage(address))
        bucket.fail(lambda _number: WriteFault.DENIED)
        begin = time.perf_counter()
        try:
            _compact(engine, corpus, address)
        except StoreRefused as exc:
            sys.stdout.write(f"AccessDenied: ended after {time.perf_counter() - begin:.1f} s: {exc}\n")


@contextmanager
def _small_bucket() -> Iterator[FailingS3]:
    with serve(FailingS3(counted="tables/")) as bucket:
        yield bucket
