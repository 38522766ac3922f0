"""Processor processes on real S3 semantics: killed at the worst moments, and two on one shard at once."""

import random
import signal
import threading
from typing import Any, Literal

import pytest

from tests.fakes.daemon_double import Lease
from tests.integration.archive_site import Site
from tests.integration.process_daemon import ProcessDaemon, ProcessorEndedError
from tests.witness.waiting import PATIENCE_SECONDS


def _killed_at_checkpoint(site: Site, side: Literal["before", "after"]) -> None:
    """Let a processor be killed when it has stored its first segment, on either side of the checkpoint."""
    site.put(5, 0)
    site.put(5, 1)
    with site.processor() as processor:
        processor.start()
        processor.kill_at_checkpoint = side
        with pytest.raises(ProcessorEndedError):
            processor.deliver()


def test_a_kill_between_put_and_checkpoint_costs_nothing(site: Site) -> None:
    """The segment is stored and the checkpoint is not: the records come again and change nothing."""
    _killed_at_checkpoint(site, "before")
    before = site.objects()
    assert (site.lease.checkpoint, len(site.segments())) == ("TRIM_HORIZON", 1)
    site.archive_the_rest()
    assert before.items() <= site.objects().items()
    site.assert_exactly_once()


def test_a_kill_after_the_checkpoint_costs_nothing(site: Site) -> None:
    """The lease row is written and its answer is lost with the process."""
    _killed_at_checkpoint(site, "after")
    assert site.lease.checkpoint == site.shard.everything[4].position
    site.archive_the_rest()
    site.assert_exactly_once()


def test_the_next_processor_may_cut_differently(site: Site) -> None:
    """Small segments before the kill, large ones after it: no position is stored twice."""
    site.put(40, 0)
    site.put(40, 1)
    with site.processor(maxSegmentBytes=300, checkpointIntervalSeconds=3600) as processor:
        processor.start()
        processor.deliver(70)
        assert processor.kill() == -signal.SIGKILL
    assert site.lease.checkpoint == "TRIM_HORIZON"
    assert len(site.segments()) > 5
    site.archive_the_rest()
    site.assert_exactly_once()


@pytest.mark.parametrize("kill_after", [1, 7, 20, 33])
def test_a_kill_within_an_aggregate_repeats_no_user_record(site: Site, kill_after: int) -> None:
    """The checkpoint lies inside an aggregate; the rest of it, and only the rest, comes again."""
    payloads = [b"%d" % number * 20 for number in range(40)]
    site.shard.put_aggregate(payloads, site.minutes[0])
    site.put(3, 1)
    with site.processor(maxSegmentBytes=250) as processor:
        processor.start()
        processor.deliver(kill_after)
        processor.kill()
    stored = site.segments()
    assert site.lease.checkpoint == (stored[-1].metadata.last if stored else "TRIM_HORIZON")
    site.archive_the_rest()
    site.assert_exactly_once()


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"maxSegmentBytes": 700}, {"maxSegmentBytes": 2300}),
        ({"maxSegmentBytes": 450}, {"flushSeconds": 0.1}),
        ({}, {"maxSegmentBytes": 1000, "flushSeconds": 0.2}),
    ],
    ids=["two sizes", "size and time", "minute and both"],
)
def test_two_processors_on_one_shard_at_once(site: Site, ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Neither knows of the other, and they cut differently: every record is archived once, in one chain."""
    for minute in range(3):
        site.put(120, minute)
    leases = [Lease(site.shard), Lease(site.shard)]
    with (
        site.processor(lease=leases[0], checkpointIntervalSeconds=3600, **ours) as one,
        site.processor(lease=leases[1], checkpointIntervalSeconds=3600, **theirs) as two,
    ):
        _race([one, two])
        lost = [len(processor.events.all("slot_lost")) for processor in (one, two)]
    site.assert_exactly_once()
    assert sum(lost) > 0, "they never met: this proves nothing"


def _race(processors: list[ProcessDaemon]) -> None:
    """Deliver everything to all of them at the same time, in batches of random sizes, then stop them in order."""
    failures: list[Exception] = []
    begin = threading.Barrier(len(processors))

    def serve(processor: ProcessDaemon, seed: int) -> None:
        rng = random.Random(seed)
        try:
            processor.start()
            begin.wait(PATIENCE_SECONDS)
            while processor.waiting():
                processor.deliver(rng.randint(1, 9))
            processor.request_shutdown()
            assert processor.close() == 0
        except Exception as exc:  # noqa: BLE001 - raised below, in the test's thread
            failures.append(exc)

    threads = [threading.Thread(target=serve, args=(processor, seed)) for seed, processor in enumerate(processors)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
