"""Run our supervisor, with short waits, on `daemon_program.py`: `python supervise.py FOLDER BEHAVIOUR...`.

Markers of skipped batches go to the bucket TEST_BUCKET at TEST_S3, if these are given. With TEST_METRICS the last
line tells the counters. With TEST_LEASE, a lease of ours is given to another worker where the supervisor gives leases
away. With TEST_FORKS, a fork server runs beside, with the settings in that file.
"""

import os
import sys
from pathlib import Path

import structlog

from consumer.archived.skipped import SkippedBatches
from consumer.daemon.fork_server import ForkPlan
from consumer.daemon.restart_policy import RestartLimits
from consumer.daemon.stream_run import StreamPlan
from consumer.daemon.supervisor import DaemonPlan, Supervisor
from consumer.leases.hand_over import Leaving
from consumer.leases.rows import Lease
from consumer.monitoring.labels import StreamLabels
from consumer.monitoring.watch import Watch
from minutebook.aws.access import PLAIN
from minutebook.aws.clients import make_s3_client
from minutebook.clock import SystemClock, new_id, new_random
from minutebook.logs import configure_logging
from minutebook.retry import Backoff
from minutebook.store.retrying import RetryingStore
from minutebook.store.s3 import S3Store
from tests.fakes.lease_table import MemoryLeaseTable
from tests.fakes.memory_store import MemoryBucket, MemoryStore

PROGRAM = Path(__file__).with_name("daemon_program.py")


def main(arguments: list[str]) -> int:
    """Return the supervisor's exit code."""
    configure_logging("info")
    clock = SystemClock()
    skipped = _skipped_batches(clock)
    plan = DaemonPlan(
        command=[sys.executable, str(PROGRAM), *arguments],
        environment={**os.environ, "MINUTEBOOK_PROPERTIES": "x.properties"},
        forks=_forks() if "TEST_FORKS" in os.environ else None,
        grace_seconds=float(os.environ.get("TEST_GRACE_SECONDS", "30")),
        stream=StreamPlan(
            before_start=[skipped.store, lambda: structlog.get_logger().info("before_start")],
            after_end=[skipped.store],
            on_skipped=lambda event: skipped.note(event.shard, event.error),
            on_out_of_memory=lambda: structlog.get_logger().info("ran_out_of_memory"),
            leaving=_leaving(clock) if "TEST_LEASE" in os.environ else None,
        ),
    )
    limits = RestartLimits(second_wait_seconds=float(os.environ.get("TEST_WAIT_SECONDS", "0.01")), crashes_in_a_row=3)
    watch = Watch(clock, labels=StreamLabels("a", "s"))
    code = Supervisor(plan, clock, limits=limits, watch=watch).run()
    if "TEST_METRICS" in os.environ and watch.metrics is not None:
        structlog.get_logger().info("watched", totals=watch.metrics.totals(), verdict=watch.verdict().sentence)
    return code


def _forks() -> ForkPlan:
    properties = Path(os.environ["TEST_FORKS"])
    environment = {name: text for name, text in os.environ.items() if not name.startswith("MINUTEBOOK_")}
    return ForkPlan(properties.with_suffix(".socket"), {"": properties}, environment)


def _leaving(clock: SystemClock) -> Leaving:
    table = MemoryLeaseTable(Lease("shardId-000000000007", "TRIM_HORIZON", owner="w1"))
    table.reported = {"w1": clock.now_ms() // 1000, "w2": clock.now_ms() // 1000}
    return Leaving(table, "w1", clock)


def _skipped_batches(clock: SystemClock) -> SkippedBatches:
    store: S3Store | MemoryStore = MemoryStore(MemoryBucket())
    if "TEST_S3" in os.environ:
        store = S3Store(make_s3_client("us-east-1", os.environ["TEST_S3"], PLAIN), os.environ["TEST_BUCKET"])
    retrying = RetryingStore(store, lambda: Backoff(clock, new_random(), budget_seconds=0.5))
    return SkippedBatches(retrying, "raw/", clock, new_id)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
