"""The daemon's own properties file: what the user wrote, the presets, and the start that all writers share."""

import contextlib
import io
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import javaproperties
import structlog

from consumer.archived.application import KclStart
from consumer.settings.settings import LoadedSettings, Settings
from minutebook.aws.roles import ROLE_SESSION
from minutebook.errors import SettingsError

PRESETS: Final[Mapping[str, str]] = {
    # SIGTERM: without it the children are not asked to commit what they hold (the daemon's default is 0).
    "shutdownGraceMillis": "25000",
    # The empty calls are the tick by which an idle shard's minute is committed.
    "callProcessRecordsEvenForEmptyRecordList": "true",
    # Unset means enhanced fan-out, which is paid for by the hour.
    "retrievalMode": "POLLING",
    "AwsCredentialsProvider": "DefaultCredentialsProvider",
    # KCL 3.1.3 never finishes a graceful hand-over that comes upon a shard still waiting for its parents
    # (awslabs/amazon-kinesis-client#1729, #1743): the old owner renews the lease, nobody reads the shard, and a
    # restart does not help. The archive needs no grace: the next owner reads again from the checkpoint.
    "isGracefulLeaseHandoffEnabled": "false",
    # How often the leader gives leases away, and half of how often a worker looks for its own. KCL's 20 s leave a
    # shard without a reader for so long; loads are still balanced once a minute.
    "leaseAssignmentIntervalMillis": "4000",
    "varianceBalancingFrequency": "15",
    # KCL 3 uses it for one thing: it sleeps that long after it has made rows, before the first shard is read. Its own
    # default is a minute.
    "shardSyncIntervalMillis": "1000",
}
"""What `consume` sets unless the file says otherwise."""

_WHO: Final = "AwsCredentialsProvider"
_TICK: Final = "callProcessRecordsEvenForEmptyRecordList"
_RECORDS: Final = "maxRecords"
_IDLE: Final = "idleTimeBetweenReadsInMillis"
_KCL_RECORDS: Final = 10_000


class _Step(NamedTuple):
    """Records of a read, and milliseconds between two: a full shard takes in 1,000 records a second."""

    records: int
    idle_millis: int


_STEPS: Final = (_Step(1000, 500), _Step(400, 250))
"""At most four reads a second: Kinesis allows five of a shard, to all of its readers together."""


class ReadSize:
    """How much the daemon reads at once: less after each one that ran out of memory, until `consume` ends.

    KCL holds several answers of each shard that catches up, and has no bound for all of them together. A daemon that
    died of a backlog meets the same one when it is started again, and would die of it again. Smaller answers are what
    bounds it (docs/performance.md). `ran_out` may be called from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._deaths = 0

    def ran_out(self) -> None:
        """Take that a daemon has ended for want of memory."""
        with self._lock:
            self._deaths += 1

    def bound(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return the values for the next daemon. A pause that they name stays: others may read the shard, too."""
        with self._lock:
            deaths = self._deaths
        if not deaths:
            return dict(values)
        step = _STEPS[min(deaths, len(_STEPS)) - 1]
        if int(values.get(_RECORDS, _KCL_RECORDS)) <= step.records:
            return dict(values)
        bounded = {_IDLE: str(step.idle_millis), **values, _RECORDS: str(step.records)}
        structlog.get_logger().warning(
            "reads_made_smaller",
            max_records=step.records,
            idle_millis=int(bounded[_IDLE]),
            next_step="nothing, if the backlog shrinks; else give the daemon more heap, or set maxRecords: "
            "minutebook docs runbook daemon_out_of_memory",
        )
        return bounded


def effective_properties(
    loaded: LoadedSettings, start: KclStart, *, worker_id: str, executable: str
) -> dict[str, str]:
    """Return the file that the daemon gets.

    The start is never the user's: it is the one stored beside the archive, so that every writer of a shard
    begins at the same record (docs/decisions/0004-deterministic-start.md).

    Raises:
        SettingsError: a name is set so that the processor cannot work.
    """
    values = {**PRESETS, "workerId": worker_id, "executableName": executable, "regionName": loaded.settings.region}
    values["streamName"] = loaded.settings.stream_name
    values |= {**_stream_role(loaded.settings), **loaded.kcl}
    if values[_TICK] != "true":
        raise SettingsError(
            f"{_TICK}=false leaves the last minute of an idle shard uncommitted", next_step="remove the line"
        )
    values.pop("initialPositionInStream", None)
    values.pop("initialPositionInStreamExtended", None)
    if start.at_seconds is None:
        values["initialPositionInStream"] = "TRIM_HORIZON"
    else:
        values["initialPositionInStreamExtended"] = str(start.at_seconds)
    return values | {f"minutebook.{name}": text for name, text in loaded.ours.items()}


def _stream_role(settings: Settings) -> dict[str, str]:
    """Return as whom KCL asks Kinesis, where that is another role: its tables and metrics are ours still.

    The class assumes the role anew before it expires (KclStsAssumeRoleCredentialsProvider.java).
    """
    access = settings.access
    if access.stream_role_arn is None:
        return {}
    words = ["StsAssumeRoleCredentialsProvider", access.stream_role_arn, ROLE_SESSION]
    words.append(f"endpointRegion={settings.region}")
    if access.stream_role_external_id is not None:
        words.append(f"externalId={access.stream_role_external_id}")
    ours = {f"{_WHO}{service}": PRESETS[_WHO] for service in ("DynamoDB", "CloudWatch")}
    return {_WHO: "|".join(words), **ours}


def processor_command(python: Path) -> str:
    """Return the daemon's `executableName`: the console script beside the running interpreter.

    Raises:
        SettingsError: it is missing, or its path holds a blank.
    """
    script = python.parent / "minutebook-processor"
    if not os.access(script, os.X_OK):
        raise SettingsError(
            f"{script} is missing or not executable", next_step="install the package minutebook in this environment"
        )
    return unsplittable(script)


def unsplittable(path: Path) -> str:
    """Return a path as a word of the daemon's command.

    Raises:
        SettingsError: it holds a blank, at which KCL splits the command, without quoting.
    """
    if " " in str(path):
        raise SettingsError(
            f"the daemon cannot start {str(path)!r}: it splits the command at blanks",
            next_step="install Minutebook under a path without blanks",
        )
    return str(path)


def write_effective(path: Path, values: Mapping[str, str]) -> None:
    """Write `values` to `path`, readable by its owner alone; a reader sees the old file or the new one, whole.

    Raises:
        SettingsError: the folder takes no file: the disk is full or read-only, or somebody removed it.
    """
    text = io.StringIO()
    javaproperties.dump(dict(sorted(values.items())), text, timestamp=False)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text.getvalue())
        draft.replace(path)
    except OSError as exc:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise SettingsError(
            f"{path} cannot be written: {exc.strerror}",
            next_step="make room on that disk, or name another folder with --state-dir",
        ) from exc
