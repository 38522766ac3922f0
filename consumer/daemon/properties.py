"""The daemon's own properties file: the user's lines, the presets, and the start that all writers share."""

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
    # Without it (the daemon's default is 0), SIGTERM does not ask the children to commit their buffers.
    "shutdownGraceMillis": "25000",
    # Empty calls are the tick by which an idle shard's minute is committed.
    "callProcessRecordsEvenForEmptyRecordList": "true",
    # Unset means enhanced fan-out, which AWS charges by the hour.
    "retrievalMode": "POLLING",
    # Unset means DETAILED: one more permission, and a charge for each metric. The supervisor has metrics of its own.
    "metricsLevel": "NONE",
    "AwsCredentialsProvider": "DefaultCredentialsProvider",
    # KCL 3.1.3 never finishes a graceful hand-over of a shard that still waits for its parents
    # (awslabs/amazon-kinesis-client#1729, #1743): the old owner renews the lease, nobody reads the shard, and a
    # restart does not help. The archive needs no grace: the next owner reads again from the checkpoint.
    "isGracefulLeaseHandoffEnabled": "false",
    # How often the leader assigns leases; workers read their own twice as often. KCL's 20 s leave a shard without a
    # reader for that long. Loads are still balanced once a minute.
    "leaseAssignmentIntervalMillis": "4000",
    "varianceBalancingFrequency": "15",
    # KCL 3 only uses it to sleep between creating rows and reading the first shard; its default is a minute.
    "shardSyncIntervalMillis": "1000",
}
"""What `consume` sets unless the file says otherwise."""

_WHO: Final = "AwsCredentialsProvider"
_TICK: Final = "callProcessRecordsEvenForEmptyRecordList"
_RECORDS: Final = "maxRecords"
_IDLE: Final = "idleTimeBetweenReadsInMillis"
_KCL_RECORDS: Final = 10_000


class _Step(NamedTuple):
    """Records of a read, and milliseconds between reads; a full shard receives 1,000 records a second."""

    records: int
    idle_millis: int


_STEPS: Final = (_Step(1000, 500), _Step(400, 250))
"""At most four reads a second: Kinesis allows five per shard, for all of its readers together."""


class ReadSize:
    """The daemon's `maxRecords`, smaller after each daemon that ran out of memory, until `consume` ends.

    KCL holds several answers of each shard that catches up, without a limit for all of them together. A daemon that
    ran out of memory in a backlog would do so again after a restart; smaller answers prevent that
    (docs/performance.md). `ran_out` may be called from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._deaths = 0

    def ran_out(self) -> None:
        """Note that a daemon ran out of memory."""
        with self._lock:
            self._deaths += 1

    def bound(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return the values for the next daemon; a pause set by the user stays, because others may read the shard."""
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
    """Return the lines of the daemon's file; raises SettingsError where the processor could not work with one.

    The start never comes from the user's file but from the archive's record, so that every writer of a shard begins
    at the same record (docs/decisions/0004-deterministic-start.md).
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
    """Return the credentials for another account's stream, which renew themselves: only Kinesis gets the role."""
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
    """Return the daemon's `executableName`, the console script beside the interpreter; raises SettingsError."""
    script = python.parent / "minutebook-processor"
    if not os.access(script, os.X_OK):
        raise SettingsError(
            f"{script} is missing or not executable", next_step="install the package minutebook in this environment"
        )
    return unsplittable(script)


def unsplittable(path: Path) -> str:
    """Return a path for the daemon's command; raises SettingsError for a blank, at which KCL splits it."""
    if " " in str(path):
        raise SettingsError(
            f"the daemon cannot start {str(path)!r}: it splits the command at blanks",
            next_step="install Minutebook under a path without blanks",
        )
    return str(path)


def write_effective(path: Path, values: Mapping[str, str]) -> None:
    """Replace the file at `path` atomically, readable by its owner only; raises SettingsError if it cannot."""
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
