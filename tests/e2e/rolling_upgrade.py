"""A rolling upgrade and a roll-back on the real daemon: `make upgrade OLD=folder`, a checkout of an earlier release.

old  |-------------------------| SIGTERM     |--------------| SIGTERM
new            |-----------------------------| SIGTERM |---------------|
split      x
               held by the old one's shards  |  on     |held| on

The folder has its own .venv (`make setup` there). An earlier release sends no rows of boundaries: while one of its
workers reads a shard, that shard is named as what holds the next boundary. At the end each marker is compared with
what was sent: every record that arrived before its boundary lay in the archive when the marker was stored.
"""

import argparse
import os
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from demo.embedded import EmbeddedAws
from minutebook.clock import SystemClock
from minutebook.format.boundaries import COMPLETE, CompleteMarker, decode_complete, parse_marker_key
from minutebook.format.minute import iso_time
from tests.chaos.feeder import Feeder
from tests.e2e.commands import Answer, run
from tests.e2e.harness import PREFIX, Application
from tests.e2e.worker import Worker
from tests.witness.waiting import wait_until

_PATIENCE_SECONDS: Final = 900
"""A shard that had rows is named as one without a reader of this release after eleven minutes, else as late."""
_RATE: Final = 4
_ROOT: Final = Path(__file__).parents[2]
_STORED_MS: Final = 1000
"""The embedded S3 gives times of objects in whole seconds."""


