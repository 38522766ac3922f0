"""The proof of a shard's end.

KCL takes a ResourceNotFoundException for the end of a shard (KinesisDataFetcher.java), so a stream that was
deleted and created again looks ended; and a reader that lags in a closed shard must not skip the rest. The end
is accepted only if

1. the stream is the one that owns the prefix,
2. ListShards reports the shard as closed, and
3. GetRecords after our last position reaches the null iterator without a record, or a rest of an aggregate, that KCL
   would deliver; records that it would not are stored beside the archive and named in the marker.

Each writer stores its own proof as a read mark; one that is proven suffices. Then it writes end.json.
If the stream no longer lists the shard, it was closed longer ago than the retention; and if retention overtook the
reader, it may have missed records before the end. The marker then says `expired`, for readers that ignore read marks.
"""

from typing import Literal

import structlog

from consumer.evidence.held import walk_to_end
from consumer.evidence.opening import is_begun
from consumer.evidence.read_marks import store_mark
from consumer.evidence.shard_evidence import ShardEvidence, position_of
from consumer.evidence.tip_walk import TipWalk
from consumer.evidence.undelivered import keep_undelivered
from consumer.services import Services
from consumer.stream.port import ShardInfo, shard_hash_range
from minutebook.coverage.continuity import first_from, read_until
from minutebook.errors import ObjectVanished, SafetyRefusal, ShardEndUnproven
from minutebook.format.arrival import ARRIVAL_STEP_BACK_MS
from minutebook.format.document import FORMAT
from minutebook.format.keys import application_key, end_marker_key
from minutebook.format.markers import ApplicationRecord, EndMarker, decode_marker, encode_marker
from minutebook.format.metadata import Continuity, Predecessor
from minutebook.format.minute import iso_time
from minutebook.format.position import Position
from minutebook.format.read_mark import MarkKind, ReadMark
from minutebook.owner import check_stream, read_application

_STEP = "nothing was checkpointed; after a restart KCL asks the stream again"


class ShardEndProof:
    """Proves the end of one shard and writes its end marker."""

    def __init__(self, services: Services, evidence: ShardEvidence) -> None:
        self._services = services
        self._evidence = evidence
        self._shard_id = shard_id = evidence.origin.shard_id
        self._log = structlog.get_logger().bind(shard=shard_id)

    def mark_end(self, tail: Predecessor, *, unbroken: bool) -> None:
        """Prove that no record lies after the chain's tail, then write end.json, or compare it with the stored one.

        `unbroken`: nothing can have been trimmed between the tail and the end. Raises ShardEndUnproven if the stream
        does not confirm the end, SafetyRefusal if it is another stream, or end.json records another position.
        """
        services, last = self._services, position_of(tail)
        record = self._check_identity()
        info = services.stream.shard(self._shard_id)
        walk = None if info is None else self._read_to_end(record, info, tail)
        is_known = last is not None or not is_begun(services, self._shard_id)
        undelivered = () if walk is None else keep_undelivered(services, self._shard_id, walk.withheld)
        piece = self._store_piece(tail, walk, undelivered) if is_known else None
        is_covered = piece is not None and piece.continuity is Continuity.PROVEN
        proof: Literal["read", "expired"] = "read" if info is not None and unbroken and is_known else "expired"
        if proof == "expired" and not is_covered:
            self._log.error(
                "shard_end_expired",
                last=str(last),
                next_step="records before the end may have been trimmed: the audit will say unknown for this shard",
            )
        key = end_marker_key(services.settings.prefix, self._shard_id)
        marker = EndMarker(
            format=FORMAT,
            shard=self._shard_id,
            last=None if last is None else str(last),
            children=list(info.children) if info else [],
            proof=proof,
            writer=services.new_id(),
            written_at=iso_time(services.clock.now_ms()),
            undelivered=[str(sequence) for sequence in undelivered],
        )
        stored = services.store.put_or_read(key, encode_marker(marker))
        if stored is not None:
            _compare(decode_marker(stored.body, EndMarker, key), key, marker)
        self._log.info(
            "shard_end_proven",
            last=marker.last,
            proof=proof,
            children=marker.children,
            continuity=None if piece is None else piece.continuity,
            covered_from_ms=None if piece is None else piece.from_ms,
            covered_until_ms=None if piece is None else piece.until_ms,
        )

    def _read_to_end(self, record: ApplicationRecord, info: ShardInfo, tail: Predecessor) -> TipWalk:
        if not info.closed:
            raise ShardEndUnproven(
                f"KCL reports the end of {self._shard_id}, and ListShards says it is open", next_step=_STEP
            )
        last = position_of(tail)
        walk = walk_to_end(
            self._services.stream,
            self._services.clock,
            self._shard_id,
            last,
            # A shard that was started at a timestamp may hold older records, which are not to be archived.
            since_ms=record.start_at_ms if str(tail) == "AT_TIMESTAMP" else None,
            hash_range=shard_hash_range(info),
        )
        if walk is None:
            raise ShardEndUnproven(
                f"KCL reports the end of {self._shard_id}, and records are left after {last}", next_step=_STEP
            )
        return walk

    def _store_piece(self, tail: Predecessor, walk: TipWalk | None, undelivered: tuple[int, ...]) -> ReadMark | None:
        """Store this writer's own proof of the end and return it; None without a time of the service."""
        evidence, services = self._evidence, self._services
        asked_ms = services.stream.service_ms() if walk is None else walk.asked_ms
        if asked_ms is None:
            return None
        if walk is not None and walk.record is not None and isinstance(tail, Position):
            evidence.found_tail(tail, walk.record.arrival_ms)
        evidence.look_up_beyond(tail, services)
        continuity = Continuity.UNPROVEN if walk is None else evidence.judge_walk(tail, walk, services)
        from_ms = first_from(evidence.base) if evidence.is_founded else asked_ms - ARRIVAL_STEP_BACK_MS
        piece = ReadMark(
            self._shard_id,
            MarkKind.END,
            continuity,
            from_ms,
            read_until(asked_ms, from_ms),
            position_of(tail),
            services.new_id(),
            undelivered,
        )
        store_mark(services, piece)
        return piece

    def _check_identity(self) -> ApplicationRecord:
        record = read_application(self._services.store, self._services.settings.prefix, must_exist=True)
        if record is None:
            key = application_key(self._services.settings.prefix)
            raise ObjectVanished(f"{key} is gone", next_step="find out who deletes objects under the prefix")
        check_stream(record, self._services.stream.describe(), self._services.settings.prefix)
        return record


def _compare(stored: EndMarker, key: str, ours: EndMarker) -> None:
    """Accept a stored end at our position, one without proof, and one further on than ours if ours has no proof.

    Also accept one that differs only by an aggregate of another shard, which KCL may deliver at one time and withhold
    at another: the marker that ends before it names it as undelivered.
    """
    stored_last, last = stored.last_position(), ours.last_position()
    further = stored_last is not None and (last is None or stored_last > last)
    if stored_last == last or stored.proof == "expired" or (ours.proof == "expired" and further):
        return
    before, behind = (ours, stored_last) if further else (stored, last)
    if behind is not None and str(behind.sequence) in before.undelivered:
        return
    raise SafetyRefusal(
        f"{key} records the end at {stored_last}, and this processor found it at {last}",
        next_step="run minutebook audit for the shard's last day before anything else",
    )
