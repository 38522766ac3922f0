"""`minutebook health` without `--state-dir`: it finds a worker that has one, and believes no other user."""

import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from consumer.monitoring.health import HealthVerdict
from consumer.monitoring.health_file import HealthFile, health_path, health_paths, run_health
from consumer.worker.state_folder import default_state_folder, prepare_state
from minutebook.clock import SystemClock
from tests.fakes.clock import ManualClock

APPLICATION = "my-app"


class Host:
    """A host with a directory for temporary files, and a worker of a name."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def start(self, worker: str, *, state: str | None = "state", sentence: str = "healthy") -> list[Path]:
        """Let a worker write its verdict; returns the files."""
        folder = default_state_folder() if state is None else self.folder / state
        paths = health_paths(prepare_state(folder, APPLICATION), APPLICATION, worker)
        for path in paths:
            HealthFile(path, SystemClock()).write(HealthVerdict(is_healthy=True, sentence=sentence))
        return paths

    def health(self, worker: str, *, state: Path | None = None) -> tuple[int, str]:
        """Run the command for a worker's settings."""
        file = self.folder / f"{worker}.properties"
        lines = ["streamName=s", f"applicationName={APPLICATION}", "regionName=us-east-1", "minutebook.bucket=bbb"]
        file.write_text("\n".join([*lines, f"workerId={worker}"]))
        code = run_health(file, {}, state)
        return code, self._capsys.readouterr().out


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Host:
    """Return a host of its own."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    return Host(tmp_path, capsys)


def test_a_worker_with_a_state_folder_is_found(host: Host) -> None:
    """With the option and without it, by the same verdict."""
    assert len(host.start("w1")) == 2
    assert host.health("w1") == host.health("w1", state=host.folder / "state") == (0, "healthy\n")


def test_a_worker_in_the_default_folder_writes_once(host: Host) -> None:
    """There is nothing to copy, also where the folder is named."""
    assert len(host.start("w1", state=None)) == 1
    folder = prepare_state(default_state_folder(), APPLICATION)
    assert health_paths(folder, APPLICATION, "w1") == [health_path(folder, "w1")]
    assert host.health("w1") == (0, "healthy\n")


def test_each_of_two_workers_is_found(host: Host) -> None:
    """Whatever their folders are: by the worker id of the settings."""
    host.start("w1", state="one", sentence="healthy: the first")
    host.start("w2", state="other", sentence="healthy: the second")
    assert [host.health(worker)[1] for worker in ("w1", "w2")] == ["healthy: the first\n", "healthy: the second\n"]


def test_a_worker_that_is_gone_is_no_healthy_one(host: Host) -> None:
    """It was killed, and its last verdict is old; the next step is the option."""
    [_, copy] = host.start("w1")
    HealthFile(copy, ManualClock()).write(HealthVerdict(is_healthy=True, sentence="healthy"))
    code, line = host.health("w1")
    assert (code, "no daemon runs" in line, "--state-dir" in line) == (7, True, True)
    assert host.health("w1", state=host.folder / "state") == (0, "healthy\n")


def test_where_nobody_writes_the_option_is_named(host: Host) -> None:
    """Unless it was given: then that is where the worker would be."""
    assert "--state-dir" in host.health("w1")[1]
    assert "--state-dir" not in host.health("w1", state=host.folder / "state")[1]


def test_a_folder_that_another_user_can_write_to_is_not_believed(host: Host) -> None:
    """Anybody can make it in /tmp before we do. The worker runs without its copy, and says so."""
    default_state_folder().mkdir()
    default_state_folder().chmod(0o777)
    with capture_logs() as logs:
        paths = host.start("w1")
    assert [(log["event"], "--state-dir" in log["next_step"]) for log in logs] == [("health_not_written", True)]
    assert paths == [health_path(host.folder / "state" / APPLICATION, "w1")]
    forged = default_state_folder() / APPLICATION / "w1.health"
    forged.parent.mkdir()
    HealthFile(forged, SystemClock()).write(HealthVerdict(is_healthy=True, sentence="healthy"))
    code, line = host.health("w1")
    assert (code, "can be written to by everybody" in line, "--state-dir" in line) == (7, True, True)


def test_a_folder_of_another_user_is_not_believed(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the name that ours would have."""
    host.start("w1")
    folder = default_state_folder()
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    folder.rename(default_state_folder())
    if os.lstat(default_state_folder()).st_uid == 0:
        os.chown(default_state_folder(), 4712, -1)
    code, line = host.health("w1")
    assert (code, "belongs to somebody else" in line, "--state-dir" in line) == (7, True, True)


def test_a_place_for_temporary_files_that_is_none(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, no traceback; the worker runs without its copy."""
    (host.folder / "file").write_text("")
    monkeypatch.setattr("tempfile.tempdir", str(host.folder / "file"))
    with capture_logs():
        assert len(host.start("w1")) == 1
    code, line = host.health("w1")
    assert (code, "cannot be read" in line, "--state-dir" in line, line.count("\n")) == (7, True, True, 1)


def test_a_file_that_cannot_be_read_names_the_option(host: Host) -> None:
    """A folder lies in its place, or its rights are wrong."""
    for path in host.start("w1"):
        path.unlink()
        path.mkdir()
    code, line = host.health("w1")
    assert (code, "cannot be read" in line, "--state-dir" in line, line.count("\n")) == (7, True, True, 1)


def test_each_stream_of_a_folder_has_its_line(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    """By its own worker's file; 7 where one does not run here, and the healthy ones are told, too."""
    streams = host.folder / "streams"
    streams.mkdir()
    (streams / "shared.properties").write_text("regionName=us-east-1\nminutebook.bucket=bbb\nworkerId=w1\n")
    for name, application in (("clicks", "other-app"), ("orders", APPLICATION)):
        text = f"streamName={name}\napplicationName={application}\nminutebook.prefix={name}/\n"
        (streams / f"{name}.properties").write_text(text)
    host.start("w1")
    assert run_health(streams, {}, None) == 7
    heading, clicks, orders, last = capsys.readouterr().out.splitlines()
    assert heading.split() == ["stream", "exit"]
    assert clicks.startswith("clicks     7  unhealthy: no daemon runs")
    assert orders == "orders     0  healthy"
    assert last.startswith("1 of 2 stream(s)")
    assert run_health(streams, {}, None, stream="orders") == 0
    assert capsys.readouterr().out == "healthy\n"
