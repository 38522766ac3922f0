"""Continue producer deduplication at the end of a shard's chain.

The watermarks of the chain's tail come from, in this order: the tail row of the dedupe table, if it is of that
position and holds them; the segment that ends there, at the key that the row names or found by search; else they are
empty, and records in doubt are kept. A child shard begins with the watermarks of its parents, after a merge of both.
"""

from collections.abc import Callable

import structlog

from consumer.dedupe.deduplicator import DAY_SECONDS, ClaimMap, Claims, Deduplicator, WatermarkDedupe, WatermarkPaths
from consumer.dedupe.table import DedupeTable, DynamoDedupeTable, ShardTail, make_claims_client
from consumer.dedupe.watermarks import Watermarks, load_watermarks
from consumer.services import Services
from consumer.settings.settings import Settings
from minutebook.compression import Compression
from minutebook.errors import FormatError, ObjectVanished, SettingsError, StoreUnavailable
from minutebook.format.day import day_of_ms
from minutebook.format.keys import end_marker_key, segment_key
from minutebook.format.markers import EndMarker
from minutebook.format.metadata import Predecessor, SegmentMetadata
from minutebook.format.payload import NumberPaths, PayloadPath, ProducerNumbers
from minutebook.format.position import Position
from minutebook.index.names import ArchiveIndex
from minutebook.retry import until_known
from minutebook.store.commit import stored_segment
from minutebook.store.markers import read_marker

_TABLE_SECONDS = 120
_POLL_SECONDS = 0.5
_MARGIN_MS = 7 * DAY_SECONDS * 1000


def open_dedupe_table(settings: Settings) -> DynamoDedupeTable | None:
    """Return the dedupe table of these settings; None when producer deduplication is off."""
    if (name := settings.dedupe_table_name) is None:
        return None
    return DynamoDedupeTable(make_claims_client(settings.region, settings.dynamodb_endpoint, settings.access), name)


def await_table(table: DynamoDedupeTable, services: Services) -> None:
    """Create the table if it is missing, and wait until it is usable; raises StoreUnavailable after two minutes."""
    deadline = services.clock.monotonic() + _TABLE_SECONDS
    while not until_known(table.ensure, services.backoff(), "the dedupe table"):
        if services.clock.monotonic() >= deadline:
            raise StoreUnavailable(
                "the dedupe table does not become active", next_step="look at the table in DynamoDB's console"
            )
        services.clock.sleep(_POLL_SECONDS)


class DedupeStarter:
    """Opens the deduplicator of one shard.

    `retention_ms` returns the stream's current retention: an operator may raise it while a processor runs.
    `map_claims` runs the claims, by default in threads. `compression` is that of the prefix.
    """

    def __init__(
        self,
        services: Services,
        table: DedupeTable,
        shard_id: str,
        retention_ms: Callable[[], int],
        map_claims: ClaimMap | None = None,
        *,
        compression: Compression = Compression.GZIP,
    ) -> None:
        self._services = services
        self._compression = compression
        self._retention_ms = retention_ms
        self._table = table
        self._shard_id = shard_id
        self._map_claims = map_claims
        self._log = structlog.get_logger().bind(shard=shard_id)

    def open(self, tail: Predecessor) -> Deduplicator:
        """Return the deduplicator for a chain that ends at `tail`."""
        settings = self._services.settings
        shard = f"{settings.stream_name}/{self._shard_id}"
        if settings.dedupe == "claims":
            return Claims(
                self._table,
                PayloadPath(_required(settings.event_id, "eventId")),
                shard,
                self._services.clock,
                self._services.backoff,
                lifetime_seconds=lambda: self._retention_ms() // 1000 + DAY_SECONDS,
                map_claims=self._map_claims,
            )
        paths = WatermarkPaths(
            ProducerNumbers(
                NumberPaths(_required(settings.producer_sequence, "producerSequence"), settings.producer_key)
            ),
            settings.producer_ordered,
        )
        shard_id = self._shard_id
        state = self._at(shard_id, tail) if isinstance(tail, Position) else self._inherited(shard_id)
        return WatermarkDedupe(self._table, paths, shard, state, self._services.backoff)

    def _inherited(self, shard_id: str) -> Watermarks:
        """Return the merged watermarks at the ends of a shard's parents; one without a record passes on its own."""
        state, services = Watermarks(), self._services
        info = services.stream.shard(shard_id)
        for parent in () if info is None else info.parents:
            key = end_marker_key(services.settings.prefix, parent)
            end = read_marker(services.store, key, EndMarker, must_exist=True)
            if end is None:
                # The parent was never archived here: the application began after it.
                continue
            last = end.last_position()
            state.merge(self._inherited(parent) if last is None else self._at(parent, last))
        return state

    def _at(self, shard_id: str, position: Position) -> Watermarks:
        """Return the watermarks at the end of the segment that ends at `position`."""
        shard = f"{self._services.settings.stream_name}/{shard_id}"
        row = until_known(lambda: self._table.read_tail(shard), self._services.backoff(), "the watermarks' tail row")
        if row is not None and row.position == position and row.watermarks is not None:
            return row.watermarks
        segment = self._named(shard_id, position, row) or self._find(shard_id, position)
        prefix = self._services.settings.prefix
        state = None if segment is None else load_watermarks(self._services.store, prefix, segment)
        if state is None:
            self._log.warning(
                "watermarks_unproven",
                of=shard_id,
                position=str(position),
                next_step="nothing is lost: duplicates of what was archived before are kept until producers move on",
            )
        return state or Watermarks()

    def _named(self, shard_id: str, position: Position, row: ShardTail | None) -> SegmentMetadata | None:
        """Return the segment that ends at `position` if a tail row names its key, which saves the search."""
        if row is None or row.slot is None:
            return None
        services = self._services
        try:
            key = segment_key(services.settings.prefix, shard_id, *row.slot, self._compression)
            segment = stored_segment(services.store, services.settings.prefix, key)
        except (FormatError, ObjectVanished, OverflowError):
            return None
        return segment if segment.last == position else None

    def _find(self, shard_id: str, position: Position) -> SegmentMetadata | None:
        store, prefix, now_ms = self._services.store, self._services.settings.prefix, self._services.clock.now_ms()
        # A position that KCL can still resume from lies within the retention, or shortly before it.
        oldest = day_of_ms(now_ms - self._retention_ms() - _MARGIN_MS)
        name = ArchiveIndex(store, prefix).nearest_at(shard_id, position, day_of_ms(now_ms).shift(1), oldest)
        segment = None if name is None else stored_segment(store, prefix, name.key)
        return segment if segment is not None and segment.last == position else None


def _required(expression: str | None, name: str) -> str:
    if expression is None:
        raise SettingsError(f"minutebook.{name} is missing", next_step=f"name the JMESPath of minutebook.{name}")
    return expression
