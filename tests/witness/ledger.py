"""The ledger: what the stream acknowledged, record by record, and the producer that writes it.

The tests' own witness. A place is (shard, position); KPL aggregates count their user records from sub-sequence 0.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from demo.ledger import RecordRef, fingerprint
from minutebook.format.aggregate import DeliveredAggregate, HashRange, deaggregate
from minutebook.format.position import Position
from tests.witness.aggregate import aggregate

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient


class Sent(NamedTuple):
    """What a producer put: partition key and payload."""

    partition_key: str
    data: bytes


class Producer:
    """Puts records into one stream and keeps the ledger of what was acknowledged."""

    def __init__(self, client: "KinesisClient", stream: str) -> None:
        self._client = client
        self._stream = stream
        self.ledger: dict[RecordRef, Sent] = {}

    def put(self, records: Iterable[Sent]) -> list[RecordRef]:
        """Put plain records with one PutRecords; returns their places in the same order."""
        batch = list(records)
        answer = self._client.put_records(
            StreamName=self._stream,
            Records=[{"PartitionKey": record.partition_key, "Data": record.data} for record in batch],
        )
        assert answer.get("FailedRecordCount", 0) == 0, "the embedded Kinesis never throttles"
        places = [RecordRef(row["ShardId"], Position(int(row["SequenceNumber"]))) for row in answer["Records"]]
        for place, record in zip(places, batch, strict=True):
            self._note(place, record)
        return places

    def put_numbered(self, count: int, *, key: str | None = None, size: int = 40) -> list[RecordRef]:
        """Put `count` records of at least `size` bytes with distinct payloads; without `key` over all shards."""
        begin = len(self.ledger)
        return self.put(
            Sent(key or f"p-{begin + number}", f'{{"n":{begin + number}}}'.ljust(size).encode())
            for number in range(count)
        )

    def put_numbered_aggregate(self, count: int, *, key: str = "café-日", size: int = 100) -> list[RecordRef]:
        """Put one aggregate of `count` user records of at least `size` bytes with distinct payloads."""
        begin = len(self.ledger)
        return self.put_aggregate(
            [Sent(key, f'{{"n":{begin + number}}}'.ljust(size).encode()) for number in range(count)]
        )

    def put_aggregate(self, records: Sequence[Sent]) -> list[RecordRef]:
        """Put one KPL aggregate; every key of it must belong to the shard of the first key."""
        answer = self._client.put_record(
            StreamName=self._stream, PartitionKey=records[0].partition_key, Data=aggregate(records)
        )
        sequence = int(answer["SequenceNumber"])
        places = [RecordRef(answer["ShardId"], Position(sequence, sub)) for sub in range(len(records))]
        for place, record in zip(places, records, strict=True):
            self._note(place, record)
        return places

    def fingerprints(self) -> dict[RecordRef, bytes]:
        """Return the ledger as the demo's reader compares it."""
        return {place: fingerprint(sent.partition_key, sent.data) for place, sent in self.ledger.items()}

    def put_undeclared(self, records: Sequence[tuple[str, bytes]]) -> list[DeliveredAggregate]:
        """Put (partition key, data) as they are and note what KCL must deliver of each, which is returned, too.

        The stream must have one shard.
        """
        answer = self._client.put_records(
            StreamName=self._stream, Records=[{"PartitionKey": key, "Data": data} for key, data in records]
        )
        deliveries = [deaggregate(key, data) for key, data in records]
        for row, delivery in zip(answer["Records"], deliveries, strict=True):
            for user in delivery.delivered:
                place = RecordRef(row["ShardId"], Position(int(row["SequenceNumber"]), user.sub))
                self._note(place, Sent(user.partition_key, user.data))
        return deliveries

    def put_judged(
        self, key: str, data: bytes, range_of: Callable[[str], HashRange]
    ) -> tuple[RecordRef, DeliveredAggregate]:
        """Put one Kinesis record as it is, and note what KCL must deliver of it on the shard that it came to."""
        answer = self._client.put_record(StreamName=self._stream, PartitionKey=key, Data=data)
        shard, sequence = answer["ShardId"], int(answer["SequenceNumber"])
        delivery = deaggregate(key, data, range_of(shard))
        for user in delivery.delivered:
            self._note(RecordRef(shard, Position(sequence, user.sub)), Sent(user.partition_key, user.data))
        return RecordRef(shard, Position(sequence)), delivery

    def last(self) -> dict[str, Position]:
        """Return the last acknowledged position of each shard."""
        last: dict[str, Position] = {}
        for shard_id, position in self.ledger:
            last[shard_id] = max(position, last.get(shard_id, position))
        return last

    def _note(self, place: RecordRef, record: Sent) -> None:
        assert place not in self.ledger, f"the stream gave {place} twice"
        self.ledger[place] = record
