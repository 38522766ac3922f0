"""What became of the producer's retries: removed, left, and whether every event is still there."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from demo.ledger import RecordRef
from demo.readback import StoredRecord, StoredSegment
from demo.scenario import Recovery

Mode = Literal["claims", "watermark"]
SETTINGS: Mapping[Mode | None, Mapping[str, str]] = {
    None: {},
    "claims": {"minutebook.dedupe": "claims", "minutebook.eventId": "event_id"},
    "watermark": {
        "minutebook.dedupe": "watermark",
        "minutebook.producerSequence": "number",
        "minutebook.producerKey": "producer",
    },
}
"""The settings of each mode, for the payloads of `demo.flights`."""
ENOUGH = 200
"""Retries that a run must have sent to prove something."""
_MINUTE_MS = 60_000
_DELIVERY_MS = 500
"""A record that arrived so long before a SIGKILL had been delivered by then."""


@dataclass(frozen=True, kw_only=True)
class Retries:
    """The count.

    Of the removed: how many were in another shard than the record that was kept, came more than a minute after it,
    or were delivered before a SIGKILL and archived after it.
    `lost` are events of which no copy is in a segment. `misnamed`: what is wrong with `duplicate_of`, in words.
    """

    mode: Mode | None
    events: int
    sent: int
    removed: int
    left: int
    across_shards: int = 0
    after_a_minute: int = 0
    through_a_crash: int = 0
    lost: list[str] = field(default_factory=list)
    misnamed: list[str] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        """Tell whether every event is archived, and as often as the mode says."""
        if self.lost or self.misnamed:
            return False
        return self.removed == 0 if self.mode is None else (self.left, self.removed) == (0, self.sent)

    @property
    def is_telling(self) -> bool:
        """Tell whether every kind of retry was there to be removed."""
        kinds = (self.across_shards, self.after_a_minute, self.through_a_crash)
        return self.mode is None or (self.sent >= ENOUGH and all(kinds))


def count_retries(
    mode: Mode | None,
    stream: str,
    segments: Sequence[StoredSegment],
    events: Mapping[RecordRef, str],
    recoveries: Sequence[Recovery] = (),
) -> Retries:
    """Compare the archive with the ledger's events (record -> event id).

    In mode `watermark` an event id is `<producer>#<number>`.
    """
    copies: dict[str, list[StoredRecord]] = {event_id: [] for event_id in events.values()}
    for record in _records(segments):
        if record.ref in events:
            copies[events[record.ref]].append(record)
    kinds: Counter[str] = Counter()
    misnamed: list[str] = []
    for segment in segments:
        for record in segment.dropped:
            event_id = events.get(record.ref)
            kept = copies[event_id][:1] if event_id is not None else []
            if event_id is None or not kept:
                continue  # the verdict names the one, `lost` the other
            expected = _expected(mode, stream, event_id, kept[0].ref)
            if record.duplicate_of != expected:
                misnamed.append(f"{record.ref} is called a duplicate of {record.duplicate_of}, not of {expected}")
            kinds["shards"] += record.ref.shard_id != kept[0].ref.shard_id
            kinds["minute"] += record.arrival_ms - kept[0].arrival_ms > _MINUTE_MS
            kinds["crash"] += any(_is_replayed(record, segment, crash) for crash in recoveries)
    return Retries(
        mode=mode,
        events=len(copies),
        sent=len(events) - len(copies),
        removed=sum(len(segment.dropped) for segment in segments),
        left=sum(max(0, len(found) - 1) for found in copies.values()),
        across_shards=kinds["shards"],
        after_a_minute=kinds["minute"],
        through_a_crash=kinds["crash"],
        lost=sorted(event_id for event_id, found in copies.items() if not found),
        misnamed=misnamed,
    )


def _records(segments: Iterable[StoredSegment]) -> Iterable[StoredRecord]:
    return (record for segment in segments for record in segment.records)


def _expected(mode: Mode | None, stream: str, event_id: str, kept: RecordRef) -> str:
    """Return what `duplicate_of` must say: the claim's owner, or the producer's own number."""
    if mode == "claims":
        return f"{stream}/{kept.shard_id}/{kept.position}"
    producer, _, number = event_id.rpartition("#")
    return f"producer {json.dumps(producer)} number {number}"


def _is_replayed(record: StoredRecord, segment: StoredSegment, crash: Recovery) -> bool:
    """Tell whether a record was delivered before a SIGKILL of its worker, and its segment stored after it."""
    return (
        record.ref.shard_id in crash.shards
        and record.arrival_ms <= crash.at_ms - _DELIVERY_MS
        and segment.stored_at_ms > crash.at_ms
    )
