"""What the stream still holds of a shard: the record at a position, and the oldest one."""

from typing import Final

from consumer.services import Services
from minutebook.aws.kinesis.answers import Beginning, HeldRecord
from minutebook.coverage.continuity import OldestHeld
from minutebook.format.position import Position

# GetRecords may be called five times a second per shard, KCL's own calls included.
_PAUSE_SECONDS: Final = 0.25
_MAX_CALLS: Final = 20


def record_at(services: Services, shard_id: str, position: Position) -> HeldRecord | None:
    """Return the Kinesis record at a position; None when it is trimmed.

    Raises:
        StreamUnavailable, StreamRefused: Kinesis.
    """
    found = _first_record(services, shard_id, Beginning(position.sequence))
    return found if found is not None and found.sequence == position.sequence else None


def oldest_record(services: Services, shard_id: str) -> OldestHeld | None:
    """Return the oldest record that the shard holds; None when it holds none. Raises as `record_at`."""
    found = _first_record(services, shard_id, Beginning())
    return None if found is None else OldestHeld(Position(found.sequence), found.arrival_ms)


def _first_record(services: Services, shard_id: str, beginning: Beginning) -> HeldRecord | None:
    answer = services.stream.open(shard_id, beginning)
    # Whoever has no patience for retries has none for answers that are empty on the way.
    for _ in range(_MAX_CALLS if services.settings.store_timeout_seconds > 0 else 1):
        if answer is None or answer.iterator is None:
            return None
        answer = services.stream.read(shard_id, answer.iterator, most=1)
        if answer.records or answer.is_tip:
            return answer.records[0] if answer.records else None
        if services.settings.store_timeout_seconds > 0:
            services.clock.sleep(_PAUSE_SECONDS)
    return None
