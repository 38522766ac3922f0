"""The site of a run: the application with proxies before S3 and DynamoDB, and the worker that stands in each place.

Of several streams each has a site of its own, with an archive and leases of its own; the places are those of all, and
in each stands a fleet. Shards of different streams have equal ids.

What the driver itself asks of the services goes past the proxies.
"""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from demo.embedded import EmbeddedAws
from demo.processes import Process, descendants, send
from demo.readback import count_archived
from minutebook.clock import Clock
from tests.chaos.boundaries import EVERY_SECONDS
from tests.chaos.proxy import FaultProxy
from tests.chaos.timeline import Timeline
from tests.e2e.harness import PREFIX, Application
from tests.e2e.leases import LeaseRow, seed_leases
from tests.e2e.worker import Worker, is_running
from tests.witness.events import Event

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

WORKERS: Final = ("a", "b")
SHARDS: Final = 3
_FAILOVER_MS: Final = 3000
"""Long enough that two JVMs on two cores do not lose their leases without a fault."""
_RESTART_SECONDS: Final = 2.0
_RESTORE_SECONDS: Final = 120
_ENDINGS: Final = ("processor_failed", "processor_killed", "daemon_ended")
"""After one of these a worker is on its way to another daemon, and says at SIGTERM what went wrong before it."""
_CUTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "a": {"flushSeconds": 2, "maxSegmentBytes": 3000},
    "b": {"flushSeconds": 3, "maxSegmentBytes": 900},
}
"""The two workers cut runs differently: what one writes never matches what the other would have written."""


class ChaosApplication(Application):
    """An application whose workers see S3 and DynamoDB through proxies."""

    def __init__(
        self,
        aws: EmbeddedAws,
        folder: Path,
        s3: FaultProxy,
        dynamodb: FaultProxy,
        *,
        shards: int = SHARDS,
        **ours: object,
    ) -> None:
        super().__init__(
            aws,
            folder,
            shards=shards,
            checkpointIntervalSeconds=1,
            lingerSeconds=1,
            storeTimeoutSeconds=25,
            maxSegmentAgeSeconds=120,
            completeSlotSeconds=EVERY_SECONDS,
            **ours,
        )
        self.dynamodb: DynamoDBClient = aws.dynamodb_client()
        self._ways = {aws.s3_endpoint: s3.endpoint, aws.dynamodb_endpoint: dynamodb.endpoint}

    def properties(self, worker_id: str, **ours: object) -> Path:
        """Write a worker's properties, with the proxies in the servers' places."""
        path = super().properties(worker_id, **ours)
        text = path.read_text()
        text = re.sub(r"(?m)^failoverTimeMillis = .*", f"failoverTimeMillis = {_FAILOVER_MS}", text)
        if "minutebook.dedupe = claims" in text:  # not among the tables that an act loses
            text += f"minutebook.dedupeTable = claims-{self.name}\n"
        for server, proxy in self._ways.items():
            text = text.replace(server, proxy)
        path.write_text(text)
        return path

    def reset_leases(self) -> None:
        """Make the lease table anew with every listed shard at its beginning, as if nothing had ever been read."""
        self.drop_lease_tables()
        seed_leases(self.dynamodb, self.name, self.shards().values(), {})


@dataclass
class Seat:
    """Where a worker stands: the present one, and what the earlier ones left.

    `is_busy`: an act has its hands on it. `exits` are codes of supervisors that ended by themselves.
    """

    name: str
    worker: Worker | None = None
    is_busy: bool = False
    gone_at: float | None = None
    past: list[Worker] = field(default_factory=list)
    exits: list[int] = field(default_factory=list)


class Fleet:
    """Starts workers that read several streams. `apps` are by the stems of their files."""

    def __init__(self, apps: Mapping[str, ChaosApplication], folder: Path) -> None:
        self._apps = apps
        self._folder = folder

    def consume(self, name: str) -> Worker:
        """Start the worker of a place."""
        streams = self._folder / f"streams-{name}"
        streams.mkdir(exist_ok=True)
        for stem, app in self._apps.items():
            (streams / f"{stem}.properties").write_text(app.properties(name, **_CUTS[name]).read_text())
        environment = next(iter(self._apps.values())).environment({"TMPDIR": str(self._folder)})
        program = str(Path(sys.executable).with_name("minutebook"))
        command = [program, "consume", str(streams), "--state-dir", str(self._folder / "state")]
        return Worker(command, environment, self._folder / f"{name}.log")


