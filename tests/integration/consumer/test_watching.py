"""The health check and the metrics server on the real parts: a processor as a process, an S3 that is cut, a port."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from consumer.child_logs.processor_log import read_event
from consumer.monitoring.health_file import HealthFile, health_path, run_health
from consumer.monitoring.labels import StreamLabels
from consumer.monitoring.watch import Watch
from consumer.worker.state_folder import file_name, prepare_state
from minutebook.clock import SystemClock
from minutebook.errors import SettingsError
from minutebook.metrics_server import LOOPBACK, serve_metrics
from tests.fakes.failing_s3 import FailingS3, WriteFault
from tests.fakes.failing_s3 import serve as serve_s3
from tests.integration.archive_site import Site
from tests.integration.supervised import Supervised, end
from tests.witness.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from tests.integration.process_daemon import ProcessDaemon


MINUTEBOOK: Final = Path(sys.executable).with_name("minutebook")
_LIMIT_SECONDS: Final = 5
"""Long enough that a busy machine asks while the processor is healthy."""


class Served:
    """A watch with its server, which hears a processor's lines as the supervisor hears them."""

    def __init__(self) -> None:
        self.watch = Watch(SystemClock(), limit_seconds=_LIMIT_SECONDS, labels=StreamLabels("archive", "flights"))
        self.watch.daemon_started(polls_leases=False)
        assert self.watch.metrics is not None
        self.port, self.stop = serve_metrics(LOOPBACK, 0, self.watch.metrics.registry, self.watch.verdict)
        self.processor: ProcessDaemon | None = None
        self._heard = 0

    def get(self, path: str) -> tuple[int, str]:
        """Return status and body."""
        if self.processor is not None:
            lines = self.processor.events.lines[self._heard :]
            self._heard += len(lines)
            for event in filter(None, (read_event(line.encode()) for line in lines)):
                self.watch.note(event)
        try:
            with urlopen(f"http://{LOOPBACK}:{self.port}{path}", timeout=PATIENCE_SECONDS) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as exc:
            with exc:
                return exc.code, exc.read().decode()

    def is_healthy(self) -> bool:
        """Ask `/healthz`."""
        return self.get("/healthz")[0] == 200


@pytest.fixture
def served() -> Iterator[Served]:
    """Return a served watch."""
    found = Served()
    yield found
    found.stop()


def test_healthz_turns_when_s3_is_cut_for_longer_than_the_limit(site: Site, served: Served) -> None:
    """And back again, when the processor has committed what it holds."""
    with (
        serve_s3(FailingS3()) as s3,
        site.processor(s3Endpoint=s3.endpoint, flushSeconds=0.2, logLevel="debug") as processor,
    ):
        served.processor = processor
        processor.start()
        site.put(3)
        processor.deliver()
        processor.events.wait("progress", oldest_ms=site.minutes[0])
        assert served.get("/healthz")[0] == 200
        s3.fail(lambda _: WriteFault.SLOW_DOWN)
        call = threading.Thread(target=processor.tick)
        SystemClock().sleep(0.3)
        call.start()
        wait_until(lambda: not served.is_healthy(), "the health check fails")
        status, sentence = served.get("/healthz")
        assert (status, "nothing committed for" in sentence, site.shard.shard_id in sentence) == (503, True, True)
        assert call.is_alive()
        behind = f'minutebook_behind_seconds{{application="archive",shard="{site.shard.shard_id}",stream="flights"}}'
        assert any(line.startswith(behind) and not line.endswith(" 0.0") for line in _metrics(served))
        s3.heal()
        call.join(PATIENCE_SECONDS)
        processor.events.wait("segment_committed")
        wait_until(served.is_healthy, "the health check passes again")
        assert f"{behind} 0.0" in _metrics(served)


def _metrics(served: Served) -> list[str]:
    return served.get("/metrics")[1].splitlines()


def test_nothing_else_is_served(served: Served) -> None:
    """Neither another path, nor a write; the registry is our own alone."""
    assert served.get("/")[0] == 404
    assert all("minutebook" in line for line in _metrics(served))


def test_a_port_that_is_taken_is_one_sentence(served: Served) -> None:
    """As is an address that is not this machine's."""
    metrics = served.watch.metrics
    assert metrics is not None
    for host, port in ((LOOPBACK, served.port), ("192.0.2.1", 0), ("no such host", 0)):
        with pytest.raises(SettingsError, match=r"metricsPort=\d+ on minutebook.metricsHost="):
            serve_metrics(host, port, metrics.registry, served.watch.verdict)


def test_the_supervisor_tells_the_watch(tmp_path: Path) -> None:
    """A batch that is skipped, a processor that is killed, one that fails, and the restarts between: once each."""
    supervised = Supervised(tmp_path, ("log:batch.json", "deserted", "fail:5"), TEST_METRICS="1")
    with supervised.process:
        assert supervised.finish() == 5
    for path in tmp_path.iterdir():
        end(int(path.read_text()))
    told = supervised.events[-1]
    moved = {name.removeprefix("minutebook_"): count for name, count in told["totals"].items() if count}
    assert moved == {"kcl_skipped": 1, "processors_killed": 1, "processor_failures": 1, "daemon_restarts": 2}
    assert told["verdict"] == "unhealthy: the daemon does not run"


def test_the_command_says_what_the_task_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line and 0 or 7; without a task 7 as well."""
    file = tmp_path / "my.properties"
    lines = [
        "streamName=s",
        "applicationName=my-app",
        "regionName=us-east-1",
        "minutebook.bucket=bbb",
        "workerId=w/1",
    ]
    file.write_text("\n".join(lines))
    state = prepare_state(tmp_path / "state", "my-app")
    watch = Watch(SystemClock())

    def asked() -> tuple[int, str]:
        code = run_health(file, {}, tmp_path / "state")
        return code, capsys.readouterr().out

    code, line = asked()
    assert (code, "no daemon runs" in line, line.count("\n")) == (7, True, 1)
    written = HealthFile(health_path(state, file_name("w/1")), SystemClock())
    written.write(watch.verdict())
    assert asked() == (7, "unhealthy: the daemon does not run\n")
    watch.daemon_started(polls_leases=False)
    written.write(watch.verdict())
    assert asked() == (0, "healthy: 0 shards, nothing waits\n")


@pytest.mark.parametrize(("body", "kind"), [("nonsense=1", "SettingsError"), (None, "SettingsError")])
def test_what_prevents_the_start_is_a_line_of_the_log(tmp_path: Path, body: str | None, kind: str) -> None:
    """With the schema of all others, and nothing beside it."""
    file = tmp_path / "my.properties"
    if body is not None:
        file.write_text(body)
    done = subprocess.run([MINUTEBOOK, "consume", file], capture_output=True, check=False, timeout=PATIENCE_SECONDS)
    (line,) = [json.loads(line) for line in done.stderr.splitlines()]
    assert (done.returncode, done.stdout, line["event"], line["kind"]) == (2, b"", "consume_failed", kind)
    assert line.keys() >= {"timestamp", "level", "error", "next_step", "exit_code"}
