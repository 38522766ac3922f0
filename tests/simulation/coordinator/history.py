"""One history of hosts and shards under a seed: what happens to them, and what must be true all the time.

    PROMISE   where a shard should be read, and some host is sound, somebody gets further on it within
              `HEALED_SECONDS`, and within `TOLD_SECONDS` some host says that nobody does

Time counts from the last thing that was done to any host: a history may be unlucky again and again. One run of KCL
is ill at a time: two that each give the shard back to the other look like a lease that moves.
"""

import random
from collections import Counter
from collections.abc import Callable
from typing import Final

from tests.simulation.coordinator.daemon import STALLS, Daemon
from tests.simulation.coordinator.host import Host
from tests.simulation.coordinator.table import Coordination, Lock, Shard, Time
from tests.simulation.world import Violation

TOLD_SECONDS: Final = 165.0
"""Two minutes of patience, two looks, and what a look's turn takes."""
HEALED_SECONDS: Final = 400.0
"""Two stalls, one behind the other (a leader is lost, and the next one is ill), and a daemon's new start."""
_ROW_SECONDS: Final = 700.0
"""Where somebody deleted the shard's row: KCL's leader misses it three times, two minutes apart."""
_HISTORY_SECONDS: Final = 2400.0
_LAST_ACT_SECONDS: Final = 1500.0
_CHECK_SECONDS: Final = 5.0