class Site:
    """The workers of a run, and the eyes on them, as far as they read one stream.

    `fleet` is given where they read several: `stream` is then this one's name in their lines.
    """

    def __init__(
        self,
        app: ChaosApplication,
        aws: EmbeddedAws,
        folder: Path,
        clock: Clock,
        timeline: Timeline,
        *,
        places: list[Seat] | None = None,
        fleet: Fleet | None = None,
        stream: str = "",
    ) -> None:
        self.app = app
        self.aws = aws
        self.clock = clock
        self.timeline = timeline
        self.places = [Seat(name) for name in WORKERS] if places is None else places
        self._fleet = fleet
        self._of_stream = {"properties": stream} if stream else {}
        self.restores: list[int] = []
        self.checkpoints: set[tuple[str, str]] = set()
        self.is_s3_up = True
        self._folder = folder
        self._orphans: list[Process] = []
        self._counted: dict[str, int] = {}

    def start(self, place: Seat) -> None:
        """Start the place's worker."""
        place.gone_at = None
        place.worker = (
            self.app.consume(place.name, **_CUTS[place.name])
            if self._fleet is None
            else self._fleet.consume(place.name)
        )
        self.timeline.note("worker_started", worker=place.name, life=len(place.past) + 1)

    def kill(self, place: Seat) -> None:
        """SIGKILL the place's supervisor alone. Its daemon dies with it; its processors end at their next read."""
        worker = place.worker
        if worker is None:
            return
        self._orphans += worker.processors()
        send(worker.pid, signal.SIGKILL)
        self.bury(place)

    def bury(self, place: Seat) -> int:
        """Reap the place's supervisor, which has ended or has been killed; returns its exit code."""
        worker, place.worker = place.worker, None
        if worker is None:
            return 0
        code = worker.wait()
        place.past.append(worker)
        place.gone_at = self.clock.monotonic()
        return code

    def keep(self) -> None:
        """Start again what ended by itself or was killed, as a scheduler of containers does."""
        for place in self.places:
            if place.is_busy:
                continue
            if place.worker is not None and self.has_ended(place):
                code = self.bury(place)
                place.exits.append(code)
                self.timeline.note("worker_ended", worker=place.name, code=code)
            if place.worker is None and self.clock.monotonic() - (place.gone_at or 0) >= _RESTART_SECONDS:
                self.start(place)

    def has_ended(self, place: Seat) -> bool:
        """Tell whether the place's supervisor is no more."""
        return place.worker is None or not is_running(place.worker.pid)

    def mending(self) -> list[str]:
        """Return the workers whose present run of the stream has ended, or is about to: something failed since."""
        begun = "stream_started" if self._of_stream else "daemon_started"
        return [
            place.name
            for place in self.places
            if place.worker is None or place.worker.events.last(*_ENDINGS, begun, **self._of_stream) != begun
        ]

    def idle_places(self) -> list[Seat]:
        """Return the places with a running worker that no act has its hands on."""
        return [place for place in self.places if not place.is_busy and not self.has_ended(place)]

    def holds(self, place: Seat) -> set[str]:
        """Return the open shards that KCL's table gives to the place's worker."""
        return {
            shard for shard, row in self.leases().items() if row.owner == place.name and row.checkpoint != "SHARD_END"
        }

    def leases(self) -> dict[str, LeaseRow]:
        """Return the lease rows; none while there is no table. Every checkpoint seen is remembered."""
        try:
            rows = self.app.leases()
        except ClientError as exc:
            if exc.response["Error"]["Code"] != "ResourceNotFoundException":
                raise
            return {}
        self.checkpoints |= {(shard, row.checkpoint) for shard, row in rows.items() if row.checkpoint[0].isdigit()}
        return rows

    def all_held(self) -> set[str]:
        """Return the shards that are owned by anybody and not ended."""
        return {shard for shard, row in self.leases().items() if row.owner and row.checkpoint != "SHARD_END"}

    def give_lease(self, shard: str, successor: str) -> None:
        """Give a lease to another worker in the way of KCL's leader, unless its row has just changed.

        A hand-over that was under way ends with it: a `checkpointOwner` left behind would block the shard for ever.
        """
        row = self.leases()[shard]
        with suppress(self.app.dynamodb.exceptions.ConditionalCheckFailedException):
            self.app.dynamodb.update_item(
                TableName=self.app.name,
                Key={"leaseKey": {"S": shard}},
                UpdateExpression="SET leaseOwner = :successor, leaseCounter = leaseCounter + :one, "
                "ownerSwitchesSinceCheckpoint = ownerSwitchesSinceCheckpoint + :one REMOVE checkpointOwner",
                ConditionExpression="leaseCounter = :seen",
                ExpressionAttributeValues={
                    ":successor": {"S": successor},
                    ":one": {"N": "1"},
                    ":seen": {"N": str(row.counter)},
                },
            )

    def kill_s3(self) -> None:
        """SIGKILL S3."""
        self.is_s3_up = False
        self.aws.kill_s3()

    def restart_s3(self) -> None:
        """Start S3 again; it has what it had acknowledged."""
        self.aws.restart_s3()
        self.is_s3_up = True

    def restore(self) -> int:
        """Run `minutebook restore`; returns its exit code."""
        path = self.app.properties("restore")
        done = subprocess.run(
            [str(Path(sys.executable).with_name("minutebook")), "restore", str(path), "--apply"],
            env=self.app.environment(),
            capture_output=True,
            text=True,
            timeout=_RESTORE_SECONDS,
            check=False,
        )
        with (self._folder / "restore.log").open("a") as log:
            log.write(f"exit code {done.returncode}\n{done.stdout}{done.stderr}\n")
        self.restores.append(done.returncode)
        return done.returncode

    def events(self) -> list[Event]:
        """Return every event of the stream of every worker that ever lived, with the worker's name, in no order."""
        found = [
            {**json.loads(line), "worker": place.name}
            for place in self.places
            for worker in (*place.past, *([place.worker] if place.worker is not None else []))
            for line in worker.events.lines
            if line.startswith('{"') and line.endswith("}")
        ]
        return [event for event in found if self._of_stream.items() <= event.items()]

    def has_committed(self, shards: Iterable[str], workers: Iterable[str], since_ms: int) -> bool:
        """Tell whether each of these shards was committed to, since a moment, by one of these workers."""
        since = datetime.fromtimestamp(since_ms / 1000, tz=UTC)
        seen = {
            event["shard"]
            for place in self.places
            if place.name in workers and place.worker is not None
            for event in place.worker.events.all("segment_committed", **self._of_stream)
            if datetime.fromisoformat(event["timestamp"]) > since
        }
        return seen.issuperset(shards)

    def workers(self) -> list[Worker]:
        """Return every worker that ever lived."""
        return [
            worker
            for place in self.places
            for worker in (*place.past, *([place.worker] if place.worker is not None else []))
        ]

    def opened(self) -> set[str]:
        """Return the shards that any processor has opened so far."""
        return {
            event["shard"]
            for worker in self.workers()
            for event in worker.events.all("shard_opened", **self._of_stream)
        }

    def count_archived(self) -> int:
        """Return how many records are archived, by metadata alone."""
        return count_archived(self.app.store, PREFIX, self._counted)

    def write_logs(self) -> None:
        """Write what the processors and supervisors said, one file per life."""
        for place in self.places:
            lives = [*place.past, *([place.worker] if place.worker is not None else [])]
            for number, worker in enumerate(lives, 1):
                path = self._folder / f"{place.name}-life-{number}.log"
                path.write_text("\n".join(worker.events.lines) + "\n")

    def end(self) -> None:
        """SIGKILL whatever is left, deepest first, orphans included."""
        for place in self.places:
            if place.worker is not None:
                place.worker.__exit__()
        living = {process.pid: process.command for process in descendants(1)}
        for orphan in self._orphans:
            if living.get(orphan.pid) == orphan.command:
                send(orphan.pid, signal.SIGKILL)
