"""The folder where a supervisor keeps the daemon's file, and the lock that admits one daemon per worker id.

Two live daemons with one worker id are not fenced from each other by KCL. The archive stays right (S3 decides),
but their leases would flicker; so the second one on a host is refused.
"""

import fcntl
import os
import re
import tempfile
from pathlib import Path
from typing import Final

from archive.clock import Clock
from archive.errors import SettingsError

_WAIT_SECONDS: Final = 35
"""A daemon whose supervisor was killed stops by itself, within its shutdown grace."""


def default_state_folder() -> Path:
    """Return the folder for this user, under the machine's folder for temporary files."""
    return Path(tempfile.gettempdir(), f"minutebook-{os.getuid()}")


def file_name(text: str) -> str:
    """Return `text` with everything replaced that a file's name or KCL's command line cannot hold."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text)


def prepare_state(folder: Path, application: str) -> Path:
    """Make and return the application's folder, which nobody else may read or have made.

    Raises:
        SettingsError: it belongs to somebody else, or cannot be made.
    """
    state = folder / file_name(application)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        state.mkdir(mode=0o700, exist_ok=True)
        owners = {folder.stat().st_uid, state.stat(follow_symlinks=False).st_uid}
    except OSError as exc:
        raise SettingsError(f"{state}: {exc.strerror}", next_step="name another folder with --state-dir") from exc
    if not owners <= {os.getuid(), 0}:  # whoever owns the parent can exchange what is in it
        raise SettingsError(f"{state} belongs to somebody else", next_step="name another folder with --state-dir")
    state.chmod(0o700)
    return state


def lock_worker(state: Path, worker_id: str, clock: Clock) -> int:
    """Lock the worker id and return the descriptor that holds the lock; the daemon inherits it.

    The lock lives as long as any process that holds the descriptor, so it also outlives a killed supervisor until
    its daemon is gone.

    Raises:
        SettingsError: another daemon with this id lives on this host.
    """
    path = state / f"{file_name(worker_id)}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
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
