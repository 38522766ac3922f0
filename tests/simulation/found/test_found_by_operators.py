"""What `minutebook restore` took for something else, found by the simulation of the commands."""

from io import StringIO

import pytest

from consumer.archived.application import KclStart
from consumer.archived.chain_ends import find_ends
from consumer.leases.rows import Lease, LeaseRows
from consumer.restore.command import Parts, rebuild
from consumer.restore.plan import RestoreFacts
from consumer.stream.port import ShardInfo
from minutebook.errors import SafetyRefusal
from minutebook.terminal import TerminalConsole
from tests.fakes.archive_scene import PREFIX
from tests.fakes.clock import ManualClock
from tests.fakes.expire_scene import DAY, S0, TODAY, ExpireScene
from tests.fakes.lease_table import MemoryLeaseTable
from tests.fakes.shard import SHARD

FAILOVER_SECONDS = 10.0


class SlowTable(MemoryLeaseTable):
    """Its first answer takes a minute; a worker renews its row every third of a fail-over."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(Lease(SHARD, "TRIM_HORIZON", owner="worker"))
        self._clock = clock
        self._waits = [60.0]

    def read(self) -> LeaseRows | None:
        """Return the rows as they are when the answer is made."""
        if self._waits:
            self._clock.advance(self._waits.pop())
        counter = int(self._clock.monotonic() / (FAILOVER_SECONDS / 3))
        self.seed(Lease(SHARD, "TRIM_HORIZON", counter=counter, owner="worker"))
        return super().read()


def test_a_slow_first_look_does_not_shorten_the_second() -> None:
    """The wait for signs of life was counted from before the first look, which was held up for longer than that.

    Both looks then came at once, no counter could move between them, and the worker's lease was taken.
    """
    clock = ManualClock()
    info = ShardInfo(SHARD, "0", "9", (), (), closed=False)
    facts = RestoreFacts({SHARD: info}, {}, {}, KclStart(None), 0)
    console = TerminalConsole(file=StringIO())
    with pytest.raises(SafetyRefusal, match="a worker is alive"):
        rebuild(Parts(SlowTable(clock), lambda: facts, clock, FAILOVER_SECONDS, console), apply=True, shard_ids=())


def test_an_expired_segment_between_two_of_the_next_day_is_no_hole() -> None:
    """Arrival times stepped back over midnight for one segment, and its day was expired before the one around it.

    Only tombstones of the neighbours' own day were looked at, so `restore` went back before a gap that nobody fills.
    """
    scene = ExpireScene()
    before = scene.add(41, 0)
    scene.add(42, DAY - 1)
    after = scene.add(41, 1)
    scene.publish(42)
    assert scene.expire(older_than="41d")[0] == 0
    assert scene.raw() == [before, after]
    assert find_ends(scene.retrying, PREFIX, {S0: 0}, TODAY, beyond_minutes=90 * DAY)[S0].holes == ()
