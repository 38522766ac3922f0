"""The folder where a supervisor keeps the daemon's file, and the lock that admits one daemon per worker id.

KCL does not fence two live daemons with one worker id from each other. The archive stays right (S3 decides), but
leases would change owners all the time; so the second daemon on a host is refused.
"""

import fcntl
import os
import re
import stat
import tempfile
from pathlib import Path
from typing import Final

from minutebook.clock import Clock
from minutebook.errors import SettingsError

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_WAIT_SECONDS: Final = 35
"""A daemon whose supervisor was killed stops within its shutdown grace."""


def default_state_folder() -> Path:
    """Return this user's folder in the directory for temporary files; raise SettingsError if there is none."""
    try:
        return Path(tempfile.gettempdir(), f"minutebook-{os.getuid()}")
    except FileNotFoundError as exc:
        raise SettingsError(
            f"no folder for temporary files can be written to: {exc.strerror}",
            next_step="make /tmp writable, set TMPDIR, or name a folder with --state-dir",
        ) from exc


def boot_id() -> str:
    """Return the id of the host's boot, for files with times since the boot; empty if unknown."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


def file_name(text: str) -> str:
    """Return `text` with `_` for each character that a file name or KCL's command line cannot hold."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text)


def prepare_state(folder: Path, application: str) -> Path:
    """Create and return the application's folder, readable by its owner alone.

    Raises SettingsError if another user could replace its files, or it cannot be created.
    """
    folder = folder.absolute()
    state = folder / file_name(application)
    try:
        for path in reversed(folder.parents):
            path.mkdir(mode=0o755, exist_ok=True)
        # A parent may be a link: the link must stay where it is, and so must each folder on the way to its target.
        target = folder.parent.resolve()
        for path in (*folder.parents, target, *target.parents):
            _refuse_movable(path)
        for path in (folder, state):
            path.mkdir(mode=0o700, exist_ok=True)
            _refuse_exchangeable(path)
        state.chmod(0o700)
    except OSError as exc:
        raise _unusable(state, exc) from exc
    return state


def _refuse_exchangeable(path: Path) -> None:
    """Refuse a folder in which others can replace our files: the daemon's file names what is executed.

    A world-writable folder such as /tmp passes with the sticky bit: only owners can rename there.
    """
    _refuse(path, weakness_of(path))


def weakness_of(path: Path) -> str | None:
    """Return why others can replace files in a folder, to follow its name; None: they cannot, or there is none."""
    try:
        info = path.lstat()
    except FileNotFoundError:
        return None
    return "is a symbolic link" if stat.S_ISLNK(info.st_mode) else _weakness(info)


def _refuse_movable(parent: Path) -> None:
    """Refuse a parent in which others can move our folder away and put theirs in its place.

    A mount passes: a container's volume is often writable to everybody (an emptyDir of Kubernetes), or belongs to a
    user that the container does not know, and nobody else is in there.
    """
    is_mount = parent.is_mount() and not parent.is_symlink()
    _refuse(parent, None if is_mount else _weakness(parent.lstat()))


def _weakness(info: os.stat_result) -> str | None:
    if info.st_uid not in {os.getuid(), 0}:
        return "belongs to somebody else"
    # The bits of a link mean nothing.
    if info.st_mode & stat.S_IWOTH and not info.st_mode & stat.S_ISVTX and not stat.S_ISLNK(info.st_mode):
        return "can be written to by everybody"
    return None


def _refuse(path: Path, reason: str | None) -> None:
    if reason is not None:
        raise SettingsError(f"{path} {reason}", next_step="name another folder with --state-dir")


def _unusable(path: Path, exc: OSError) -> SettingsError:
    return SettingsError(
        f"{path}: {exc.strerror}",
        next_step="name a folder on a disk that has room and can be written to with --state-dir",
    )


def lock_worker(state: Path, worker_id: str, clock: Clock) -> int:
    """Lock the worker id and return the descriptor that holds the lock; the daemon inherits it.

    The lock lives as long as any process with the descriptor, so it outlives a killed supervisor until its daemon is
    gone. Raises SettingsError if another daemon with this id lives on this host, or the file cannot be created.
    """
    path = state / f"{file_name(worker_id)}.lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as exc:
        raise _unusable(path, exc) from exc
    deadline = clock.monotonic() + _WAIT_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if clock.monotonic() >= deadline:
                os.close(descriptor)
                raise SettingsError(
                    f"a daemon with the worker id {worker_id} runs already on this host",
                    next_step="stop it, or set workerId to something else in the properties file",
                ) from None
            clock.sleep(0.25)
        else:
            return descriptor


def write_whole(path: Path, body: bytes) -> None:
    """Replace a file atomically; raises OSError, and the old file stays."""
    draft = draft_of(path)
    draft.write_bytes(body)
    draft.replace(path)


def draft_of(path: Path) -> Path:
    """Return the temporary path that `write_whole` uses."""
    return path.with_name(path.name + ".new")
