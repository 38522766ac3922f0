"""Check the owner of an archive: one prefix belongs to one stream, named in its application record.

Shard ids repeat between streams. With the prefix of another stream the writer would take its segments for our
records, and the audit would judge and publish them as ours, so every command checks the owner first. Commands that
talk to Kinesis compare the stream's ARN and creation time (`check_stream`), all others its name (`read_owned`).

The record also names the application that began the archive. The checkpoints of another one say nothing of this
archive, so commands that publish, delete or write leases refuse it (`check_application`); `audit` and `cat` go on.
"""

import re
from typing import Final, NamedTuple, Protocol

from minutebook.errors import FormatError, SafetyRefusal
from minutebook.format.keys import application_key
from minutebook.format.markers import ApplicationRecord, decode_marker
from minutebook.store.retrying import RetryingStore

_ARN: Final = re.compile(r"arn:[^:]+:kinesis:([^:]+):([0-9]+):stream/([a-zA-Z0-9_.-]+)")


class StreamOwner(NamedTuple):
    """The stream of the settings. `account` is empty if they name the stream without its ARN."""

    name: str
    region: str
    account: str = ""


class DescribedStream(Protocol):
    """A stream as Kinesis describes it. One that is deleted and re-created keeps its ARN, not its creation time."""

    @property
    def arn(self) -> str:
        """The stream's ARN."""

    @property
    def created_ms(self) -> int:
        """Its creation time in epoch milliseconds."""


def parse_stream_arn(text: str) -> StreamOwner | None:
    """Parse the ARN of a stream; None if it is not one."""
    match = _ARN.fullmatch(text)
    return None if match is None else StreamOwner(match[3], match[1], match[2])


def read_application(store: RetryingStore, prefix: str, *, must_exist: bool = False) -> ApplicationRecord | None:
    """Return the prefix's application record, or None; raises FormatError if it does not parse.

    `must_exist`: the archive has been begun.
    """
    key = application_key(prefix)
    return store.read(key, lambda stored: decode_marker(stored.body, ApplicationRecord, key), must_exist=must_exist)


def read_owned(
    store: RetryingStore, prefix: str, owner: StreamOwner, *, application: str = ""
) -> ApplicationRecord | None:
    """Return the prefix's application record; raises SafetyRefusal if the prefix belongs to another stream.

    With `application`, also if another one began the archive. None if the record is missing or does not parse: the
    audit reports both.
    """
    try:
        record = read_application(store, prefix, must_exist=True)
    except FormatError:
        return None
    if record is None:
        return None
    recorded = parse_stream_arn(record.stream_arn)
    if recorded is None or recorded != owner._replace(account=owner.account or recorded.account):
        raise SafetyRefusal(
            f"prefix {prefix!r} belongs to the stream {record.stream_arn}, not to {owner.name} in {owner.region}"
            + (f" of account {owner.account}" if owner.account else ""),
            next_step="correct streamName, regionName, minutebook.bucket or minutebook.prefix: they name two streams",
        )
    if application:
        check_application(record, application, prefix)
    return record


def require_archive(
    store: RetryingStore, prefix: str, stream: DescribedStream, application: str
) -> ApplicationRecord:
    """Return the application record of an archive that this application began for this stream.

    Raises SafetyRefusal if the prefix holds no archive, or that of another stream or application, and FormatError if
    the record does not parse.
    """
    record = read_application(store, prefix)
    if record is None:
        raise SafetyRefusal(
            f"no archive begins at prefix {prefix!r}", next_step="correct minutebook.bucket and minutebook.prefix"
        )
    check_stream(record, stream, prefix)
    check_application(record, application, prefix)
    return record


def disbelief(begun_by: str, application: str) -> str:
    """Return why the checkpoints of `application` do not count for an archive; empty: it has begun it."""
    if application == begun_by:
        return ""
    return f"the archive was begun by the application {begun_by}: the checkpoints of {application} are not believed"


def check_application(record: ApplicationRecord, application: str, prefix: str) -> None:
    """Raise SafetyRefusal unless this application began the archive."""
    if why := disbelief(record.application, application):
        raise SafetyRefusal(
            f"prefix {prefix!r}: {why}",
            next_step="correct applicationName, minutebook.bucket or minutebook.prefix: they name two applications",
        )


def check_stream(record: ApplicationRecord, stream: DescribedStream, prefix: str) -> None:
    """Raise SafetyRefusal unless the record names this stream, with the same creation time."""
    if record.stream_arn != stream.arn:
        raise SafetyRefusal(
            f"prefix {prefix!r} belongs to the stream {record.stream_arn}, not to {stream.arn}",
            next_step="use a new prefix for this stream: one prefix belongs to one stream",
        )
    if record.stream_created_ms != stream.created_ms:
        raise SafetyRefusal(
            f"prefix {prefix!r} belongs to an earlier stream of the name {record.stream_arn} "
            f"(created at {record.stream_created_ms} ms; the present one at {stream.created_ms} ms)",
            next_step="the stream was deleted and made again: use a new prefix and a new applicationName",
        )
