"""Markers of a shard's start: `opened.json`, and before it `adopted.json` for an adopted checkpoint."""

from consumer.services import Services
from consumer.stream.port import ShardInfo
from minutebook.errors import SafetyRefusal
from minutebook.format.coverage_markers import (
    AdoptedMarker,
    OpenedMarker,
    adopted_marker_key,
    decode_coverage_marker,
    encode_coverage_marker,
    opened_marker_key,
)
from minutebook.format.document import FORMAT
from minutebook.format.keys import start_marker_key
from minutebook.format.metadata import ChainStart, Predecessor
from minutebook.format.minute import iso_time
from minutebook.format.position import Position
from minutebook.store.markers import read_marker


def mark_opened(services: Services, shard_id: str, info: ShardInfo | None, tail: Predecessor) -> None:
    """Store `opened.json` unless it exists, also in archives of older versions.

    Without a checkpoint it rarely exists, so it is PUT at once; with one it usually does, so a GET comes first.
    Raises SafetyRefusal if the stored one has other hash keys or parents: it is of another shard.
    """
    key = opened_marker_key(services.settings.prefix, shard_id)
    marker = OpenedMarker(
        format=FORMAT,
        shard=shard_id,
        sentinel=f"AFTER_SEQUENCE:{tail}" if isinstance(tail, Position) else str(tail),
        starting_hash_key=info.starting_hash_key if info else "",
        ending_hash_key=info.ending_hash_key if info else "",
        parents=sorted(info.parents) if info else [],
        writer=services.new_id(),
        opened_at=iso_time(services.clock.now_ms()),
    )
    is_first = isinstance(tail, ChainStart) and tail.adopted is None
    stored = None if is_first else read_marker(services.store, key, OpenedMarker)
    if stored is None:
        other = services.store.put_or_read(key, encode_coverage_marker(marker))
        stored = None if other is None else decode_coverage_marker(other.body, OpenedMarker, key)
    if stored is None or info is None:
        return
    if stored.starting_hash_key and _shape(stored) != _shape(marker):
        raise SafetyRefusal(
            f"{key} names hash keys {stored.starting_hash_key} to {stored.ending_hash_key} and parents "
            f"{stored.parents}; the stream says {marker.starting_hash_key} to {marker.ending_hash_key} and "
            f"{marker.parents}",
            next_step="this is another shard under the same name: use a new prefix for this stream",
        )


def mark_adopted(services: Services, shard_id: str, position: Position) -> None:
    """Store `adopted.json` unless it exists: from its time on, the shard belongs to this application."""
    marker = AdoptedMarker(
        format=FORMAT,
        shard=shard_id,
        position=str(position),
        held=services.stream.holds(shard_id, position),
        writer=services.new_id(),
        written_at=iso_time(services.clock.now_ms()),
    )
    key = adopted_marker_key(services.settings.prefix, shard_id)
    services.store.put_if_absent(key, encode_coverage_marker(marker))


def is_adopted(services: Services, shard_id: str, position: Position) -> bool:
    """Return whether exactly this checkpoint was adopted before; raise FormatError for an invalid marker."""
    marker = read_marker(services.store, adopted_marker_key(services.settings.prefix, shard_id), AdoptedMarker)
    return marker is not None and marker.adopted_position() == position


def is_begun(services: Services, shard_id: str) -> bool:
    """Return whether any writer has begun to archive the shard: start.json exists."""
    return services.store.get(start_marker_key(services.settings.prefix, shard_id)) is not None


def _shape(marker: OpenedMarker) -> tuple[str, str, list[str]]:
    return marker.starting_hash_key, marker.ending_hash_key, sorted(marker.parents)
