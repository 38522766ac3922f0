"""Malformed aggregates among good records, on the real daemon: `python -m tests.e2e.malformed --records 1000`.

s0 |--first--|--second, nothing good--split| s2 |--third--|--fourth, good-------------- stop
                                           | s3 |--third, nothing good--merge|
s1 |--first--|--second---------------------------third, nothing good--merge--| s4 |--fourth, good-- stop
             the daemon starts, in the memory of a small container

Exit code 0 only if no good record is lost or doubled, every closed shard came to its end, the daemon was never
restarted, and whatever KCL did not deliver is named: by a line, beside the archive, and by the audit.
"""

import argparse
import os
import random
import signal
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from demo.embedded import EmbeddedAws
from minutebook.clock import SystemClock
from minutebook.format.aggregate import HashRange
from tests.e2e.harness import Application
from tests.e2e.malformed_outcome import Life, Outcome, Withheld, look
from tests.e2e.worker import Worker
from tests.fakes.malformed import Aim, Deck, key_in
from tests.witness.aggregate import EMPTY, aggregate
from tests.witness.ledger import Sent

_ROOT: Final = Path(__file__).parents[2]
_HEAP: Final = "-Xmx512m"
_STRETCHES: Final = 4
_AGGREGATE_EVERY: Final = 8
_AGGREGATE: Final = 10
_DRAIN_SECONDS: Final = 600


@dataclass
class Feed:
    """The producers: hostile and good ones take turns on all open shards."""

    app: Application
    rng: random.Random
    sent: Counter[str] = field(default_factory=Counter)
    withheld: list[Withheld] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._deck = Deck(self.rng)
        self._ranges: dict[str, HashRange] = {}
        self._keys: dict[str, str] = {}
        self._turn = 0

    def look_around(self) -> None:
        """Learn which shards are open."""
        for shard, row in self.app.shards().items():
            keys = row["HashKeyRange"]
            self._ranges[shard] = HashRange(int(keys["StartingHashKey"]), int(keys["EndingHashKey"]))
        self._keys = {shard: key_in(self._ranges[shard]) for shard in self.app.open_shards()}

    def mix(self, count: int) -> None:
        """Put so many malformed records, each among good ones, and good ones last."""
        self.look_around()
        for number in range(count):
            self._put_good(is_aggregate=number % _AGGREGATE_EVERY == 0)
            aim = self._next_aim()
            drawn = self._deck.draw(aim)
            self._put(drawn.kind, aim.key, drawn.data)
        self._put_good(is_aggregate=False)

    def close(self, shard: str, *, is_stray: bool) -> None:
        """Put what is to be the last record of a shard: KCL delivers nothing of it."""
        stray = next(key for other, key in self._keys.items() if other != shard)
        self._put("last of its shard", self._keys[shard], aggregate([(stray, b"stray")] * 3) if is_stray else EMPTY)

    def _next_aim(self) -> Aim:
        shards = sorted(self._keys)
        self._turn += 1
        shard, other = shards[self._turn % len(shards)], shards[(self._turn + 1) % len(shards)]
        return Aim(self._keys[shard], self._keys[other], self._ranges[shard])

    def _put_good(self, *, is_aggregate: bool) -> None:
        begin = len(self.app.producer.ledger)
        if is_aggregate:
            for key in self._keys.values():
                self.app.producer.put_aggregate([Sent(key, b"inner %d" % (begin + n)) for n in range(_AGGREGATE)])
        self.app.producer.put([Sent(key, b"plain %d" % begin) for key in self._keys.values()])

    def _put(self, kind: str, key: str, data: bytes) -> None:
        self.sent[kind] += 1
        place, delivery = self.app.producer.put_judged(key, data, self._ranges.__getitem__)
        if delivery.withheld or not delivery.delivered:
            subs = tuple(user.sub for user in delivery.withheld)
            self.withheld.append(Withheld(kind, place.shard_id, place.position.sequence, delivery.fault, subs))


@dataclass
class Run:
    """A run of so many malformed records. `clock` is real."""

    aws: EmbeddedAws
    folder: Path
    records: int
    seed: int
    clock: SystemClock = field(default_factory=SystemClock)

    def play(self) -> Outcome:
        """Feed, reshard, stop, look."""
        begun = self.clock.monotonic()
        app = Application(self.aws, self.folder, shards=2, flushSeconds=1, checkpointIntervalSeconds=1)
        s0, s1 = app.open_shards()
        app.seed_leases(dict.fromkeys((s0, s1), "w1"))
        feed = Feed(app, random.Random(self.seed))
        shares = [self.records * (turn + 1) // _STRETCHES - self.records * turn // _STRETCHES for turn in range(4)]
        feed.mix(shares[0])
        with app.consume(environment={"JAVA_TOOL_OPTIONS": _HEAP}) as worker:
            _await_open(worker, s0, s1)
            feed.mix(shares[1])
            feed.close(s0, is_stray=True)
            s2, s3 = app.split(s0)
            feed.mix(shares[2])
            _await_open(worker, s2, s3)
            feed.close(s1, is_stray=False)
            feed.close(s3, is_stray=True)
            s4 = app.merge(s3, s1)
            feed.mix(shares[3])
            _await_open(worker, s4)
            for shard in (s2, s4):
                position = str(app.producer.last()[shard])
                worker.events.wait("checkpoint_written", shard=shard, position=position, seconds=_DRAIN_SECONDS)
            worker.terminate()
            code = worker.wait()
        (self.folder / "worker.log").write_text("\n".join(worker.events.lines))
        life = Life(worker.events, code, self.clock.monotonic() - begun)
        return look(app, self.aws, life, feed.sent, feed.withheld, closed=(s0, s1, s3))


def _await_open(worker: Worker, *shards: str) -> None:
    for shard in shards:
        worker.events.wait("shard_opened", shard=shard, seconds=_DRAIN_SECONDS)


def main(arguments: list[str]) -> int:
    """Play a run; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.malformed", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--records", type=int, default=1000, help="how many malformed records are sent (1000)")
    parser.add_argument("--seed", type=int, default=1, help="decides what they are (1)")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = _ROOT / ".demo" / f"malformed-{options.seed}-{SystemClock().now_ms()}-{os.getpid()}"
    folder.mkdir(parents=True)
    print(f"log, properties and the bucket's files: {folder}", flush=True)  # noqa: T201 - what the run shows
    with EmbeddedAws(folder / "aws") as aws:
        os.environ.update(aws.environment)  # the audit's own clients ask botocore's chain
        outcome = Run(aws, folder, options.records, options.seed).play()
    print(outcome.table())  # noqa: T201 - same
    print("NOT ALL GOOD" if outcome.wrong() else "ALL GOOD")  # noqa: T201 - same
    return 1 if outcome.wrong() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
