"""True time, chance, the hand-over between processors, and what happened.

Every processor runs in a greenlet of its own; exactly one runs at a time, and it hands over only at a request, a
checkpoint or a wait (`Host.point`). So one seed decides the whole history, and a processor can be held up inside a
commit for as long as the history wants.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from greenlet import GreenletExit, getcurrent, greenlet  # type: ignore[import-untyped]

from tests.simulation.histories.compressions import compressions_of

if TYPE_CHECKING:
    from minutebook.compression import Compression
    from tests.simulation.services.aggregates import Troubles

REQUEST_SECONDS: Final = 0.02
MAX_REQUESTS: Final = 20_000
"""More requests than any history needs: a processor that asks for ever is a finding, too."""


class Violation(AssertionError):  # noqa: N818 - what was found, not what went wrong with the search
    """A promise was broken; the text says which."""


class Stamps(NamedTuple):
    """How arrival times lie beside true time: `off` in seconds, one of which each put draws.

    `beyond_ms` is how far two of them may step back beyond the minute that the rules of evidence allow for, and a
    minute for the rules' own rounding; 0 where they keep within it.
    """

    off: Sequence[float]
    beyond_ms: int = 0

    def off_seconds(self, rng: random.Random) -> float:
        """Draw what one put's arrival time is off by."""
        return rng.choice(self.off)


STAMPS: Final = Stamps((0, 0, 0, 0, 0, 0, 0, -0.5, -5, -50, -57, 2))
"""As far as the rules of evidence allow for."""
WILD_STAMPS: Final = Stamps((0, 0, 0, 0, 0, 0, 0, -0.5, -5, -70, -600, 2), beyond_ms=720_000)


def name(number: int | None) -> str:
    """Return how the timeline calls a record, by its number in its shard."""
    return f"#{number}"


class World:
    """What all machines share. `now` is true time in epoch seconds; `trace` collects the timeline of a replay.

    `troubles` are the careless producers of the history, if it has any. `next_compression` tells the setting of the
    next writer; the seed decides it apart from all else. `compression` is that of the archive, once it is begun.
    `refuses_skew`: the services refuse whoever is a quarter of an hour off.
    """

    def __init__(self, rng: random.Random, now: float, tally: Counter[str], *, traced: bool, seed: int = 2) -> None:
        self.rng = rng
        self.next_compression = compressions_of(seed)
        self.compression: Compression | None = None
        self.now = now
        self.began = now
        self.tally = tally
        self.trace: list[str] | None = [] if traced else None
        self.stamps = STAMPS
        self.refuses_skew = False
        self.requests = 0
        self.max_requests = MAX_REQUESTS
        self.troubles: Troubles | None = None
        self._ids = 0

    def new_id(self) -> str:
        """Return ids in order, unique in this history."""
        self._ids += 1
        return f"id-{self._ids}"

    def chance(self, share: float) -> bool:
        """Throw the dice, but not for what never or always happens."""
        return share > 0 and self.rng.random() < share

    def note(self, who: str, what: str) -> None:
        """Add a line to the timeline. Callers guard with `trace` where making the text costs."""
        if self.trace is not None:
            self.trace.append(f"{self.now - self.began:12.2f} s  {who:<10} {what}")

    def happened(self, what: str, who: str = "") -> None:
        """Count something for the table of what really occurred."""
        self.tally[what] += 1
        self.note(who or "-", what)


class Task:
    """A greenlet that works until it is held up, idle or dead."""

    def __init__(self, body: Callable[[], None]) -> None:
        self._body = body
        self._green = greenlet(self._run)
        self.where: str | None = None
        self.error: BaseException | None = None
        self.dead = False

    def resume(self) -> None:
        """Let it work until it hands over."""
        self.where = None
        self._green.switch()

    def hand_over(self, where: str) -> None:
        """Give the baton back; called by the task itself."""
        self.where = where
        hub = getcurrent().parent
        assert hub is not None
        hub.switch()

    def kill(self) -> None:
        """End it where it is: nothing of it runs any more."""
        if not self.dead:
            self._green.throw(GreenletExit)
            self.dead = True

    def _run(self) -> None:
        try:
            self._body()
        except Exception as exc:  # noqa: BLE001 - the history judges it
            self.error = exc
        finally:
            self.dead = True


class Host:
    """One processor's machine: its clock (`minutebook.clock.Clock`), its luck, and the places where it is held up.

    `skew` is what its wall clock is off by, in seconds; `unset_seconds` of that are a pause after which nobody has
    set it yet, `ahead_seconds` its steps ahead for no reason. `holdup` is the probability of being held up at a
    point; `fault_rate` that of a failing request.
    """

    def __init__(self, world: World, name: str, *, skew: float, holdup: float, fault_rate: float) -> None:
        self.world = world
        self.name = name
        self.skew = skew
        self.holdup = holdup
        self.fault_rate = fault_rate
        self.table_fault_rate = 0.0
        self._paused = 0.0
        self._pause: tuple[float, bool] | None = None
        self.unset_seconds = 0.0
        self.ahead_seconds = 0.0
        self.task: Task | None = None
        self.wake = 0.0
        self.opened = False
        self.received_at = world.now
        self.silenced = False
        self.counts: Counter[str] = Counter()

    def now_ms(self) -> int:
        """Return this machine's idea of the wall clock."""
        return int((self.world.now + self.skew) * 1000)

    def monotonic(self) -> float:
        """Return seconds that count suspends and never jump; a pause of a virtual machine they do not count."""
        return self.world.now - self._paused

    @property
    def is_paused(self) -> bool:
        """Tell whether this virtual machine stands still."""
        return self._pause is not None

    def pause(self, *, sets_clock: bool) -> None:
        """Pause this virtual machine until it works on; then its wall clock is set at once, or not yet."""
        self._pause = (self.world.now, sets_clock)

    def end_pause(self) -> None:
        """Work on, if it is paused: the monotonic clock has stood still."""
        if self._pause is not None:
            (began, sets_clock), self._pause = self._pause, None
            seconds = self.world.now - began
            self._paused += seconds
            if not sets_clock:
                self.skew -= seconds
                self.unset_seconds += seconds

    def set_clock(self) -> None:
        """Set the wall clock after a pause."""
        self.skew += self.unset_seconds
        self.unset_seconds = 0.0

    def sleep(self, seconds: float) -> None:
        """Wait; others may work meanwhile."""
        self.wake = self.world.now + seconds
        self.point("waits")
        self.world.now = max(self.world.now, self.wake)

    def note(self, what: str) -> None:
        """Add a line of this machine to the timeline."""
        self.world.note(self.name, what)

    def point(self, where: str) -> None:
        """Pass a place where this process may be held up."""
        world = self.world
        share = self.holdup if self.opened else self.holdup / 4
        if share and world.rng.random() < share and self.task is not None:
            world.tally[f"held up: {where}"] += 1
            self.note(f"is held up: {where}")
            self.task.hand_over(where)
            self.note(f"goes on: {where}")

    def request(self, verb: str) -> None:
        """Begin a request: a processor that lost its lease sends none."""
        world = self.world
        world.requests += 1
        world.now += REQUEST_SECONDS
        self.counts[verb] += 1
        if self.silenced:
            raise Violation(f"{self.name} sent a {verb} after it was told that its lease is lost")
        if world.requests > world.max_requests:
            raise Violation("the processors never come to an end")
