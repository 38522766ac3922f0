"""What a shard-minute costs at the HTTP level, counted by botocore's own hook in front of each attempt."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from minutebook.clock import SystemClock
from tests.fakes.clock import ManualClock
from tests.fakes.daemon_double import DaemonDouble
from tests.integration.archive_site import Site

_FIRST_MINUTES = 7
"""A processor LISTs the minutes that began within five minutes after its start."""
_MINUTES = 30


class Requests:
    """Counts the requests of clients by operation."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def watch(self, client: Any) -> None:  # noqa: ANN401 - any boto3 client
        """Count what this client sends."""
        client.meta.events.register("before-send.*.*", self._count)

    def _count(self, event_name: str, **_: object) -> None:
        self.counts[event_name.rsplit(".", 1)[1]] += 1


class Shift:
    """A processor in this process, on real servers, with a clock that the test moves."""

    def __init__(self, site: Site) -> None:
        self.requests = Requests()
        self.clock = ManualClock(SystemClock().now_ms())
        self.requests.watch(site.s3)
        self.requests.watch(site.kinesis)
        self._site = site
        self._daemon = DaemonDouble(site.lease, site.processor_here(self.clock))
        self._daemon.start()

    def work_minutes(self, count: int) -> Iterator[Counter[str]]:
        """Let minutes pass; yield what each cost: records every ten seconds, empty calls between."""
        for _ in range(count):
            self.requests.counts.clear()
            for _ in range(6):
                for number in range(5):
                    self._site.shard.put(b"record %d" % number, self.clock.now_ms())
                self._daemon.deliver()
                self.clock.advance(5)
                self._daemon.tick()
                self.clock.advance(5)
            yield +self.requests.counts

    def stop(self) -> None:
        """Stop in order."""
        self._daemon.request_shutdown()


@pytest.fixture
def shift(site: Site) -> Shift:
    """Return a processor that has its first minutes behind it."""
    shift = Shift(site)
    assert sum((sum(cost.values()) for cost in shift.work_minutes(_FIRST_MINUTES)), 0) > _FIRST_MINUTES
    return shift


def test_a_steady_shard_minute_costs_exactly_one_put(shift: Shift) -> None:
    """No LIST, no HEAD, nothing to Kinesis: thirty minutes, thirty times one PUT."""
    costs = list(shift.work_minutes(_MINUTES))
    assert costs == [Counter({"PutObject": 1})] * _MINUTES


def test_what_was_counted_is_archived(shift: Shift, site: Site) -> None:
    """The cheap minutes are whole: every record once, one object per minute."""
    list(shift.work_minutes(5))
    shift.stop()
    site.assert_exactly_once()
    keys = [segment.metadata.minute for segment in site.segments()]
    assert len(keys) == len(set(keys))
