"""What one quiet shard's evidence costs: a day of the daemon's calls without records, with every request counted."""

from collections import Counter
from typing import Final, Literal, NamedTuple, get_args

from minutebook.format.read_mark import FOLDER
from tests.simulation.histories.day_history import DAY, DayHistory
from tests.simulation.histories.day_scenarios import CALM_MONTH
from tests.simulation.services.bucket import PREFIX
from tests.simulation.services.kcl import Consumer
from tests.simulation.world import Host

Held = Literal["no record ever", "a record that is held", "a record that is trimmed"]
HELD: Final[tuple[Held, ...]] = get_args(Held)
_TICK_SECONDS: Final = 30
_WARM_DAYS: Final = 2


class DayCost(NamedTuple):
    """The requests of one UTC day, by verb (S3) and operation (Kinesis); `marks` were written, `starts` happened.

    `at_starts` are those until a processor has opened its shard, `between` all others.
    """

    at_starts: Counter[str]
    between: Counter[str]
    marks: int
    starts: int


class QuietDay(DayHistory):
    """Plays a quiet shard for some days, a processor's start every so many minutes, and counts the last day."""

    def __init__(self, held: Held, redeploy_minutes: int | None, seed: int = 0) -> None:
        super().__init__("month", seed, Counter(), scenario=CALM_MONTH)
        self._held = held
        self._redeploy = redeploy_minutes
        self._hosts: list[Host] = []
        self._started = Counter[str]()
        self.cost = DayCost(Counter(), Counter(), 0, 0)
        self.world.max_requests = 10_000

    def _consumer(self, host: Host, site: object, settings: object) -> Consumer:
        self._hosts.append(host)
        return super()._consumer(host, site, settings)  # type: ignore[arg-type] # passed on as they come

    def _play(self) -> None:
        site = self.shard_sites[0]
        site.stream.retention_hours = 24 if self._held == "a record that is trimmed" else 7 * 24
        worker = self._begin()
        if self._held != "no record ever":
            site.stream.shard.put_now([b"x"], int(self.world.now * 1000), "p", self.world.now, 1)
            self.deliver(worker, None, healthy=True)
        midnight = (self.world.now // DAY + 1 + _WARM_DAYS) * DAY
        self._let_pass(midnight)
        before, marks, starts = self._total(), self._marks(), len(self._hosts)
        at_starts = Counter(self._started)
        self._let_pass(midnight + DAY)
        at_starts = self._started - at_starts
        self.cost = DayCost(
            at_starts, self._total() - before - at_starts, self._marks() - marks, len(self._hosts) - starts
        )

    def _begin(self) -> Consumer:
        worker = self.start(self.shard_sites[0], healthy=True)
        assert worker is not None
        self._started += _requests(worker.host)
        return worker

    def _let_pass(self, until: float) -> None:
        world, site = self.world, self.shard_sites[0]
        while world.now < until:
            worker = self.consumers[0]
            if self._redeploy is not None and world.now - self.redeployed_at >= self._redeploy * 60:
                self.redeployed_at = world.now
                self.stop(worker)
                worker = self._begin()
            self.deliver(worker, 0, healthy=True)
            site.stream.trim()
            world.now += _TICK_SECONDS

    def _total(self) -> Counter[str]:
        return sum((_requests(host) for host in self._hosts), Counter())

    def _marks(self) -> int:
        return sum(key.startswith(f"{PREFIX}{FOLDER}") for key in self.bucket.objects)


def _requests(host: Host) -> Counter[str]:
    """Return what a machine asked for; `Kinesis` sums up its operations, and a checkpoint is KCL's."""
    return Counter({name: count for name, count in host.counts.items() if name not in {"Kinesis", "checkpoint"}})
