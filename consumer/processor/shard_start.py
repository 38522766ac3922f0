"""Begin or resume a shard's chain: all checks before the first record is taken.

KCL says            start.json   then
LATEST              -            refused: two first starts would begin at different records
TRIM_HORIZON,       missing      the chain starts here, unless stored ranges show that it has begun
  AT_TIMESTAMP      exists       the same; records before the recorded beginning are archived in segments that end
                                 before it, because that beginning is a slot of another writer
a sequence number   exists       the chain goes on after it
a sequence number   missing      refused, unless `minutebook.adoptCheckpoint`: it is another application's
                                 checkpoint, or another prefix; the archive would lack the records before it
"""

from dataclasses import dataclass
from typing import NamedTuple

import structlog

from consumer.archived.application import settle_application, warn_of_compression
from consumer.evidence.birth import ShardOrigin
from consumer.evidence.held import held_back
from consumer.evidence.opening import is_adopted, mark_adopted, mark_opened
from consumer.evidence.shard_evidence import ShardEvidence
from consumer.evidence.undelivered import keep_undelivered
from consumer.services import Services
from consumer.stream.port import ShardInfo, StreamIdentity
from minutebook.compression import Compression
from minutebook.errors import DeliveryDoubt, FormatError, SafetyRefusal, SettingsError
from minutebook.format.document import FORMAT
from minutebook.format.keys import start_marker_key
from minutebook.format.markers import ApplicationRecord, StartMarker, decode_marker, encode_marker
from minutebook.format.metadata import ChainStart, Continuity, Predecessor
from minutebook.format.minute import iso_time
from minutebook.format.position import Position, SequenceRange, is_sequence_number
from minutebook.owner import read_application
from minutebook.store.markers import read_marker


@dataclass
class ChainTail:
    """What the next segment follows, and the continuity that it must record."""

    tail: Predecessor
    continuity: Continuity

    @property
    def archived_through(self) -> Position | None:
        """The last archived (or adopted) position; None if the shard has none."""
        return self.tail.adopted if isinstance(self.tail, ChainStart) else self.tail

    @property
    def is_unbroken(self) -> bool:
        """Return whether nothing can have been trimmed between the tail and the next record."""
        return self.continuity is Continuity.PROVEN

    def holds(self, position: Position) -> bool:
        """Return whether a position lies in the archived part."""
        through = self.archived_through
        return through is not None and position <= through

    def doubt(self, continuity: Continuity) -> None:
        """Take over a doubt; PROVEN changes nothing."""
        if continuity is not Continuity.PROVEN:
            self.continuity = continuity


class ShardStart(NamedTuple):
    """The stream, the end of the chain at the start, and the shard's evidence.

    `compression` is that of the prefix, whatever this processor's settings say. `begun` is the chain's beginning by
    start.json, if it may lie ahead.
    """

    identity: StreamIdentity
    compression: Compression
    chain: ChainTail
    evidence: ShardEvidence
    begun: Position | None = None


