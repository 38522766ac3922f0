"""Since when the leader's lock is seen unmoved, kept over restarts of `consume` on one host.

KCL counts anew with each daemon, and a lock whose holder is gone for good is never taken over where every daemon is
restarted within two minutes. A supervisor that forgot with each deployment would only wait a little longer.

The version is drawn at random by its holder (AmazonDynamoDBLockClient), so one that is unchanged was not moved in
between. Seconds are those since the host's start, and count for that start alone.
"""

from pathlib import Path
from typing import NamedTuple

import msgspec
import structlog

from consumer.leases.rows import LeaderLock
from consumer.worker.state_folder import boot_id, draft_of, write_whole


class SeenLock(NamedTuple):
    """A lock, and since when it is seen like that, on the clock that counts from the host's start."""

    lock: LeaderLock
    since: float


class _Note(msgspec.Struct, frozen=True, kw_only=True):
    """The file's content."""

    boot: str
    owner: str
    version: str
    since: float


class LockMemory:
    """A file of one worker id. `boot` names the host's start; without it nothing is remembered."""

    def __init__(self, path: Path, boot: str) -> None:
        self._path = path
        self._boot = boot
        self._written: SeenLock | None = None
        self._is_told = False

    def recall(self, now: float) -> SeenLock | None:
        """Return what was kept; None where there is nothing, or nothing that can be understood."""
        try:
            note = msgspec.json.decode(self._path.read_bytes(), type=_Note)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        if not self._boot or note.boot != self._boot or note.since > now:
            return None
        return SeenLock(LeaderLock(note.owner, note.version), note.since)

    def keep(self, seen: SeenLock) -> None:
        """Keep what is seen, where it has changed; a disk that takes no file costs the memory and no more."""
        if seen == self._written or not self._boot:
            return
        note = _Note(boot=self._boot, owner=seen.lock.owner, version=seen.lock.version, since=seen.since)
        try:
            write_whole(self._path, msgspec.json.encode(note))
        except OSError as exc:
            if not self._is_told:
                self._is_told = True
                structlog.get_logger().warning(
                    "leader_lock_not_remembered",
                    error=f"{draft_of(self._path)}: {exc.strerror}",
                    next_step="give --state-dir room: after a restart a dead leader's lock is waited for anew",
                )
            return
        self._written = seen


def lock_memory(path: Path) -> LockMemory:
    """Return the memory in a file, for the present start of this host."""
    return LockMemory(path, boot_id())
