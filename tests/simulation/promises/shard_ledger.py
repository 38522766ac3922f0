"""What is promised of one shard whose lines may be left out as a producer's duplicates."""

from collections.abc import Iterator

from consumer.dedupe.watermarks import WATERMARKS_BESIDE
from minutebook.compression import compression_of
from minutebook.format.minute import minute_of
from minutebook.format.position import Position
from minutebook.format.record import Record
from minutebook.format.segment import read_dropped, read_records
from tests.simulation.promises.ledger import Ledger
from tests.simulation.promises.objects import Segment
from tests.simulation.services.bucket import SIDE_OBJECTS, Bucket, Stored
from tests.simulation.services.kinesis import SimStream
from tests.simulation.world import Violation, World, name


class ShardLedger(Ledger):
    """The truth about one shard whose lines may be left out as a producer's duplicates.

    `verdicts` tells of each archived record None (kept) or what it is called a duplicate of; filled by `check`.
    `ever_dropped` are the records that any writer ever called duplicates, whether its segment came to be or not.
    """

    def __init__(self, world: World, stream: SimStream) -> None:
        super().__init__(world, stream)
        self.bucket: Bucket | None = None
        self.side_objects: dict[str, Stored] = {}
        self.verdicts: dict[int, str | None] = {}

    def created(self, key: str, stored: Stored) -> None:
        """Look at a new object."""
        if key.startswith(SIDE_OBJECTS):
            self.side_objects[key] = stored
        else:
            super().created(key, stored)

    def ever_dropped(self) -> Iterator[tuple[int, str]]:
        """Yield every line of every `_duplicates` object."""
        for key, stored in self.side_objects.items():
            if key.startswith(SIDE_OBJECTS[0]):
                for position, _, duplicate_of in read_dropped(stored.body, self.shard.shard_id, compression_of(key)):
                    yield self.shard.index[position], duplicate_of

    def state_of(self, segment: Segment) -> str | None:
        """Return the watermarks that travel with a segment, as they are written."""
        if segment.metadata.watermarks != WATERMARKS_BESIDE:
            return segment.metadata.watermarks
        return self._side_object(SIDE_OBJECTS[1], segment).body.decode()

    def _check_body(self, segment: Segment) -> None:
        metadata = segment.metadata
        where = f"{name(segment.first)}..{name(segment.last)} of {self.shard.shard_id}"
        kept = dict(read_records(segment.body, self.shard.shard_id, segment.compression))
        dropped = self._dropped(segment)
        if (metadata.records, metadata.dropped) != (len(kept), len(dropped)):
            raise Violation(f"{where}: {len(kept)} lines and {len(dropped)} dropped ones, metadata says otherwise")
        if kept.keys() & dropped.keys():
            raise Violation(f"{where}: a record is kept and dropped")
        for number in range(segment.first, segment.last + 1):
            truth = self.shard.everything[number]
            record, duplicate_of = dropped.get(truth.position, (kept.get(truth.position), None))
            if record is None and self.withheld.is_optional(number):
                continue
            if record is None:
                raise Violation(f"{name(number)} of {self.shard.shard_id} is neither kept nor among the dropped")
            if (record.arrival_ms, record.partition_key, record.data) != truth[1:]:
                raise Violation(f"{name(number)} of {self.shard.shard_id} is not archived byte for byte")
            if minute_of(record.arrival_ms) != metadata.minute:
                raise Violation(f"{name(number)} of {self.shard.shard_id} is archived under another minute")
            self.verdicts[number] = duplicate_of
            self.withheld.archived.add(number)
        if len(kept) + len(dropped) != sum(
            number in self.withheld.archived for number in range(segment.first, segment.last + 1)
        ):
            raise Violation(f"{where}: more lines than records")
        if metadata.payload_bytes != sum(len(record.data) for record in kept.values()):
            raise Violation(f"{where}: payload-bytes is wrong")

    def _dropped(self, segment: Segment) -> dict[Position, tuple[Record, str]]:
        if not segment.metadata.dropped:
            return {}
        body = self._side_object(SIDE_OBJECTS[0], segment).body
        return {
            position: (record, duplicate_of)
            for position, record, duplicate_of in read_dropped(body, self.shard.shard_id, segment.compression)
        }

    def _side_object(self, folder: str, segment: Segment) -> Stored:
        ending = f"-{segment.metadata.writer}."
        found = [stored for key, stored in self.side_objects.items() if key.startswith(folder) and ending in key]
        if len(found) != 1:
            raise Violation(f"{len(found)} objects are stored beside {name(segment.first)} in {folder}")
        return found[0]
