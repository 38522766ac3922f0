"""Read what the stream still holds of a shard: the record at a position, or the oldest one."""

from typing import Final

from consumer.services import Services
from minutebook.aws.kinesis.answers import Beginning, HeldRecord
from minutebook.coverage.continuity import OldestHeld
from minutebook.format.position import Position

# GetRecords may be called five times a second per shard, KCL's own calls included.
_PAUSE_SECONDS: Final = 0.25
_MAX_CALLS: Final = 20


def record_at(services: Services, shard_id: str, position: Position) -> HeldRecord | None:
    """Return the Kinesis record at a position; None if it is trimmed."""
    record = _first_record(services, shard_id, Beginning(position.sequence))
    return record if record is not None and record.sequence == position.sequence else None


def oldest_record(services: Services, shard_id: str) -> OldestHeld | None:
    """Return the oldest record that the shard holds; None if it holds none."""
    record = _first_record(services, shard_id, Beginning())
    return None if record is None else OldestHeld(Position(record.sequence), record.arrival_ms)


def _first_record(services: Services, shard_id: str, beginning: Beginning) -> HeldRecord | None:
    answer = services.stream.open(shard_id, beginning)
    # With no retry budget, read once: do not poll past empty answers either.
    for _ in range(_MAX_CALLS if services.settings.store_timeout_seconds > 0 else 1):
        if answer is None or answer.iterator is None:
            return None
        answer = services.stream.read(shard_id, answer.iterator, most=1)
        if answer.records or answer.is_tip:
            return answer.records[0] if answer.records else None
        if services.settings.store_timeout_seconds > 0:
            services.clock.sleep(_PAUSE_SECONDS)
    return None
