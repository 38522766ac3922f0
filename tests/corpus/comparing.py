"""An audit at level `stream` of a corpus whose stream holds what the archive does, or one record more."""

from compaction.audit.audit import audit_day
from compaction.job.context import AuditOptions
from compaction.verdict.audit_document import Audit
from minutebook.format.position import Position
from minutebook.format.record import Record
from tests.corpus.desk import DAY, Desk
from tests.corpus.model import BEGIN_MS, STREAM_ARN
from tests.fakes.stream_reader import HeldStream


def compare(desk: Desk, *, lost: Position | None) -> Audit:
    """Audit the day at level `stream`: the stream holds what the corpus does, and one record behind a position."""
    records = {
        shard.shard_id: [record for segment in shard.segments for record in segment.records]
        for shard in desk.corpus.shards
    }
    if lost is not None:
        rows = records[desk.corpus.shards[0].shard_id]
        place = next(number for number, row in enumerate(rows) if row.position == lost)
        rows.insert(place + 1, Record(str(lost.sequence + 1), 0, "k", rows[place].arrival_ms, b"lost"))
    held = HeldStream(STREAM_ARN, BEGIN_MS, records, desk.clock.now_ms())
    given = desk.context()._replace(stream=lambda: held)  # type: ignore[arg-type,return-value]  # the reader's methods
    return audit_day(given, DAY, AuditOptions(level="stream")).audit
