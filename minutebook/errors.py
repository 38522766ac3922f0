# ruff: noqa: N818 - the names say what happened (LeaseLost, OutcomeUnknown); all end the same way in the tree
"""Every error that Minutebook raises on purpose, and the exit code that each ends a process with.

    MinutebookError                 1   something is wrong; the message names it
      SettingsError                 2   bad usage or settings, found before any work
      StoreError
        StoreRefused                2   the service said no for good: permissions, bucket, arguments
        StoreUnavailable            5   retries are spent; nothing was checkpointed
        OutcomeUnknown              5   the request may have been applied: ask again with the same bytes
        ForeignObject               1   something that is not ours lives at our key
        ObjectVanished              1   an object was deleted while the protocol relied on it
      StreamRefused                 2   Kinesis said no for good: no such stream, permissions
      StreamUnavailable             5   Kinesis stayed unavailable until the budget was spent
      TableRefused                  2   DynamoDB said no for good: permissions, a table of another kind
      TableUnavailable              5   DynamoDB stayed unavailable until the budget was spent
      CatalogRefused                2   the Iceberg catalog said no for good: permissions, another kind of table
      CatalogUnavailable            5   the Iceberg catalog stayed unavailable, or its table kept changing
      DayNotPublished               2   a day that was asked for has no published table, or not with that verdict
      FormatError                   1   a key, line, marker or metadata field that does not parse
      DeliveryDoubt                 1   the daemon delivered what it never may deliver
      DaemonGone                    1   nothing can be read from the daemon, or told to it
      BufferTooOld                  1   the buffer outlived its guarantee and was thrown away
      CheckpointFailed              1   KCL refused a checkpoint for a reason that retrying cannot mend
      ShardEndUnproven              1   the daemon says the shard has ended and the stream does not agree
      SafetyRefusal                 6   going on could break exactly-once; a person must decide
      LeaseLost                     -   a newer owner exists; not a failure: the processor falls silent

Exit code 0 is success, 3 and 4 belong to the audit (defects found, could not prove).
"""

from typing import ClassVar


class MinutebookError(Exception):
    """Root of the tree.

    `next_step` says what a person does now; it goes into the log line beside the message.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, next_step: str = "") -> None:
        super().__init__(message)
        self.next_step = next_step


class SettingsError(MinutebookError):
    """A setting is missing, unknown or out of range. Raised before any I/O."""

    exit_code = 2


class StoreError(MinutebookError):
    """The object store did not do what was asked."""


class StoreRefused(StoreError):
    """The store refused for good: access denied, no such bucket, invalid argument."""

    exit_code = 2


class StoreUnavailable(StoreError):
    """The store stayed unavailable until the retry budget was spent. Nothing was checkpointed."""

    exit_code = 5


class OutcomeUnknown(StoreError):
    """The request may or may not have been applied.

    The only right reaction is to send the same bytes to the same key again: never to guess.
    """

    exit_code = 5


class ForeignObject(StoreError):
    """An object without our metadata lives at a key that is ours."""


class ObjectVanished(StoreError):
    """An object that was there a moment ago is gone: somebody deletes under our feet."""


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


class CatalogRefused(MinutebookError):
    """The Iceberg catalog refused for good: access denied, a table of another kind."""

    exit_code = 2


class CatalogUnavailable(MinutebookError):
    """The Iceberg catalog stayed unavailable, or others kept changing the table, until the budget was spent."""

    exit_code = 5


class DayNotPublished(MinutebookError):
    """A day that was asked for is not published, or its verdict is not one of those asked for."""

    exit_code = 2


class FormatError(MinutebookError):
    """A key, line, marker or metadata field does not parse. The message names it."""


class DeliveryDoubt(MinutebookError):
    """The daemon delivered something it never may deliver, such as a record out of order."""


class DaemonGone(MinutebookError):
    """The pipe to the daemon is broken: what it was to be told did not arrive, and it delivers no more."""


class BufferTooOld(MinutebookError):
    """An uncommitted buffer outlived `maxSegmentAgeSeconds` and was thrown away; KCL delivers it again."""


class CheckpointFailed(MinutebookError):
    """KCL refused a checkpoint for a reason that no retry can mend."""


class ShardEndUnproven(MinutebookError):
    """The daemon reported the end of a shard that the stream does not confirm."""


class SafetyRefusal(MinutebookError):
    """Going on could lose or double records. A person has to decide."""

    exit_code = 6


class LeaseLost(MinutebookError):
    """A newer owner of the shard exists. The processor drops what it holds and commits nothing more."""
