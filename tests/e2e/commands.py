"""Commands as a person runs them on an application, and a worker that counts what it is given."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

from consumer.status.report import StatusReport
from tests.e2e import counting_processor
from tests.e2e.harness import QUICK, Application
from tests.e2e.worker import Worker
from tests.witness.waiting import PATIENCE_SECONDS, wait_until

_BIN = Path(sys.executable).parent
_FAILOVER_SECONDS = int(QUICK["failoverTimeMillis"]) / 1000


@dataclass(kw_only=True)
class Answer:
    """What a run of the command said."""

    code: int
    text: str


def restore(app: Application, *options: str) -> Answer:
    """Run the command as a person does."""
    return run(app, "restore", *options)


def health(app: Application, worker_id: str = "w1") -> Answer:
    """Run `minutebook health` with a worker's settings, and without the state folder that its worker was given."""
    return run(app, "health", worker_id=worker_id)


def settled_health(app: Application) -> Answer:
    """Run it until the worker is healthy, has a shard, and nothing waits.

    The verdict is a file that is written every 5 s: it may be older than the shard's first record.
    """
    found: list[Answer] = []

    def is_settled() -> bool:
        found.append(health(app))
        return found[-1].code == 0 and ": 0 shards" not in found[-1].text and "nothing waits" in found[-1].text

    wait_until(is_settled, "the worker is healthy, has a shard, and nothing waits")
    return found[-1]


def status(app: Application) -> StatusReport:
    """Run `minutebook status --json`."""
    answer = run(app, "status", "--json")
    assert answer.code == 0, answer.text
    return msgspec.json.decode(answer.text, type=StatusReport)


def settled_status(app: Application) -> StatusReport:
    """Run it until it knows about every lease, and each was renewed in time: a busy worker renews late.

    Then it is rightly called unknown, or older than the failover time.
    """
    found: list[StatusReport] = []

    def knows_all() -> bool:
        found.append(status(app))
        return all(
            shard.lease != "unknown" and (shard.lease_age_seconds or 0) < _FAILOVER_SECONDS
            for shard in found[-1].shards
        )

    wait_until(knows_all, "status knows about every lease, and each was renewed in time")
    return found[-1]


def run(app: Application, command: str, *options: str, worker_id: str = "command") -> Answer:
    """Run any command of the application."""
    done = subprocess.run(
        [str(_BIN / "minutebook"), command, str(app.properties(worker_id)), *options],
        env={**app.environment(), "COLUMNS": "300"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    return Answer(code=done.returncode, text=done.stdout + done.stderr)


def counting_worker(app: Application, worker_id: str, folder: Path, counts: Path) -> Worker:
    """Start `minutebook consume` under another worker id, with the count between daemon and processor."""
    path = app.properties(worker_id)
    script = [sys.executable, counting_processor.__file__, str(counts), str(_BIN / "minutebook-processor"), str(path)]
    with path.open("a") as file:
        file.write(f"executableName = {' '.join(script)}\n")
    command = [str(_BIN / "minutebook"), "consume", str(path), "--state-dir", str(folder / worker_id)]
    return Worker(command, app.environment(), folder / f"{worker_id}.log")