class History:
    """A history; `run` raises Violation."""

    def __init__(self, seed: int, tally: Counter[str], *, is_traced: bool = False) -> None:
        self.seed = seed
        self.trace: list[str] | None = [] if is_traced else None
        self._tally = tally
        self._rng = rng = random.Random(f"coordinator {seed}")
        self.tables = tables = Coordination(Time())
        self._hurt_at = 0.0
        self._deleted: set[str] = set()
        self._rowless_at: dict[str, float] = {}
        self._told_at: dict[str, float] = {}
        self._left: dict[str, int] = {"opens not all": 2, "takes nothing": 2}
        for number in range(rng.randint(1, 6)):
            name = f"shardId-{number:012}"
            tables.shards[name] = Shard(name)
        tables.make_rows()
        self._names = iter(f"w{number}" for number in range(1, 100))
        self.hosts: list[Host] = []
        for _ in range(rng.randint(1, 3)):
            self.hosts.append(self._new_host())
        acts = (
            (6, self._lose_host),
            (4, self._kill_daemon),
            (4, self._restart),
            (3, self._freeze),
            (3, self._cut_off),
            (6, self._stall),
            (2, self._split),
            (2, self._delete_row),
            (2, self._leave_lock),
        )
        at = rng.uniform(60, 200)
        while at < _LAST_ACT_SECONDS:
            (act,) = rng.choices([act for _, act in acts], [weight for weight, _ in acts])
            tables.time.after(at, act)
            at += rng.choice((rng.uniform(1, 60), rng.uniform(60, 130), rng.uniform(300, 600)))

    def run(self) -> None:
        """Play it."""
        now = 0.0
        while now < _HISTORY_SECONDS:
            now += _CHECK_SECONDS
            self.tables.time.run_until(now)
            self._check()

    def say(self, text: str) -> None:
        """Write a line of the timeline."""
        if self.trace is not None:
            self.trace.append(f"{self.tables.time.now:7.1f}  {text}")

    def _check(self) -> None:
        now = self.tables.time.now
        if not self._sound():
            self._hurt_at = now
        self._tell()
        for name, shard in self.tables.shards.items():
            if self.tables.is_finished(name) or not all(map(self.tables.is_finished, shard.parents)):
                shard.needed_since = None
                continue
            shard.needed_since = now if shard.needed_since is None else shard.needed_since
            if name not in self.tables.rows:
                self._rowless_at[name] = now
            since = max(shard.needed_since, shard.read_at, self._hurt_at)
            unread = now - since
            if unread > (_ROW_SECONDS if name in self._deleted else HEALED_SECONDS):
                raise Violation(f"nobody has read {name} for {unread:.0f} s")
            seen = max(since, self._rowless_at.get(name, 0.0)) if name in self.tables.rows else since
            if now - seen > TOLD_SECONDS and self._told_at.get(name, 0.0) < seen and self._is_known(name):
                raise Violation(f"nobody has read {name} for {unread:.0f} s, and nobody says so")

    def _is_known(self, name: str) -> bool:
        """Tell whether any host has ever seen the shard's row: nobody can miss another one."""
        return name in self.tables.rows or any(host.has_seen(name) for host in self._sound())

    def _tell(self) -> None:
        """Note which shards some host calls unread, or is about to mend: a daemon that is started again."""
        now = self.tables.time.now
        for host in self.hosts:
            if host.is_lost or host.is_frozen:
                continue
            is_mending = host.daemon is None or not host.daemon.is_initialised or not host.daemon.is_alive
            for name in self.tables.shards:
                if host.unread or is_mending:
                    self._told_at[name] = now

    def _hurt(self, what: str) -> None:
        self._hurt_at = self.tables.time.now
        self._tally[what] += 1
        self.say(f"** {what}")

    def _new_host(self) -> Host:
        return Host(next(self._names), self.tables, self._rng, self.say, self._make_run)

    def _make_run(self, daemon: Daemon) -> None:
        """Let some runs be born with a stall."""
        for stall in ("opens not all", "takes nothing"):
            if self._left[stall] and not self._is_ill() and self._rng.random() < 0.05:
                self._left[stall] -= 1
                self._hurt(f"a run {stall}")
                daemon.stalls.add(stall)
                daemon.unopenable.update(name for name in self.tables.shards if self._rng.random() < 0.5)

    def _is_ill(self) -> bool:
        return any(host.daemon is not None and host.daemon.is_alive and host.daemon.stalls for host in self.hosts)

    def _sound(self) -> list[Host]:
        return [host for host in self.hosts if not (host.is_lost or host.is_frozen or host.is_cut_off)]

    def _lose_host(self) -> None:
        """For good; the last one is replaced, and sometimes another one is, too."""
        victims = self._sound()
        if not victims:
            return
        leaders = [host for host in victims if host.daemon is not None and host.daemon.leads]
        victim = self._rng.choice(leaders if leaders and self._rng.random() < 0.6 else victims)
        self._hurt("a host is lost, the leader's" if victim in leaders else "a host is lost")
        victim.is_lost = True
        victim.end()
        self.hosts.remove(victim)
        if not self.hosts or self._rng.random() < 0.3:
            self.hosts.append(self._new_host())

    def _kill_daemon(self) -> None:
        for host in self._some():
            self._hurt("a daemon is killed")
            host.kill_daemon()

    def _restart(self) -> None:
        for host in self._some():
            self._hurt("consume is restarted")
            host.end()
            host.start()

    def _freeze(self) -> None:
        for host in self._some():
            self._hurt("a host freezes")
            host.freeze(frozen=True)
            self._later(self._rng.uniform(5, 200), "a host goes on", lambda host=host: host.freeze(frozen=False))

    def _cut_off(self) -> None:
        for host in self._some():
            self._hurt("a supervisor does not reach DynamoDB")
            host.is_cut_off = True
            self._later(
                self._rng.uniform(5, 200), "it reaches DynamoDB", lambda host=host: setattr(host, "is_cut_off", False)
            )

    def _stall(self) -> None:
        for host in self._some()[:1]:
            if self._is_ill():
                return
            stall = self._rng.choice(STALLS)
            leads = host.daemon is not None and host.daemon.leads
            self._hurt(f"a run {stall}{', which leads' if leads else ''}")
            host.stall(stall, set(self.tables.shards))

    def _split(self) -> None:
        whole = [shard for shard in self.tables.shards.values() if not shard.closed]
        if len(whole) > 8:
            return
        shard = self._rng.choice(whole)
        self._tally["a split"] += 1
        shard.closed = True
        for _ in range(2):
            name = f"shardId-{len(self.tables.shards):012}"
            self.tables.shards[name] = Shard(name, frozenset({shard.shard_id}))

    def _delete_row(self) -> None:
        rows = [name for name, row in self.tables.rows.items() if row.checkpoint != "SHARD_END"]
        if rows:
            name = self._rng.choice(rows)
            self._hurt("a row is deleted live")
            self.say(f"   of {name}")
            del self.tables.rows[name]
            self._deleted.add(name)

    def _leave_lock(self) -> None:
        """Let a host that nobody knows hold the lock, in a way that KCL never takes it over (#1803)."""
        self._hurt("a lock is left behind for ever")
        self.tables.lock = Lock(object(), self._rng.choice(("gone", "w1")), lasts_for_ever=True)

    def _some(self) -> list[Host]:
        sound = self._sound()
        return self._rng.sample(sound, self._rng.choice((1, 1, 1, len(sound)))) if sound else []

    def _later(self, seconds: float, what: str, act: Callable[[], None]) -> None:
        def do() -> None:
            self._hurt(what)
            act()

        self.tables.time.after(seconds, do)
