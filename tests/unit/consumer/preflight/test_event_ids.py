"""`doctor` says when event ids cannot be read from payloads as they come."""

import gzip
from functools import partial

import pytest

from consumer.preflight.stream import unread_id

gzipped = partial(gzip.compress, mtime=0)


@pytest.mark.parametrize(
    ("path", "payload", "told"),
    [
        (None, b"anything", None),
        ("event.id", b'{"event":{"id":7}}', None),
        ("event.id", b'{"event":{"id":7.5}}', "it is no JSON with a text or an integer there"),
        ("id", gzipped(b'{"id":7}'), "it is gzip"),
        ("id", b"\x28\xb5\x2f\xfd....", "it is zstd"),
        ("id", b"\xf3\x89\x9a\xc2....", None),
    ],
)
def test_the_oldest_record_must_hold_an_id(path: str | None, payload: bytes, told: str | None) -> None:
    """What it is instead is said; aggregates hold records of their own."""
    assert told == unread_id(path, payload)
