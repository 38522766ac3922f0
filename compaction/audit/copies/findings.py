"""What is said of producer duplicates: one finding a shard, what is in doubt, and how many records had an id."""

from typing import Final

from compaction.audit.copies.copies import Copies
from compaction.event_ids.copies import SAMPLES, ShardTally
from compaction.event_ids.dropping import Drops, pack_drops, unpack_drops
from compaction.job.context import JobContext
from compaction.parquet.plan import RawObject
from compaction.verdict.audit_document import AuditCheck
from compaction.verdict.findings import Code, Finding, finding
from minutebook.compression import compression_of
from minutebook.format.minute import minute_text
from minutebook.format.position import Position
from minutebook.format.record import decode_line
from minutebook.format.segment import inflate

_READ_AGAIN: Final = 3
"""How many objects of a shard are read once more, for the positions that its finding shows."""


def producer_findings(context: JobContext, copies: Copies, expression: str, *, left_out: bool) -> list[Finding]:
    """Return a warning for each shard that holds copies, and an unknown when the day before is in doubt.

    Raises:
        StoreError, FormatError: an object that was read before does not read the same again.
    """
    found = [_of_shard(context, copies, shard, expression, left_out=left_out) for shard in copies.shards]
    if copies.doubt:
        message = f"copies of events of the day before may be missing here: {copies.doubt}"
        found.append(finding(Code.PRODUCER_DUPLICATE, message, severity="unknown"))
    return found


def ids_check(copies: Copies, expression: str) -> AuditCheck:
    """Say how many lines had an id. None at all proves nothing: the path is probably wrong."""
    message = f"{copies.without_id} of {copies.lines} lines have no id under {expression!r}, and are kept"
    nothing = copies.lines > 0 and copies.without_id == copies.lines
    return AuditCheck(id="event_ids", status="unknown" if nothing else "pass", message=message)


def _of_shard(context: JobContext, copies: Copies, shard: str, expression: str, *, left_out: bool) -> Finding:
    of = copies.shards[shard]
    objects = [raw_object for number in of.numbers if (raw_object := copies.objects.get(number)) is not None]
    minutes = {raw_object.minute for raw_object in objects}
    original, kept = "a record of the day before", of.samples[0].original
    first = copies.objects.get(kept.number)
    if first is not None:
        positions = _positions(context, first, Drops([kept.line]), expression)
        original = f"{first.shard_id}/{positions[0]}" if positions else first.key
    fate = "; they are left out of the Parquet files" if left_out else ""
    return finding(
        Code.PRODUCER_DUPLICATE,
        f"{of.records} record(s) repeat an event that was there before; the first of them repeats {original}{fate}",
        severity="warning",
        shard=shard,
        minute=minute_text(minutes.pop()) if len(minutes) == 1 else None,
        keys=[raw_object.key for raw_object in objects],
        positions=_sampled(context, copies, of, expression),
        count=of.records,
    )


def _sampled(context: JobContext, copies: Copies, of: ShardTally, expression: str) -> list[Position]:
    """Return the positions of the first few copies, as far as they lie in the first few objects."""
    chunks: dict[int, list[bytes]] = {}
    for sample in of.samples:
        chunks.setdefault(sample.first.number, []).append(pack_drops(sample))
    found: list[Position] = []
    for number in list(chunks)[:_READ_AGAIN]:
        raw_object = copies.objects.get(number)
        if raw_object is not None and len(found) < SAMPLES:
            drops = unpack_drops(chunks[number], {number: raw_object.key})[raw_object.key]
            found += _positions(context, raw_object, drops, expression)
    return found[:SAMPLES]


def _positions(context: JobContext, raw_object: RawObject, drops: Drops, expression: str) -> list[Position]:
    """Read the positions of some lines of an object, the first few; none when it is gone meanwhile."""
    stored = context.archive.get(raw_object.key)
    found: list[Position] = []
    is_dropped = drops.test(expression)
    lines = () if stored is None else inflate([stored.body], compression_of(raw_object.key))
    for number, line in enumerate(lines):
        if drops.events or number in drops.lines:
            record = decode_line(line)[1]
            if is_dropped(number, record.data):
                found.append(record.position)
        if len(found) == SAMPLES or (not drops.events and number >= drops.lines[-1]):
            break
    return found
