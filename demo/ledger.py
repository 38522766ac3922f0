"""The ledger: every record that the stream acknowledged, written down apart from Minutebook.

It is the demo's own witness. It holds positions as PutRecords returned them, so a producer's retry (the same
event under a second position) is two records here, as it is in the stream.
"""

import hashlib
import threading
from typing import NamedTuple

from demo.flights import Event
from minutebook.errors import MinutebookError
from minutebook.format.position import Position


class RecordRef(NamedTuple):
    """Which record of the stream: its shard, and its position there."""

    shard_id: str
    position: Position


class LedgerTotals(NamedTuple):
    """Records acknowledged, how many of them repeat an event, and the distinct events."""

    records: int
    retries: int

    @property
    def events(self) -> int:
        """Distinct events."""
        return self.records - self.retries


class Ledger:
    """Positions and fingerprints of all acknowledged records. Written by the feeder's thread, read by others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fingerprints: dict[RecordRef, bytes] = {}
        self._events: dict[RecordRef, str] = {}
        self._retries = 0

    def add(self, shard_id: str, sequence_number: str, event: Event, *, is_retry: bool) -> None:
        """Write down one record.

        Raises:
            MinutebookError: the stream returned a position twice, which makes every count below worthless.
        """
        ref = RecordRef(shard_id, Position(int(sequence_number)))
        with self._lock:
            if ref in self._fingerprints:
                raise MinutebookError(f"the stream returned {ref.shard_id} {ref.position} twice")
            self._fingerprints[ref] = fingerprint(event.partition_key, event.data)
            self._events[ref] = event.event_id
            self._retries += is_retry

    def totals(self) -> LedgerTotals:
        """Return the counts so far."""
        with self._lock:
            return LedgerTotals(len(self._fingerprints), self._retries)

    def records(self) -> dict[RecordRef, bytes]:
        """Return a copy: record -> fingerprint of key and payload."""
        with self._lock:
            return dict(self._fingerprints)

    def events(self) -> dict[RecordRef, str]:
        """Return a copy: record -> event id; a retry has the id of its event."""
        with self._lock:
            return dict(self._events)


def fingerprint(partition_key: str, data: bytes) -> bytes:
    """Return 16 bytes that identify a partition key and a payload."""
    key = partition_key.encode()
    return hashlib.blake2b(b"%d:%b%b" % (len(key), key, data), digest_size=16).digest()
