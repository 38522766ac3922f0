"""Store records that KCL withholds beside the archive."""

import base64
from collections.abc import Iterable

import structlog

from consumer.evidence.tip_walk import Withheld
from consumer.services import Services
from minutebook.format.coverage_markers import UndeliveredRecord, encode_coverage_marker, undelivered_key
from minutebook.format.document import FORMAT
from minutebook.format.minute import iso_time


def keep_undelivered(services: Services, shard_id: str, withheld: Iterable[Withheld]) -> tuple[int, ...]:
    """Store each record under its own key, unless that exists already; return their sequence numbers.

    Raises FormatError for an invalid arrival time.
    """
    return tuple(_keep(services, shard_id, item) for item in withheld)


def _keep(services: Services, shard_id: str, item: Withheld) -> int:
    record = item.record
    kept = UndeliveredRecord(
        format=FORMAT,
        shard=shard_id,
        sequence_number=str(record.sequence),
        first_sub=item.first_sub,
        partition_key=record.partition_key,
        arrival_ms=record.arrival_ms,
        reason=item.reason,
        data_base64=base64.b64encode(record.data).decode(),
        writer=services.new_id(),
        written_at=iso_time(services.clock.now_ms()),
    )
    key = undelivered_key(services.settings.prefix, shard_id, record.arrival_ms, record.sequence)
    services.store.put_if_absent(key, encode_coverage_marker(kept))
    structlog.get_logger().warning(
        "record_not_delivered",
        shard=shard_id,
        sequence_number=str(record.sequence),
        reason=item.reason,
        key=key,
        next_step="the record is kept under that key; look for the producer that sends such aggregates",
    )
    return record.sequence
