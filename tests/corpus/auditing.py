"""Auditing a corpus in this process: the real job, without Spark."""

import itertools
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING

from compaction.inventory.checkpoints import Checkpoints
from compaction.job.context import Engine, JobContext, Shuffle
from compaction.local.shuffle import ShuffledHere, shuffled
from compaction.local.workers import each_here
from compaction.parquet.plan import TaskSizes
from compaction.tasks.task import Order, TaskResult, run
from compaction.verdict.findings import Finding
from minutebook.clock import Clock
from minutebook.format.position import Position
from minutebook.owner import parse_stream_arn
from minutebook.retry import Backoff
from minutebook.store.places import StorePrefix, open_storage
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address
from tests.corpus.model import PREFIX, STREAM_ARN, Expected, Seen
from tests.fakes.clock import ManualClock

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

_NUMBERS = itertools.count(1)
OWNER = parse_stream_arn(STREAM_ARN)
assert OWNER is not None


def in_process(orders: Sequence[Order]) -> list[TaskResult]:
    """Run tasks one after the other."""
    return [run(order) for order in orders]


def shuffle_in_process(orders: Sequence[Order]) -> ShuffledHere:
    """Run tasks that ask for ids."""
    return shuffled(lambda _phase, _total: each_here, orders)


def job_context(
    address: Address | Path,
    checkpoints: Mapping[str, Position] | None = None,
    *,
    clock: Clock | None = None,
    engine: Engine = in_process,
    shuffle: Shuffle = shuffle_in_process,
) -> JobContext:
    """Return the context of a run on an archive below `PREFIX`."""
    place = StorePrefix(Address(None, str(address)) if isinstance(address, Path) else address, PREFIX)
    used = clock or ManualClock()
    return JobContext(
        archive=RetryingStorage(
            open_storage(place.address), lambda: Backoff(used, random.Random(1), budget_seconds=10)
        ),
        place=place,
        clock=used,
        new_id=lambda: f"run-{next(_NUMBERS)}",
        engine=engine,
        checkpoints=lambda: Checkpoints(checkpoints or {}),
        version="test",
        owner=OWNER,
        shuffle=shuffle,
        sizes=TaskSizes(shards=2),
    )


def answer_later(client: "KinesisClient") -> None:
    """Let Kinesis tell a time that is two minutes later: what arrived a moment ago is not proven yet."""
    client.meta.events.register("after-call.kinesis", _date_later, unique_id="later")


def _date_later(parsed: dict[str, dict[str, dict[str, str]]], **_: object) -> None:
    headers = parsed.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    if "date" in headers:
        then = parsedate_to_datetime(headers["date"]) + timedelta(minutes=2)
        headers["date"] = format_datetime(then.astimezone(UTC), usegmt=True)


def compare(found: Sequence[Finding], expected: Sequence[Expected], level: Seen) -> None:
    """Assert that exactly the expected findings were reported: no more, no less, each with its place."""
    wanted = [finding for finding in expected if level in finding.seen]
    left = list(found)
    for finding in wanted:
        match = next((seen for seen in left if _matches(seen, finding)), None)
        assert match is not None, f"not reported: {finding}\nreported: {[_brief(seen) for seen in left]}"
        left.remove(match)
    assert not left, f"reported without reason: {[_brief(seen) for seen in left]}"


def _matches(seen: Finding, wanted: Expected) -> bool:
    return (seen.code, seen.shard, seen.severity, seen.count) == (
        wanted.code.value,
        wanted.shard,
        wanted.severity,
        wanted.times,
    ) and set(wanted.keys) <= set(seen.keys)


def _brief(seen: Finding) -> tuple[object, ...]:
    return seen.code, seen.severity, seen.shard, seen.minute, seen.count, seen.keys, seen.message