@dataclass
class Upgrade:
    """One run; `old` is the program of the earlier release. `wrong` is what was not as it must be, in words."""

    app: Application
    folder: Path
    old: Path
    clock: SystemClock = field(default_factory=SystemClock)
    wrong: list[str] = field(default_factory=list)

    def play(self) -> None:
        """Upgrade, roll back, upgrade again; then look at every marker."""
        shards = self.app.open_shards()
        self.app.seed_leases(dict.fromkeys(shards, "old-1"))
        feeder = Feeder(self.app.producer, random.Random(1), _RATE)
        try:
            with self._old("old-1") as old:
                feeder.start()
                for shard in shards:
                    old.events.wait("segment_committed", shard=shard)
                for child in self.app.split(shards[0]):
                    old.events.wait("segment_committed", shard=child)
                with self._new("new-1") as new:
                    self._expect_held("beside the old worker")
                    self._stop(old)
                    self._expect_boundary("behind the upgrade")
                    with self._old("old-2") as back:
                        self._stop(new)
                        back.events.wait("shard_opened")
                        self._expect_held("behind the roll-back")
                        with self._new("new-2") as again:
                            self._stop(back)
                            self._expect_boundary("behind the second upgrade")
                            feeder.stop()
                            feeder.check()
                            wait_until(
                                lambda: not self.app.verdict().lost, "all is archived", seconds=_PATIENCE_SECONDS
                            )
                            self._expect_boundary("when all is archived")
                            self._stop(again)
        finally:
            feeder.stop()
        self._judge()

    def _old(self, worker_id: str) -> Worker:
        path = self.app.properties(worker_id)
        command = [str(self.old), "consume", str(path), "--state-dir", str(self.folder / worker_id)]
        return Worker(command, self.app.environment(), self.folder / f"{worker_id}.log")

    def _new(self, worker_id: str) -> Worker:
        return self.app.consume(worker_id, completeSlotSeconds=60)

    def _say(self, text: str) -> None:
        print(f"{iso_time(self.clock.now_ms())} {text}", flush=True)  # noqa: T201 - a person waits for minutes

    def _stop(self, worker: Worker) -> None:
        worker.terminate()
        if (code := worker.wait()) != 0:
            self.wrong.append(f"a worker ended with {code}: {worker.log}")

    def _wait_once(self, until_ms: int) -> tuple[Answer, list[str]]:
        """Ask whether a time is complete; return the answer, and the reasons of what holds it by shard."""
        until = iso_time(until_ms)
        answer = run(self.app, "wait", "--until", until, "--once", "--json", worker_id="command")
        report = msgspec.json.decode(answer.text) if answer.text.startswith("{") else {"holds": []}
        return answer, [f"{hold['shard']}: {hold['why']}" for hold in report["holds"]]

    def _expect_held(self, where: str) -> None:
        """Wait until a shard without rows holds the next boundary, and is named."""
        now_ms, named = self.clock.now_ms(), list[str]()

        def is_named() -> bool:
            answer, named[:] = self._wait_once(now_ms)
            return answer.code in {5, 7} and any("older version" in reason for reason in named)

        wait_until(is_named, f"{where} a shard is named", seconds=_PATIENCE_SECONDS)
        self._say(f"{where}: held by {'; '.join(named)}")

    def _expect_boundary(self, where: str) -> None:
        """Wait until what was sent up to now is complete."""
        now_ms = self.clock.now_ms()

        def is_complete() -> bool:
            return any(marker.boundary_ms > now_ms for _, marker in self._markers())

        wait_until(is_complete, f"{where} the boundaries go on", seconds=_PATIENCE_SECONDS)
        self._say(f"{where}: complete after {(self.clock.now_ms() - now_ms) / 1000:.0f} s")

    def _markers(self) -> list[tuple[int, CompleteMarker]]:
        """Return when each marker was stored, and the marker, in order."""
        markers = []
        for row in self.app.store.list_objects(f"{PREFIX}{COMPLETE}"):
            key = parse_marker_key(PREFIX, row.key)
            if key is not None and key.withdrawal is None:
                stored = self.app.store.get(row.key)
                assert stored is not None
                markers.append((row.last_modified_ms, decode_complete(stored.body, row.key)))
        return markers

    def _judge(self) -> None:
        """Compare the archive with the ledger, and every marker with the archive as it was then."""
        verdict = self.app.verdict()
        self._say(f"sent {verdict.sent}, lost {len(verdict.lost)}, doubled {len(verdict.duplicated)}")
        if not verdict.is_clean:
            self.wrong.append(f"the archive is not the ledger: {verdict}")
        records = [
            (record.arrival_ms, segment.metadata.shard_id, segment.stored_at_ms)
            for segment in self.app.segments()
            for record in segment.records
        ]
        markers, counted = self._markers(), 0
        for stored_ms, marker in markers:
            gaps = [(gap.shard, *gap.times_ms) for gap in marker.gaps]
            claimed = [each for each in records if marker.since_ms <= each[0] < marker.boundary_ms]
            counted += len(claimed)
            for arrival_ms, shard, archived_ms in claimed:
                is_named = any(shard == name and begin <= arrival_ms < end for name, begin, end in gaps)
                if archived_ms > stored_ms + _STORED_MS and not is_named:
                    late = f"a record of {iso_time(arrival_ms)} in {shard}"
                    self.wrong.append(f"the marker of {marker.boundary} was stored before {late}")
        gaps_in = sum(bool(marker.gaps) for _, marker in markers)
        self._say(f"{len(markers)} boundaries, {gaps_in} with gaps; {counted} times a record lay before one")


def main(arguments: Sequence[str]) -> int:
    """Run once; return 1 if anything was not as it must be."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.rolling_upgrade")
    parser.add_argument("--old", type=Path, required=True, help="a checkout of an earlier release, with its .venv")
    options = parser.parse_args(arguments)
    program = (options.old / ".venv/bin/minutebook").absolute()
    if not os.access(program, os.X_OK):
        parser.error(f"{program} is missing: run make setup there")
    clock = SystemClock()
    folder = _ROOT / ".demo" / f"upgrade-{clock.now_ms()}-{os.getpid()}"
    folder.mkdir(parents=True)
    with EmbeddedAws(folder / "aws") as aws:
        app = Application(aws, folder, shards=2, flushSeconds=1, checkpointIntervalSeconds=1)
        upgrade = Upgrade(app, folder, program)
        upgrade.play()
    for sentence in upgrade.wrong:
        print(f"WRONG {sentence}")  # noqa: T201 - the result
    print(f"{len(upgrade.wrong)} wrong; {folder}")  # noqa: T201 - the result
    return 1 if upgrade.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
