"""Whose archive it is: one prefix belongs to one stream, and begins with its application.

Shard ids repeat between streams. Another stream's segments under our settings would be judged by our checkpoints and
published as our rows, so what the prefix says of itself is asked first, at every level and by every command.
"""

import re
from typing import Final, NamedTuple

from archive.errors import FormatError, SafetyRefusal
from archive.format.keys import application_key
from archive.format.markers import ApplicationRecord, decode_marker
from archive.store.retrying import RetryingStorage

_ARN: Final = re.compile(r"arn:[^:]+:kinesis:([^:]+):([0-9]+):stream/([a-zA-Z0-9_.-]+)")


class StreamOwner(NamedTuple):
    """The stream of the settings. `account` is empty where they do not name one, as a stream name alone does not."""

    name: str
    region: str
    account: str = ""


def parse_stream_arn(text: str) -> StreamOwner | None:
    """Read the ARN of a stream; None when it is not one."""
    found = _ARN.fullmatch(text)
    return None if found is None else StreamOwner(found[3], found[1], found[2])


def read_owned(storage: RetryingStorage, prefix: str, owner: StreamOwner) -> ApplicationRecord | None:
    """Return the prefix's application record; None when it is missing or does not parse, which the audit reports.

    Raises:
        SafetyRefusal: the prefix belongs to another stream.
        StoreUnavailable, StoreRefused: the store.
    """
    key = application_key(prefix)
    stored = storage.get(key)
    if stored is None:
        return None
    try:
        record = decode_marker(stored.body, ApplicationRecord, key)
    except FormatError:
        return None
    named = parse_stream_arn(record.stream_arn)
    if named is None or not _is_same(named, owner):
        raise SafetyRefusal(
            f"prefix {prefix!r} belongs to the stream {record.stream_arn}, not to {owner.name} in {owner.region}"
            + (f" of account {owner.account}" if owner.account else ""),
            next_step="correct streamName, regionName, minutebook.bucket or minutebook.prefix: they name two streams",
        )
    return record


def _is_same(named: StreamOwner, owner: StreamOwner) -> bool:
    return (named.name, named.region) == (owner.name, owner.region) and owner.account in {"", named.account}