class ShardStarter:
    """Checks the start of one shard, and writes its start marker."""

    def __init__(self, services: Services, shard_id: str) -> None:
        self._services = services
        self._shard_id = shard_id
        self._info: ShardInfo | None = None
        self._start_ms = 0
        self._log = structlog.get_logger().bind(shard=shard_id)

    def start(self, sequence_number: str, sub_sequence_number: int) -> ShardStart:
        """Check the stream's identity, then decide what the first segment follows.

        Raises:
            SettingsError: KCL was configured to start at LATEST.
            SafetyRefusal: the prefix is another stream's, or the archive holds nothing of a checkpointed shard.
            DeliveryDoubt: `sequence_number` is neither a position nor a sentinel of KCL.
        """
        if sequence_number == "LATEST":
            raise SettingsError(
                "initialPositionInStream=LATEST cannot be exactly once: two starts begin at different records",
                next_step="set minutebook.start=now and start with minutebook consume, which fixes the time once",
            )
        identity = self._services.stream.describe()
        application = self._check_application(identity, sequence_number)
        self._start_ms = application.start_at_ms or 0
        self._info = self._services.stream.shard(self._shard_id)
        evidence = ShardEvidence(self._services, ShardOrigin(self._shard_id, self._info, application))
        if not is_sequence_number(sequence_number):
            try:
                chain = ChainTail(ChainStart.parse(sequence_number), Continuity.PROVEN)
            except FormatError as exc:
                raise DeliveryDoubt(
                    f"KCL starts the shard at {sequence_number!r}, which is not a position",
                    next_step="look at the shard's row in the lease table",
                ) from exc
            mark_opened(self._services, self._shard_id, self._info, chain.tail)
            return ShardStart(
                identity, application.compression, chain, evidence, self._begun(self._read_marker(must_exist=False))
            )
        checkpoint, marker = Position(int(sequence_number), sub_sequence_number), self._read_marker(must_exist=True)
        tail = self._resumed_tail(checkpoint, marker)
        mark_opened(self._services, self._shard_id, self._info, tail)
        chain = ChainTail(tail, self._continuity(identity, tail, evidence))
        return ShardStart(identity, application.compression, chain, evidence, self._begun(marker, checkpoint))

    def mark_start(
        self, span: SequenceRange, arrival_ms: int, chain_start: ChainStart, budget_seconds: float
    ) -> Continuity:
        """Write start.json before the shard's first segment, within the budget, or compare it with the stored one.

        Returns the continuity that the first segment must record; `arrival_ms` is when the first record of its `span`
        arrived. Raises SafetyRefusal if the chain was begun before the span, or the span arrived before the
        application's start, DeliveryDoubt if the chain was begun within the span.
        """
        key = start_marker_key(self._services.settings.prefix, self._shard_id)
        info = self._info
        marker = StartMarker(
            format=FORMAT,
            shard=self._shard_id,
            sentinel=str(chain_start),
            first=str(span.first),
            starting_hash_key=info.starting_hash_key if info else "",
            ending_hash_key=info.ending_hash_key if info else "",
            parents=list(info.parents) if info else [],
            writer=self._services.new_id(),
            written_at=iso_time(self._services.clock.now_ms()),
        )
        stored = self._services.store_within(budget_seconds).put_or_read(key, encode_marker(marker))
        if stored is None:
            return Continuity.PROVEN
        return self._compare(decode_marker(stored.body, StartMarker, key).first_position(), span, arrival_ms)

    def _compare(self, begun: Position, span: SequenceRange, arrival_ms: int) -> Continuity:
        """Accept a chain that was begun at the same record, or before it if the user adopts the gap.

        Also accept one begun before it if KCL now withholds all records between, aggregates that it once delivered,
        and one begun behind it: whoever began it was not delivered these records, because KCL had skipped them. Those
        that arrived before the application's start are others: a start without a lease table is delivered them, too.
        """
        first, was_skipped = span.first, arrival_ms >= self._start_ms
        if begun == first:
            return Continuity.PROVEN
        if was_skipped and span.last < begun:
            self._log.warning(
                "archived_before_start",
                begun=str(begun),
                first=str(first),
                last=str(span.last),
                next_step="nothing: KCL had skipped these records, and they are archived now; the audit of their day "
                "answers unknown (unproven)",
            )
            return Continuity.UNPROVEN
        if was_skipped and first < begun:
            raise DeliveryDoubt(
                f"{self._shard_id} was begun at {begun} by another processor, and this one holds {span}: a segment "
                "must not reach over a beginning",
                next_step="nothing: the next start archives what lies before, and what lies behind",
            )
        if begun < first and self._keep_held_back(begun, first):
            # The chain does not begin where start.json says, so the audit cannot call it proven.
            return Continuity.UNPROVEN
        if begun < first and self._services.settings.adopt_checkpoint:
            self._log.error(
                "chain_gap_adopted",
                begun=str(begun),
                first=str(span.first),
                next_step="the audit will answer unknown for this shard: the records in between are not proven",
            )
            return Continuity.UNPROVEN
        raise SafetyRefusal(
            f"{self._shard_id} was begun at {begun} and KCL now begins at {first}, which is not archived: "
            "the lease table was lost after records were trimmed, or the start was moved",
            next_step="rebuild the checkpoints from the archive with minutebook restore --apply, or accept the gap "
            "with minutebook.adoptCheckpoint=true",
        )

    def _keep_held_back(self, begun: Position, first: Position) -> bool:
        """Store the records between both beside the archive if KCL withholds all of them; return whether it does."""
        withheld = held_back(self._services, self._shard_id, self._info, begun, first)
        return withheld is not None and bool(keep_undelivered(self._services, self._shard_id, withheld))

    def _check_application(self, identity: StreamIdentity, sequence_number: str) -> ApplicationRecord:
        store, settings = self._services.store, self._services.settings
        if sequence_number == "AT_TIMESTAMP" and read_application(store, settings.prefix) is None:
            raise SafetyRefusal(
                "KCL starts at a timestamp that is not stored beside the archive, so another start may differ",
                next_step="start with minutebook consume, which stores it",
            )
        proposal = ApplicationRecord(
            format=FORMAT,
            stream_arn=identity.arn,
            stream_created_ms=identity.created_ms,
            application=settings.application_name,
            start="oldest",
            start_at_ms=None,
            writer=self._services.new_id(),
            written_at_ms=self._services.clock.now_ms(),
        ).compressed(settings.compression or Compression.GZIP)
        record = settle_application(self._services.store_within(), settings.prefix, identity, proposal)
        warn_of_compression(record, settings.compression)
        return record

    @staticmethod
    def _begun(marker: StartMarker | None, checkpoint: Position | None = None) -> Position | None:
        """Return the recorded beginning of the chain, if it may lie behind where KCL goes on."""
        begun = None if marker is None else marker.first_position()
        return None if begun is None or (checkpoint is not None and begun <= checkpoint) else begun

    def _resumed_tail(self, checkpoint: Position, marker: StartMarker | None) -> Predecessor:
        if marker is not None:
            begun_after = marker.chain_start()
            # If only start.json was written, the first segment must still name what it follows.
            return begun_after if begun_after.adopted == checkpoint else checkpoint
        if is_adopted(self._services, self._shard_id, checkpoint):
            return ChainStart("AFTER_SEQUENCE", checkpoint)
        if self._services.settings.adopt_checkpoint:
            mark_adopted(self._services, self._shard_id, checkpoint)
            self._log.warning(
                "checkpoint_adopted",
                position=str(checkpoint),
                next_step="remove minutebook.adoptCheckpoint once every shard has been started",
            )
            return ChainStart("AFTER_SEQUENCE", checkpoint)
        raise SafetyRefusal(
            f"KCL resumes {self._shard_id} after {checkpoint}, and the archive holds nothing of this shard",
            next_step="correct minutebook.prefix or applicationName; to begin the archive here on purpose, set "
            "minutebook.adoptCheckpoint=true",
        )

    def _continuity(self, identity: StreamIdentity, tail: Predecessor, evidence: ShardEvidence) -> Continuity:
        if not identity.may_have_trimmed(self._services.clock.now_ms()):
            return Continuity.PROVEN
        if evidence.look_up(tail):
            return Continuity.PROVEN
        if evidence.young_mark is not None:
            # The read marks prove what follows the tail; the next segment claims continuity with the last of them.
            return Continuity.UNPROVEN
        self._log.error(
            "resumed_past_retention",
            position=str(tail),
            next_step="records between this position and the oldest retained one may be gone; the audit will say "
            "unknown for this shard; raise the stream's retention above the longest outage",
        )
        return Continuity.UNPROVEN

    def _read_marker(self, *, must_exist: bool) -> StartMarker | None:
        key = start_marker_key(self._services.settings.prefix, self._shard_id)
        return read_marker(self._services.store, key, StartMarker, must_exist=must_exist)
