# ruff: noqa: N818 - the names say what happened (LeaseLost, OutcomeUnknown); all end the same way in the tree
"""Every error that Minutebook raises on purpose, and the exit code that each ends a process with.

Exit code 0 is success, 3 and 4 belong to the audit (defects found, could not prove).
"""

from collections.abc import Iterable
from typing import ClassVar, Final

WORST_FIRST: Final = (1, 3, 6, 2, 5, 7, 4, 0)
"""Exit codes, the worst first: a run over several days or streams exits with the worst one.

    1  a bug
    3  records are lost or doubled: nothing else may hide that
    6  a person must decide
    2  a person must grant or correct something
    5  running it again may be enough
    7  unhealthy, too late
    4  nothing wrong was found, and something could not be proven
    0  clean
"""


def worst(codes: Iterable[int]) -> int:
    """Return the worst exit code; 0 without any."""
    return min(codes, key=WORST_FIRST.index, default=0)


class MinutebookError(Exception):
    """Root of the tree. `next_step` tells an operator what to do now; it is logged beside the message."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, next_step: str = "") -> None:
        super().__init__(message)
        self.next_step = next_step


class SettingsError(MinutebookError):
    """A setting is missing, unknown or out of range. Raised before any I/O."""

    exit_code = 2


class StoreError(MinutebookError):
    """A request to the object store failed."""


class StoreRefused(StoreError):
    """The store refused for good: access denied, no such bucket, invalid argument."""

    exit_code = 2


class ObjectArchived(StoreRefused):
    """An object lies in an archive tier. It is there, and what it holds cannot be proven before it is restored."""

    exit_code = 4


class StoreUnavailable(StoreError):
    """The store stayed unavailable until the retry budget was spent. Nothing was checkpointed."""

    exit_code = 5


class OutcomeUnknown(StoreError):
    """The request may or may not have been applied: send the same bytes to the same key again, never guess."""

    exit_code = 5


class ForeignObject(StoreError):
    """An object without our metadata lives at a key that is ours."""


class ObjectVanished(StoreError):
    """An object disappeared between two requests: something else deletes below the prefix."""


class StreamRefused(MinutebookError):
    """Kinesis refused for good: no such stream, access denied."""

    exit_code = 2


class StreamUnavailable(MinutebookError):
    """Kinesis stayed unavailable until the retry budget was spent."""

    exit_code = 5


class TableRefused(MinutebookError):
    """DynamoDB refused for good: access denied, a table of another kind."""

    exit_code = 2


class TableUnavailable(MinutebookError):
    """DynamoDB stayed unavailable until the retry budget was spent."""

    exit_code = 5


class RegistryRefused(MinutebookError):
    """The registry of schemas refused for good: access denied."""

    exit_code = 2


class RegistryUnavailable(MinutebookError):
    """The registry of schemas stayed unavailable until the retry budget was spent."""

    exit_code = 5


class CatalogRefused(MinutebookError):
    """The Iceberg catalog refused for good: access denied, a table of another kind."""

    exit_code = 2


class CatalogUnavailable(MinutebookError):
    """The Iceberg catalog stayed unavailable, or others kept changing the table, until the budget was spent."""

    exit_code = 5


class DayNotPublished(MinutebookError):
    """A requested day is not published, or its verdict is not one of those requested."""

    exit_code = 2


class FormatError(MinutebookError):
    """A key, line, marker or metadata field does not parse. The message names it."""


class DeliveryDoubt(MinutebookError):
    """The daemon delivered a record that it must not deliver, such as one out of order."""


class DaemonGone(MinutebookError):
    """The pipe to the daemon is broken: our last message did not arrive, and it delivers no more records."""


class BufferTooOld(MinutebookError):
    """An uncommitted buffer outlived `maxSegmentAgeSeconds` and was thrown away; KCL delivers it again."""


class CheckpointFailed(MinutebookError):
    """KCL refused a checkpoint for good."""


class ShardEndUnproven(MinutebookError):
    """The daemon reported the end of a shard that the stream does not confirm."""


class SafetyRefusal(MinutebookError):
    """Continuing could lose or duplicate records. A person has to decide."""

    exit_code = 6


class LeaseLost(MinutebookError):
    """A newer owner of the shard exists. The processor drops its buffer and commits nothing more."""
