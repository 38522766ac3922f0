"""The scenario: what happens to the workers and to the stream while the flights go by.

    feed      |=======================================================================|  22,000 flights, 190 s
    worker A  |--start------------------------------------------------------------------------|
    follow          |--each minute: what is archived goes into an Iceberg table---------------|
    worker B        |--start--|frozen ........................|wakes: its late PUT is refused|
    worker C              |--start--takes B's shards over-----------------------------------|
    stream                split            merge
    SIGKILL                                    a processor                  a daemon

Each act waits for what it caused, never for a time. The order follows KCL's rules: worker A starts first, so it
is the leader that hands out leases, and it is not killed before the last of them has been handed out (a dead
leader's lock lasts two minutes). Ended shards count as leases for minutes, so the workers' limit leaves room.
"""

from collections.abc import Callable
from typing import NamedTuple

from demo.processes import Frozen, has_unread_input
from demo.screen import Screen
from demo.stage import SHARDS, Stage
from demo.worker import Worker
from minutebook.errors import MinutebookError

ZOMBIE_FLUSH_SECONDS = 10
"""The zombie cuts by time as well, so that what it holds is overdue when it wakes: it PUTs at once."""
_HOLD_SECONDS = 4
"""For some flights to be delivered after the zombie's last commit, so that it holds something when it freezes."""
_LATE_PUT_SECONDS = 2
"""For the late PUT itself: nobody can be asked whether it is done."""
_DELIVERY_SECONDS = 1.5
"""For what was just sent to reach the processors, a few reads' worth: it is neither archived nor checkpointed yet."""
_START_SECONDS = 120
_TAKEOVER_SECONDS = 180
_FENCE_SECONDS = 40


class Recovery(NamedTuple):
    """From a SIGKILL (`at_ms`, wall clock) to the moment the worker's shards were open again, in seconds."""

    what: str
    seconds: float
    at_ms: int
    shards: frozenset[str]


class Outcome(NamedTuple):
    """What the acts measured. `fenced` counts the zombie's PUTs that the store refused."""

    recoveries: list[Recovery]
    takeover_seconds: float
    fenced: int


