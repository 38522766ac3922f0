"""The ledger: every record that the stream acknowledged, written down apart from Minutebook.

It is the demo's own witness. It holds positions as PutRecords returned them, so a producer's retry (the same
event under a second position) is two records here, as it is in the stream.
"""

import hashlib
import threading
from typing import NamedTuple

from archive.errors import MinutebookError
from archive.format.position import Position
from demo.flights import Event


class Place(NamedTuple):
    """Where a record stands in the stream."""

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
    """Places and fingerprints of all acknowledged records. Written by the feeder's thread, read by others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fingerprints: dict[Place, bytes] = {}
        self._events: dict[Place, str] = {}
        self._retries = 0

    def add(self, shard_id: str, sequence_number: str, event: Event, *, is_retry: bool) -> None:
        """Write down one record.

        Raises:
            MinutebookError: the stream returned a position twice, which makes every count below worthless.
        """
        place = Place(shard_id, Position(int(sequence_number)))
        with self._lock:
            if place in self._fingerprints:
                raise MinutebookError(f"the stream returned {place.shard_id} {place.position} twice")
            self._fingerprints[place] = fingerprint(event.partition_key, event.data)
            self._events[place] = event.event_id
            self._retries += is_retry

    def totals(self) -> LedgerTotals:
        """Return the counts so far."""
        with self._lock:
            return LedgerTotals(len(self._fingerprints), self._retries)

    def records(self) -> dict[Place, bytes]:
        """Return a copy: place -> fingerprint of key and payload."""
        with self._lock:
            return dict(self._fingerprints)

    def events(self) -> dict[Place, str]:
        """Return a copy: place -> event id; a retry has the id of its event."""
        with self._lock:
            return dict(self._events)


def fingerprint(partition_key: str, data: bytes) -> bytes:
    """Return 16 bytes that stand for a partition key and a payload."""
    key = partition_key.encode()
    return hashlib.blake2b(b"%d:%b%b" % (len(key), key, data), digest_size=16).digest()
