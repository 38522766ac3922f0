"""The stable worker id, the state folder, and the lock that admits one daemon per worker id."""

import os
import socket
import stat
from pathlib import Path

import pytest

from consumer.worker.state_folder import lock_worker, prepare_state
from consumer.worker.worker_id import ECS_METADATA, stable_worker_id
from minutebook.errors import SettingsError
from tests.fakes.clock import ManualClock

TASK = "158d1c8083dd49d6b527399fd6414f5c"
URI = f"http://127.0.0.1:1/v4/{TASK}-4205190000"


def test_the_folder_is_private(tmp_path: Path) -> None:
    """Nobody else may read the daemon's file; a strange application name stays inside the folder."""
    state = prepare_state(tmp_path / "state", "../my app")

    assert state == tmp_path / "state" / ".._my_app"
    assert stat.S_IMODE(state.stat().st_mode) == 0o700


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """A file in the way is a settings error that names the option."""
    (tmp_path / "state").write_text("")

    with pytest.raises(SettingsError) as caught:
        prepare_state(tmp_path / "state", "a")
    assert "--state-dir" in caught.value.next_step


@pytest.mark.parametrize("of_application", [False, True])
def test_a_symbolic_link_is_refused(tmp_path: Path, *, of_application: bool) -> None:
    """Whoever made it can point it elsewhere later."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "state").mkdir()
    link = tmp_path / "state" / "app" if of_application else tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SettingsError, match="is a symbolic link") as caught:
        prepare_state(tmp_path / "state" if of_application else link, "app")
    assert "--state-dir" in caught.value.next_step


def test_a_folder_that_everybody_may_write_to_is_refused(tmp_path: Path) -> None:
    """Anybody could exchange the daemon's file, which names what is executed; not so in a folder like /tmp."""
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o777)
    with pytest.raises(SettingsError, match="can be written to by everybody"):
        prepare_state(state, "app")
    state.chmod(0o1777)
    assert prepare_state(state, "app") == state / "app"


@pytest.mark.parametrize("below", ["", "of/mine"])
def test_a_parent_that_everybody_may_write_to_is_refused(tmp_path: Path, below: str) -> None:
    """Anybody could move our folder away and put theirs in its place; not so in a folder like /tmp."""
    parent = tmp_path / "shared"
    parent.mkdir()
    parent.chmod(0o777)
    with pytest.raises(SettingsError, match="shared can be written to by everybody") as caught:
        prepare_state(parent / below / "state", "app")
    assert "--state-dir" in caught.value.next_step
    parent.chmod(0o1777)
    assert prepare_state(parent / below / "state", "app") == parent / below / "state" / "app"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_parent_of_somebody_else_is_refused(tmp_path: Path) -> None:
    """Its owner can move what is ours."""
    parent = tmp_path / "theirs"
    parent.mkdir()
    os.chown(parent, 12345, 12345)
    with pytest.raises(SettingsError, match="theirs belongs to somebody else"):
        prepare_state(parent / "state", "app")


def test_a_parent_behind_a_link_is_looked_at(tmp_path: Path) -> None:
    """The link is ours, and stays; on the way to its target somebody else may move things."""
    shared = tmp_path / "shared"
    (shared / "target").mkdir(parents=True)
    (tmp_path / "link").symlink_to(shared / "target")
    assert prepare_state(tmp_path / "link" / "state", "app").is_dir()
    shared.chmod(0o777)
    with pytest.raises(SettingsError, match="shared can be written to by everybody"):
        prepare_state(tmp_path / "link" / "state", "app")


def test_a_volume_of_a_container_may_be_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes makes an emptyDir for everybody, and puts nobody else there."""
    tmp_path.chmod(0o777)
    monkeypatch.setattr(Path, "is_mount", lambda path: path == tmp_path)
    assert prepare_state(tmp_path / "minutebook-10001", "app").is_dir()


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_parents_that_are_made_are_writable_to_their_owner_alone(tmp_path: Path, umask: int) -> None:
    """Whatever the umask."""
    before = os.umask(umask)
    try:
        state = prepare_state(tmp_path / "a" / "b" / "state", "app")
    finally:
        os.umask(before)
    assert all(not stat.S_IMODE(path.stat().st_mode) & 0o022 for path in (state, *state.parents[:3]))


def test_a_disk_that_takes_no_file_is_one_sentence(tmp_path: Path) -> None:
    """Full, read-only, or the folder is gone: a settings error with a way out, no traceback."""
    with pytest.raises(SettingsError, match=r"w\.lock: No such file") as caught:
        lock_worker(tmp_path / "gone", "w", ManualClock())
    assert "--state-dir" in caught.value.next_step


def test_the_second_daemon_is_refused(tmp_path: Path) -> None:
    """A live holder keeps others out, after they have waited for a daemon that may be stopping."""
    clock = ManualClock()
    held = lock_worker(tmp_path, "w", clock)
    try:
        with pytest.raises(SettingsError, match="runs already"):
            lock_worker(tmp_path, "w", clock)
    finally:
        os.close(held)
    assert sum(clock.slept) >= 30


def test_another_worker_id_is_another_lock(tmp_path: Path) -> None:
    """Two workers on one host are fine when their ids differ."""
    clock = ManualClock()
    locks = [lock_worker(tmp_path, name, clock) for name in ("w-1", "w-2")]

    assert clock.slept == []
    for lock in locks:
        os.close(lock)


def test_the_lock_is_free_when_its_holder_is_gone(tmp_path: Path) -> None:
    """Waiting ends as soon as the stopping daemon has closed the lock."""
    clock = ManualClock()
    held = lock_worker(tmp_path, "w", clock)
    clock.on_sleep = lambda _: os.close(held)

    os.close(lock_worker(tmp_path, "w", clock))
    assert len(clock.slept) == 1


def test_outside_ecs_the_host_name() -> None:
    """A host that comes back resumes its own leases."""
    assert stable_worker_id({}) == socket.gethostname()


def test_inside_ecs_the_task_id() -> None:
    """The task's id is the last part of its ARN."""
    asked = []

    def fetch(url: str) -> str:
        asked.append(url)
        return f'{{"TaskARN": "arn:aws:ecs:us-west-2:111122223333:task/default/{TASK}"}}'

    assert stable_worker_id({ECS_METADATA: URI}, fetch) == TASK
    assert asked == [URI + "/task"]


def test_without_an_answer_the_task_id_from_the_path() -> None:
    """The metadata endpoint may be slow at a task's start; its path names the task."""

    def fetch(url: str) -> str:
        raise TimeoutError(url)

    assert stable_worker_id({ECS_METADATA: URI}, fetch) == TASK


def test_an_answer_that_is_no_json() -> None:
    """A proxy's page is not a task."""
    assert stable_worker_id({ECS_METADATA: URI}, lambda _: "<html>") == TASK
