"""The scenario: what happens to the workers and to the stream while the flights go by.

    feed      |=====================================================================|   22,000 flights, 190 s
    worker A  |--start--X child killed--restart-------------------X daemon killed--restart--|
    worker B      |--start----|frozen ...................|wakes: its late PUT is refused|
    worker C          |--start----takes B's shard over---------------------------------------|
    stream                          split        merge

Each act waits for what it caused, never for a time.
"""

from collections.abc import Callable
from typing import NamedTuple

from demo.processes import Frozen
from demo.screen import Screen
from demo.stage import LEASES_PER_WORKER, Stage
from demo.worker import Worker

ZOMBIE_FLUSH_SECONDS = 20
"""The zombie cuts by time as well, so that its held records are overdue when it wakes: it PUTs at once."""
_START_SECONDS = 120
_RECOVERY_SECONDS = 120
_RESHARD_SECONDS = 120
_FENCE_SECONDS = 30


class Recovery(NamedTuple):
    """From a SIGKILL to the moment the worker's shards were open again, in seconds."""

    what: str
    seconds: float


class Outcome(NamedTuple):
    """What the acts measured. `fenced` counts the zombie's PUTs that the store refused."""

    recoveries: list[Recovery]
    fenced: int


class Scenario:
    """The acts, in order. `tick` is called while an act waits: it repaints, and raises when the feeder failed."""

    def __init__(self, stage: Stage, screen: Screen, tick: Callable[[], None]) -> None:
        self._stage = stage
        self._screen = screen
        self._tick = tick
        self._recoveries: list[Recovery] = []

    def play(self) -> Outcome:
        """Play all acts; returns once the stream is whole again and every worker left is healthy."""
        stage, screen = self._stage, self._screen
        screen.act("worker A starts: three shards of four (the first start of an application takes up to 40 s)")
        leader = stage.start_worker("a")
        self._wait(leader, lambda: len(leader.opened()) == LEASES_PER_WORKER, _START_SECONDS)
        screen.act("worker B starts, and takes the fourth")
        zombie = stage.start_worker("b", MINUTEBOOK_FLUSH_SECONDS=str(ZOMBIE_FLUSH_SECONDS))
        self._wait(zombie, lambda: len(zombie.opened()) == 1, _START_SECONDS)
        heir = stage.start_worker("c")
        self._recover(leader, "SIGKILL of a processor of worker A", leader.kill_processor)
        fenced = self._zombie(zombie, heir)
        self._recover(leader, "SIGKILL of the daemon of worker A", leader.kill_daemon)
        return Outcome(self._recoveries, fenced)

    def _recover(self, worker: Worker, what: str, kill: Callable[[], None]) -> None:
        """Kill something of a worker and wait until its supervisor has brought all its shards back."""
        self._screen.act(what)
        before = len(worker.processors())
        mark, begun = worker.mark(), self._stage.clock.monotonic()
        kill()
        self._wait(worker, lambda: len(worker.opened(since=mark)) >= before, _RECOVERY_SECONDS)
        recovery = Recovery(what, self._stage.clock.monotonic() - begun)
        self._recoveries.append(recovery)
        self._screen.result(f"back after {recovery.seconds:.0f} s")

    def _zombie(self, zombie: Worker, heir: Worker) -> int:
        """Freeze a worker, let another take over, reshard meanwhile, wake it; returns the PUTs it lost."""
        screen = self._screen
        shards = zombie.opened()
        screen.act(f"worker B freezes (SIGSTOP) with {', '.join(sorted(shards))}")
        daemon = zombie.daemon()
        if daemon is None:
            raise RuntimeError("worker B has no daemon")
        # The processor first: the daemon then still hands it one batch, which the zombie finds when it wakes.
        with Frozen([one.pid for one in zombie.processors()]) as hands:
            self._stage.clock.sleep(1)
            with Frozen([daemon.pid]) as head:
                self._wait(heir, lambda: shards <= heir.opened(), _RECOVERY_SECONDS)
                screen.result("worker C has taken over")
                self._reshard(shards)
                self._wait(heir, lambda: self._has_committed(heir, shards), _RECOVERY_SECONDS)
                screen.act("worker B wakes and sends what it held: the slot is taken")
                hands.thaw()
                self._wait(zombie, lambda: bool(zombie.events("slot_lost")), _FENCE_SECONDS)
                head.thaw()
        self._wait(zombie, lambda: bool(zombie.events("lease_lost")), _FENCE_SECONDS)
        fenced = len(zombie.events("slot_lost"))
        screen.result(f"late PUTs refused: {fenced}; worker B learned that its lease is lost, and leaves")
        zombie.stop()
        return fenced

    def _reshard(self, frozen: set[str]) -> None:
        """Split one shard and merge two others."""
        shards = self._stage.open_shards()
        victim = next(shard for shard in shards if shard not in frozen)
        self._screen.act(f"{victim} is split")
        self._await_opened(self._stage.split(victim))
        left, right = shards[2], shards[3]
        self._screen.act(f"{left} and {right} are merged")
        self._await_opened(self._stage.merge(left, right))

    def _await_opened(self, shards: set[str]) -> None:
        workers = self._stage.workers.values()
        leader = self._stage.workers["a"]
        self._wait(leader, lambda: shards <= set().union(*(worker.opened() for worker in workers)), _RESHARD_SECONDS)
        self._screen.result(f"{', '.join(sorted(shards))} opened")

    def _has_committed(self, worker: Worker, shards: set[str]) -> bool:
        return shards <= {event.shard for event in worker.events("segment_committed")}

    def _wait(self, worker: Worker, ready: Callable[[], bool], seconds: float) -> None:
        def check() -> bool:
            self._tick()
            return ready()

        worker.wait_until(check, seconds=seconds)
