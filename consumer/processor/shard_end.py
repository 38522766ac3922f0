"""The proof of a shard's end.

KCL takes a ResourceNotFoundException for the end of a shard (KinesisDataFetcher.java), so a stream that was
deleted and made again looks ended; and a reader that lags behind a closed shard must not skip the rest. The end
is believed only when

1. the stream is the one that owns the prefix,
2. ListShards calls the shard closed, and
3. GetRecords behind our last position reaches the null iterator without meeting a record or an aggregate's rest.

A shard that the same stream no longer lists was closed longer ago than its retention; and a reader that retention
overtook cannot tell what it missed before the end. The marker then says `expired`, and the audit answers unknown.
"""

from typing import Literal

import structlog

from archive.errors import ObjectVanished, SafetyRefusal, ShardEndUnproven
from archive.format.document import FORMAT
from archive.format.keys import application_key, end_marker_key, start_marker_key
from archive.format.markers import ApplicationRecord, EndMarker, decode_marker, encode_marker
from archive.format.metadata import ChainStart, Predecessor
from archive.format.minute import iso_time
from archive.format.position import Position
from consumer.archived.application import check_stream, read_application
from consumer.processor.services import Services
from consumer.stream.port import ShardInfo

_STEP = "nothing was checkpointed; after a restart KCL asks the stream again"


class ShardEndProof:
    """Proves the end of one shard and writes its end marker."""

    def __init__(self, services: Services, shard_id: str) -> None:
        self._services = services
        self._shard_id = shard_id
        self._log = structlog.get_logger().bind(shard=shard_id)

    def mark_end(self, tail: Predecessor, *, unbroken: bool) -> None:
        """Prove that nothing lies behind the chain's tail, then write end.json; compare when one is there.

        `unbroken` says that nothing may have been trimmed between the tail and the end.

        Raises:
            ShardEndUnproven: the stream does not confirm the end.
            SafetyRefusal: another stream, or an end at another position was recorded before.
        """
        last = tail.adopted if isinstance(tail, ChainStart) else tail
        info, proof = self._prove(tail, last, unbroken=unbroken)
        key = end_marker_key(self._services.settings.prefix, self._shard_id)
        marker = EndMarker(
            format=FORMAT,
            shard=self._shard_id,
            last=None if last is None else str(last),
            children=list(info.children) if info else [],
            proof=proof,
            writer=self._services.new_id(),
            written_at=iso_time(self._services.clock.now_ms()),
        )
        found = self._services.store.put_or_read(key, encode_marker(marker))
        if found is not None:
            _compare(decode_marker(found.body, EndMarker, key), key, last, proof)
        self._log.info("shard_end_proven", last=marker.last, proof=proof, children=marker.children)

    def _prove(
        self, tail: Predecessor, last: Position | None, *, unbroken: bool
    ) -> tuple[ShardInfo | None, Literal["read", "expired"]]:
        record = self._check_identity()
        info = self._services.stream.shard(self._shard_id)
        if info is not None and not info.closed:
            raise ShardEndUnproven(
                f"KCL reports the end of {self._shard_id}, and ListShards says it is open", next_step=_STEP
            )
        # A shard that was started at a timestamp may hold older records: they were never to be read.
        since_ms = record.start_at_ms if str(tail) == "AT_TIMESTAMP" else None
        if info is not None and not self._services.stream.ends_after(self._shard_id, last, since_ms):
            raise ShardEndUnproven(
                f"KCL reports the end of {self._shard_id}, and records are left after {last}", next_step=_STEP
            )
        if info is not None and unbroken and (last is not None or not self._is_begun()):
            return info, "read"
        self._log.error(
            "shard_end_expired",
            last=str(last),
            next_step="records before the end may have been trimmed: the audit will answer unknown for this shard",
        )
        return info, "expired"

    def _is_begun(self) -> bool:
        """Tell whether somebody has begun to archive the shard."""
        key = start_marker_key(self._services.settings.prefix, self._shard_id)
        return self._services.store.get(key) is not None

    def _check_identity(self) -> ApplicationRecord:
        record = read_application(self._services.store, self._services.settings.prefix)
        if record is None:
            key = application_key(self._services.settings.prefix)
            raise ObjectVanished(f"{key} is gone", next_step="find out who deletes objects under the prefix")
        check_stream(record, self._services.stream.describe(), self._services.settings.prefix)
        return record


def _compare(stored: EndMarker, key: str, last: Position | None, proof: Literal["read", "expired"]) -> None:
    """Accept an end that says the same, one that claims no proof, and one further on than ours without proof."""
    stored_last = stored.last_position()
    further = stored_last is not None and (last is None or stored_last > last)
    if stored_last == last or stored.proof == "expired" or (proof == "expired" and further):
        return
    raise SafetyRefusal(
        f"{key} records the end at {stored_last}, and this processor found it at {last}",
        next_step="run minutebook audit for the shard's last day before anything else",
    )
