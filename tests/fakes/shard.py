"""A shard as Kinesis holds it: the records in order, whether it is closed, and what retention has trimmed.

Shared by the stream double and by the daemon doubles, which deliver from it.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from minutebook.aws.kinesis.answers import HeldRecord
from minutebook.format.aggregate import EVERY_HASH_KEY
from minutebook.format.position import Position

SHARD = "shardId-000000000000"
FIRST_SEQUENCE = 49_680_000_000_000_000_000_000_000_000_000_000_000_000_000_000_000_000_000
"""A sequence number as long as real ones (56 digits)."""


class UserRecord(NamedTuple):
    """One user record; those of one KPL aggregate share `position.sequence` and `arrival_ms`."""

    position: Position
    arrival_ms: int
    partition_key: str
    data: bytes


class FakeShard:
    """The records of one shard, oldest first."""

    def __init__(self, shard_id: str = SHARD, *, first_sequence: int = FIRST_SEQUENCE) -> None:
        self.shard_id = shard_id
        self.closed = False
        self.children: tuple[str, ...] = ()
        self.parents: tuple[str, ...] = ()
        self.hash_range = EVERY_HASH_KEY
        self.born_ms = 0
        self.closed_ms: int | None = None
        self.undelivered: list[HeldRecord] = []
        self._records: list[UserRecord] = []
        self._trimmed = 0
        self._next = first_sequence

    @property
    def next(self) -> int:
        """The sequence number of the next record."""
        return self._next

    @property
    def everything(self) -> Sequence[UserRecord]:
        """Every record ever put, the trimmed ones included."""
        return self._records

    @property
    def records(self) -> Sequence[UserRecord]:
        """The records that retention still holds."""
        return self._records[self._trimmed :]

    def put(self, data: bytes, arrival_ms: int, partition_key: str = "p1", *, gap: int = 7) -> UserRecord:
        """Append a plain record; sequence numbers are not dense."""
        return self.put_aggregate([data], arrival_ms, partition_key, gap=gap)[0]

    def put_aggregate(
        self, payloads: Iterable[bytes], arrival_ms: int, partition_key: str = "p1", *, gap: int = 7
    ) -> list[UserRecord]:
        """Append a KPL aggregate: one sequence number, one arrival time, sub-sequence numbers 0..n-1."""
        if self.closed:
            raise ValueError(f"{self.shard_id} is closed")
        sequence, self._next = self._next, self._next + gap
        added = [
            UserRecord(Position(sequence, sub), arrival_ms, partition_key, data) for sub, data in enumerate(payloads)
        ]
        self._records.extend(added)
        return added

    def put_undelivered(self, data: bytes, arrival_ms: int, partition_key: str = "p1") -> HeldRecord:
        """Append a Kinesis record of which KCL delivers nothing: an aggregate that is empty or another shard's."""
        sequence, self._next = self._next, self._next + 7
        self.undelivered.append(HeldRecord(sequence, arrival_ms, partition_key, data))
        return self.undelivered[-1]

    def close(self, *children: str) -> None:
        """End the shard, as a split or a merge does."""
        self.closed = True
        self.children = children

    def trim_through(self, position: Position) -> None:
        """Let retention take every record up to `position`, which must end an aggregate."""
        self._trimmed = sum(record.position <= position for record in self._records)

    def after(self, position: Position | None) -> list[UserRecord]:
        """Return the held records behind `position`; a position that is trimmed gives all that is left."""
        return [record for record in self.records if position is None or record.position > position]
