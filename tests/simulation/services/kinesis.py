"""Kinesis as boto3 shows it: the real `consumer.stream.kinesis.KinesisStream` runs on this client.

A shard remembers what was put when; retention trims from the oldest on. What Kinesis does with an iterator at a
trimmed number is said in two ways, so a history takes one of them.
"""

from collections.abc import Mapping, Sequence
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec
from botocore.exceptions import ClientError

from tests.fakes.shard import SHARD, FakeShard
from tests.fakes.wire import delivered_record
from tests.simulation.services.bucket import SIGNATURE_SECONDS
from tests.simulation.world import Host, World
from tests.witness.aggregate import aggregate

if TYPE_CHECKING:
    from minutebook.format.position import Position

HOUR: Final = 3600
ARN: Final = "arn:aws:kinesis:eu-central-1:000000000000:stream/flights"


class Moment(float):
    """A time in epoch seconds that answers like a datetime."""

    def timestamp(self) -> float:
        """Return itself."""
        return self


Fault = Literal["empty", "malformed", "outside_hash_range"]


class KinesisRecord(NamedTuple):
    """A Kinesis record, its number and that of its first user record, and how many of them KCL can deliver.

    `data` is None where the user records say all. Of a `fault` KCL delivers, by the shard's hash keys, only the first
    `good` user records.
    """

    number: int
    sequence: int
    first: int
    size: int
    arrival_ms: int
    put_at: float
    partition_key: str
    data: bytes | None
    fault: Fault | None
    good: int


class SimShard(FakeShard):
    """A shard that knows when each record was put, and the number of each.

    `strays` are the numbers of the user records that KCL leaves out by the shard's hash keys, and delivers where it
    does not know these; what it never delivers has no number.
    """

    def __init__(self, shard_id: str = SHARD, *, first_sequence: int) -> None:
        super().__init__(shard_id, first_sequence=first_sequence)
        self.index: dict[Position, int] = {}
        self.put_at: list[float] = []
        self.wire: list[bytes] = []
        self.held: list[KinesisRecord] = []
        self.strays: set[int] = set()
        self._number_of: dict[int, int] = {}
        self._held_from = 0

    @property
    def trimmed(self) -> int:
        """How many records are gone; the index of the oldest held one."""
        return self._trimmed

    @property
    def held_from(self) -> int:
        """The number of the oldest Kinesis record that is held."""
        return self._held_from

    def held_at(self, sequence: int) -> int | None:
        """Return the number of a Kinesis record, held or not; None when there never was one."""
        return self._number_of.get(sequence)

    def put_now(
        self,
        payloads: Sequence[bytes],
        arrival_ms: int,
        key: str,
        now: float,
        gap: int,
        *,
        data: bytes | None = None,
        fault: Fault | None = None,
    ) -> None:
        """Append an aggregate, or a plain record when there is one payload.

        With a `fault` it is `data` of which KCL can deliver the payloads, and does so by the shard's hash keys unless
        these are what is wrong with it.
        """
        first, sequence, number = len(self.put_at), self.next, len(self.held)
        for record in self.put_aggregate(payloads, arrival_ms, key, gap=gap):
            self.index[record.position] = len(self.put_at)
            self.put_at.append(now)
            self.wire.append(msgspec.json.encode(delivered_record(record)))
        size = len(self.put_at) - first
        good = 0 if fault == "outside_hash_range" else size
        if good < size:
            self.strays.update(range(first, first + size))
        self._number_of[sequence] = number
        self.held.append(KinesisRecord(number, sequence, first, size, arrival_ms, now, key, data, fault, good))

    def trim_before(self, moment: float) -> int:
        """Let retention take the Kinesis records put before `moment`; return how many user records went."""
        begin = self._trimmed
        while self._held_from < len(self.held) and self.held[self._held_from].put_at < moment:
            self._trimmed += self.held[self._held_from].size
            self._held_from += 1
        return self._trimmed - begin


class SimStream:
    """One stream, as seen from one of its shards."""

    def __init__(self, world: World, shard: SimShard, *, arn: str, created: float, retention_hours: int) -> None:
        self.world = world
        self.shard = shard
        self.arn = arn
        self.created = created
        self.retention_hours = retention_hours
        self.listed = True
        self.born = created
        self.knows_filters = not world.chance(0.2)
        self.names_dates = not world.chance(0.1)
        self.refuses_trimmed = world.chance(0.5)
        self.fault_rate = 0.0
        self.closed_at: float | None = None
        self.shards: list[SimStream] = [self]
        """One value of this class for each shard of the stream, this one included."""

    def trim(self) -> int:
        """Let retention do its work."""
        horizon = self.world.now - self.retention_hours * HOUR
        if self.closed_at is not None and self.closed_at < horizon:
            self.listed = False
        return self.shard.trim_before(horizon)