class Scenario:
    """The acts, in order.

    `tick` is called while an act waits: it repaints, and raises when the feeder failed. `retry` is called before each
    SIGKILL: it puts events again, so that retries are replayed through the crash.
    """

    def __init__(self, stage: Stage, screen: Screen, *, tick: Callable[[], None], retry: Callable[[], None]) -> None:
        self._stage = stage
        self._screen = screen
        self._tick = tick
        self._retry = retry
        self._clock = stage.clock

    def play(self) -> Outcome:
        """Play all acts; returns when every worker that is left is healthy."""
        stage, screen = self._stage, self._screen
        screen.act(f"worker A starts, with all {SHARDS} shards (an application's first start takes up to 45 s)")
        leader = stage.start_worker("a")
        self._wait(leader, lambda: len(leader.holds()) == SHARDS, _START_SECONDS)
        stage.start_follow()
        zombie = stage.start_worker("b", MINUTEBOOK_FLUSH_SECONDS=str(ZOMBIE_FLUSH_SECONDS))
        victim = stage.open_shards()[0]
        screen.act(f"worker B starts, and {victim} is split: its halves are for worker B")
        halves = stage.split(victim)
        self._wait(zombie, lambda: halves <= self._opened(), _START_SECONDS)
        self._wait(zombie, lambda: self._is_at_work(zombie), _START_SECONDS)
        self._clock.sleep(_HOLD_SECONDS)
        heir = stage.start_worker("c")
        recoveries: list[Recovery] = []
        takeover_seconds, fenced = self._zombie(zombie, lambda: recoveries.append(self._kill_processor(leader, heir)))
        recoveries.append(self._kill_daemon(leader, heir))
        return Outcome(recoveries, takeover_seconds, fenced)

    def _zombie(self, zombie: Worker, meanwhile: Callable[[], None]) -> tuple[float, int]:
        """Freeze a worker until others work on its shards, then wake it.

        Returns (seconds until the take-over, PUTs that the zombie lost). Its processors are stopped before its
        daemon, which still hands each a batch; the zombie finds it when it wakes, before it can learn that its lease
        is gone.
        """
        shards, daemon = zombie.holds(), zombie.daemon()
        if daemon is None:
            raise MinutebookError("worker B has no daemon", next_step=f"read {zombie.log_path}")
        self._screen.act(f"worker B freezes (SIGSTOP), and with it {_names(shards)}")
        others = {worker: worker.mark() for worker in self._stage.workers.values() if worker is not zombie}
        begun = self._clock.monotonic()
        pids = [process.pid for process in zombie.processors()]
        with Frozen(pids) as hands:
            self._wait(zombie, lambda: all(map(has_unread_input, pids)), _FENCE_SECONDS)
            with Frozen([daemon.pid]) as head:
                leader = self._stage.workers["a"]
                self._wait(leader, lambda: shards <= _seen(others, "shard_opened"), _TAKEOVER_SECONDS)
                takeover_seconds = self._clock.monotonic() - begun
                self._screen.result(f"taken over after {takeover_seconds:.0f} s")
                self._merge()
                meanwhile()
                self._screen.act("the new owners archive what worker B holds, too")
                self._wait(leader, lambda: shards <= _seen(others, "segment_committed"), _TAKEOVER_SECONDS)
                self._screen.act("worker B wakes, and PUTs what it held")
                # Its log passes through its daemon: what happens now is seen only when that wakes, too.
                hands.thaw()
                self._wait(zombie, lambda: not any(map(has_unread_input, pids)), _FENCE_SECONDS)
                self._clock.sleep(_LATE_PUT_SECONDS)
                head.thaw()
        self._wait(zombie, lambda: shards <= _seen({zombie: 0}, "lease_lost"), _FENCE_SECONDS)
        fenced = len(zombie.events("slot_lost"))
        self._screen.result(f"late PUTs refused: {fenced}; it learns that its leases are lost, and leaves")
        zombie.stop()
        return takeover_seconds, fenced

    def _merge(self) -> None:
        """Merge the last two shards of the stream."""
        left, right = self._stage.open_shards()[-2:]
        self._screen.act(f"{left} and {right} are merged")
        merged = self._stage.merge(left, right)
        self._wait(self._stage.workers["a"], lambda: merged <= self._opened(), _START_SECONDS)
        self._screen.result(f"{_names(merged)} opened, after both parents were archived to their ends")

    def _kill_processor(self, *workers: Worker) -> Recovery:
        worker = self._busiest(*workers)
        return self._recover(worker, "SIGKILL of a processor", worker.kill_processor)

    def _kill_daemon(self, *workers: Worker) -> Recovery:
        worker = self._busiest(*workers)
        return self._recover(worker, "SIGKILL of a daemon", worker.kill_daemon)

    def _busiest(self, *workers: Worker) -> Worker:
        """Return the worker with the most shards, once there is one with any: KCL moves leases about."""
        self._wait(workers[0], lambda: any(worker.holds() for worker in workers), _START_SECONDS)
        return max(workers, key=lambda worker: len(worker.holds()))

    def _recover(self, worker: Worker, what: str, kill: Callable[[], None]) -> Recovery:
        """Kill something of a worker and wait until its shards are open again, here or elsewhere."""
        shards = worker.holds()
        self._screen.act(f"{what} of worker {worker.name.upper()}, which holds {_names(shards)}")
        self._retry()
        self._clock.sleep(_DELIVERY_SECONDS)
        marks = {other: other.mark() for other in self._stage.workers.values()}
        at_ms = self._clock.now_ms()
        begun = self._clock.monotonic()
        kill()
        self._wait(worker, lambda: shards <= _seen(marks, "shard_opened"), _TAKEOVER_SECONDS)
        recovery = Recovery(what, self._clock.monotonic() - begun, at_ms, frozenset(shards))
        self._screen.result(f"back after {recovery.seconds:.0f} s")
        return recovery

    def _is_at_work(self, worker: Worker) -> bool:
        """Tell whether a worker has archived something of each shard it holds, and it holds some."""
        shards = worker.holds()
        return bool(shards) and shards <= _seen({worker: 0}, "segment_committed")

    def _opened(self) -> set[str]:
        """Return the shards that any worker has opened so far."""
        return _seen(dict.fromkeys(self._stage.workers.values(), 0), "shard_opened")

    def _wait(self, worker: Worker, ready: Callable[[], bool], seconds: float) -> None:
        def check() -> bool:
            self._tick()
            return ready()

        worker.wait_until(check, seconds=seconds)


def _seen(marks: dict[Worker, int], name: str) -> set[str]:
    """Return the shards with an event of that name, in each worker's log behind its mark."""
    return {event.shard for worker, mark in marks.items() for event in worker.events(name, since=mark)}


def _names(shards: set[str]) -> str:
    """Shorten shard ids: `shards 1, 4`."""
    numbers = ", ".join(str(int(shard.rpartition("-")[2])) for shard in sorted(shards))
    return f"shard{'' if len(shards) == 1 else 's'} {numbers}"
