"""Since when the leader's lock has not moved, kept over restarts of `consume` on one host.

KCL starts to count with each daemon, so if every daemon is restarted within two minutes, none takes over the lock of
a holder that is gone for good. This memory makes the supervisor count over restarts.

The holder draws the lock's version at random (AmazonDynamoDBLockClient), so an unchanged version has not moved in
between. Times are seconds since the host's boot, and are ignored after another boot.
"""

from pathlib import Path

import msgspec
import structlog

from consumer.leases.rows import LeaderLock
from consumer.liveness.rules import SeenLock
from consumer.worker.state_folder import draft_of, write_whole


class _LockNote(msgspec.Struct, frozen=True, kw_only=True):
    """The file's content."""

    boot: str
    owner: str
    version: str
    since: float


class LockMemory:
    """A file of one worker id. `boot` is the id of the host's boot; without it nothing is remembered."""

    def __init__(self, path: Path, boot: str) -> None:
        self._path = path
        self._boot = boot
        self._written: SeenLock | None = None
        self._is_logged = False

    def recall(self, now: float) -> SeenLock | None:
        """Return the stored lock; None if there is none, or the file does not parse."""
        try:
            note = msgspec.json.decode(self._path.read_bytes(), type=_LockNote)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        if not self._boot or note.boot != self._boot or note.since > now:
            return None
        return SeenLock(LeaderLock(note.owner, note.version), note.since)

    def keep(self, current: SeenLock) -> None:
        """Store a lock that has changed; a disk that takes no file costs only the memory."""
        if current == self._written or not self._boot:
            return
        note = _LockNote(boot=self._boot, owner=current.lock.owner, version=current.lock.version, since=current.since)
        try:
            write_whole(self._path, msgspec.json.encode(note))
        except OSError as exc:
            if not self._is_logged:
                self._is_logged = True
                structlog.get_logger().warning(
                    "leader_lock_not_remembered",
                    error=f"{draft_of(self._path)}: {exc.strerror}",
                    next_step="give --state-dir room: after a restart a dead leader's lock is waited for anew",
                )
            return
        self._written = current