class KinesisClient:
    """One machine's client of the stream."""

    def __init__(self, stream: SimStream, host: Host) -> None:
        self._stream = stream
        self._host = host

    def describe_stream_summary(self, *, StreamName: str) -> dict[str, Any]:  # noqa: ARG002, N803 - boto3's names
        """Name the stream."""
        self._ask("DescribeStreamSummary")
        stream = self._stream
        return self._dated() | {
            "StreamDescriptionSummary": {
                "StreamARN": stream.arn,
                "StreamCreationTimestamp": Moment(stream.created),
                "RetentionPeriodHours": stream.retention_hours,
            }
        }

    def list_shards(
        self,
        *,
        StreamName: str,  # noqa: ARG002, N803
        ShardFilter: Mapping[str, Any] | None = None,  # noqa: N803
    ) -> dict[str, Any]:
        """List the shards that are still listed, of them those that were open at a time or since."""
        self._ask("ListShards")
        listed = [stream for stream in self._stream.shards if stream.listed]
        if ShardFilter is not None and self._stream.shards[0].knows_filters:
            moment, is_at = ShardFilter["Timestamp"], ShardFilter["Type"] == "AT_TIMESTAMP"
            listed = [stream for stream in listed if stream.closed_at is None or stream.closed_at >= moment]
            listed = [stream for stream in listed if not is_at or stream.born <= moment]
        return self._dated() | {"Shards": [_row(stream.shard) for stream in listed]}

    def get_shard_iterator(
        self,
        *,
        StreamName: str,  # noqa: ARG002, N803
        ShardId: str,  # noqa: N803
        ShardIteratorType: str,  # noqa: N803
        StartingSequenceNumber: str = "0",  # noqa: N803
        Timestamp: float = 0,  # noqa: N803
    ) -> dict[str, Any]:
        """Return the index of the first record that will be read."""
        self._ask("GetShardIterator")
        shard = next(stream.shard for stream in self._stream.shards if stream.shard.shard_id == ShardId)
        if ShardIteratorType == "TRIM_HORIZON":
            return self._dated() | {"ShardIterator": (shard.held_from, shard)}
        if ShardIteratorType == "AT_TIMESTAMP":
            held = shard.held[shard.held_from :]
            since = (record.number for record in held if record.arrival_ms >= Timestamp * 1000)
            return self._dated() | {"ShardIterator": (next(since, len(shard.held)), shard)}
        known = shard.held_at(int(StartingSequenceNumber))
        if known is None:
            raise _error("InvalidArgumentException")
        if known < shard.held_from and self._stream.refuses_trimmed:
            raise _error("InvalidArgumentException")
        after = ShardIteratorType == "AFTER_SEQUENCE_NUMBER"
        return self._dated() | {"ShardIterator": (known + after, shard)}

    def get_records(self, *, ShardIterator: tuple[int, SimShard], Limit: int) -> dict[str, Any]:  # noqa: N803
        """Read some records, or now and then none although there are some."""
        self._ask("GetRecords")
        shard = ShardIterator[1]
        at = max(ShardIterator[0], shard.held_from)
        left = len(shard.held) - at
        if left and self._host.world.chance(0.1):
            return self._dated() | {"Records": [], "MillisBehindLatest": 1000, "NextShardIterator": (at, shard)}
        page = shard.held[at : at + Limit]
        is_last = len(page) == left
        return self._dated() | {
            "Records": [_record(shard, record) for record in page],
            "MillisBehindLatest": 0 if is_last else 1000,
            "NextShardIterator": None if shard.closed and is_last else (at + len(page), shard),
        }

    def _dated(self) -> dict[str, Any]:
        """Return what every answer carries: the service's own time."""
        stream = self._stream.shards[0]
        date = formatdate(int(stream.world.now), usegmt=True)
        self._host.point("after a request to Kinesis was answered")
        return {"ResponseMetadata": {"HTTPHeaders": {"date": date} if stream.names_dates else {}}}

    def _ask(self, what: str) -> None:
        self._host.request("Kinesis")
        self._host.counts[what] += 1
        self._host.point("before a request to Kinesis")
        if self._host.world.refuses_skew and abs(self._host.skew) > SIGNATURE_SECONDS:
            raise _error("InvalidSignatureException")
        if self._host.world.chance(self._stream.fault_rate):
            self._host.world.happened("Kinesis: throttled", self._host.name)
            raise _error(
                "ProvisionedThroughputExceededException" if what == "GetRecords" else "LimitExceededException"
            )


def _record(shard: SimShard, record: KinesisRecord) -> dict[str, Any]:
    return {
        "SequenceNumber": str(record.sequence),
        "ApproximateArrivalTimestamp": Moment(record.arrival_ms / 1000),
        "PartitionKey": record.partition_key,
        "Data": data_of(shard, record),
    }


def data_of(shard: SimShard, record: KinesisRecord) -> bytes:
    """Return what the stream holds of a record. Good aggregates name hash keys of their shard."""
    if record.data is not None:
        return record.data
    users = shard.everything[record.first : record.first + record.size]
    if len(users) == 1:
        return users[0].data
    keys = [(user.partition_key, user.data) for user in users]
    return aggregate(keys, hash_keys=[shard.hash_range.first] * len(users))


def _row(shard: SimShard) -> dict[str, Any]:
    numbers = {"StartingSequenceNumber": "0"} | ({"EndingSequenceNumber": str(2**63)} if shard.closed else {})
    row: dict[str, Any] = {
        "ShardId": shard.shard_id,
        "HashKeyRange": {
            "StartingHashKey": str(shard.hash_range.first),
            "EndingHashKey": str(shard.hash_range.last),
        },
        "SequenceNumberRange": numbers,
    }
    return row | dict(zip(("ParentShardId", "AdjacentParentShardId"), shard.parents, strict=False))


def _error(code: str) -> ClientError:
    return ClientError(
        {"Error": {"Code": code, "Message": ""}, "ResponseMetadata": {"HTTPStatusCode": 400}},  # type: ignore[typeddict-item] # what our code reads of it
        "simulated",
    )
