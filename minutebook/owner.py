"""Whose archive it is: one prefix belongs to one stream, and begins with its application.

Shard ids repeat between streams. Another stream's segments under our settings would swallow records, be judged by our
checkpoints and be published as our rows, so what the prefix says of itself is asked first, at every level and by
every command. Whoever asks Kinesis compares the stream itself (`check_stream`), all others its name (`read_owned`).
"""

import re
from typing import Final, NamedTuple, Protocol

from minutebook.errors import FormatError, SafetyRefusal
from minutebook.format.keys import application_key
from minutebook.format.markers import ApplicationRecord, decode_marker
from minutebook.store.retrying import RetryingStore

_ARN: Final = re.compile(r"arn:[^:]+:kinesis:([^:]+):([0-9]+):stream/([a-zA-Z0-9_.-]+)")


class StreamOwner(NamedTuple):
    """The stream of the settings. `account` is empty where they do not name one, as a stream name alone does not."""

    name: str
    region: str
    account: str = ""


class DescribedStream(Protocol):
    """A stream as Kinesis describes it. One that was deleted and made again keeps its ARN, not its creation time."""

    @property
    def arn(self) -> str:
        """Return its ARN."""
        ...

    @property
    def created_ms(self) -> int:
        """Return when it was created."""
        ...


def parse_stream_arn(text: str) -> StreamOwner | None:
    """Read the ARN of a stream; None when it is not one."""
    found = _ARN.fullmatch(text)
    return None if found is None else StreamOwner(found[3], found[1], found[2])


def read_application(store: RetryingStore, prefix: str) -> ApplicationRecord | None:
    """Return the prefix's application record, or None. Raises FormatError when it does not parse."""
    key = application_key(prefix)
    stored = store.get(key)
    return None if stored is None else decode_marker(stored.body, ApplicationRecord, key)


def read_owned(store: RetryingStore, prefix: str, owner: StreamOwner) -> ApplicationRecord | None:
    """Return the prefix's application record; None when it is missing or does not parse, which the audit reports.

    Raises:
        SafetyRefusal: the prefix belongs to another stream.
        StoreUnavailable, StoreRefused: the store.
    """
    try:
        record = read_application(store, prefix)
    except FormatError:
        return None
    if record is None:
        return None
    named = parse_stream_arn(record.stream_arn)
    if named is None or not _is_same(named, owner):
        raise SafetyRefusal(
            f"prefix {prefix!r} belongs to the stream {record.stream_arn}, not to {owner.name} in {owner.region}"
            + (f" of account {owner.account}" if owner.account else ""),
            next_step="correct streamName, regionName, minutebook.bucket or minutebook.prefix: they name two streams",
        )
    return record


def check_stream(record: ApplicationRecord, stream: DescribedStream, prefix: str) -> None:
    """Raise SafetyRefusal unless the record names this very stream."""
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


def _is_same(named: StreamOwner, owner: StreamOwner) -> bool:
    return (named.name, named.region) == (owner.name, owner.region) and owner.account in {"", named.account}
