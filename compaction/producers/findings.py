"""What is said of producer duplicates: one finding a shard, what is in doubt, and how many records had an id."""

from typing import Final

from archive.format.minute import minute_text
from archive.format.position import Position
from archive.format.record import decode_line
from archive.format.segment import inflate
from archive.retry import until_known
from compaction.job.context import Ports
from compaction.producers.copies import Copies, ShardCopies
from compaction.tasks.plan import Piece
from compaction.verdict.audit_document import Check
from compaction.verdict.findings import Code, Finding, finding

_READ_AGAIN: Final = 3
"""How many objects of a shard are read once more, for the positions that its finding shows."""


def producer_findings(ports: Ports, copies: Copies, *, left_out: bool) -> list[Finding]:
    """Return a warning for each shard that holds copies, and an unknown when the day before is in doubt.

    Raises:
        StoreError, FormatError: an object that was read before does not read the same again.
    """
    found = [_of_shard(ports, copies, shard, of, left_out=left_out) for shard, of in copies.shards.items()]
    if copies.doubt:
        message = f"copies of events of the day before may be missing here: {copies.doubt}"
        found.append(finding(Code.PRODUCER_DUPLICATE, message, severity="unknown"))
    return found


def ids_check(copies: Copies, expression: str) -> Check:
    """Say how many lines had an id. None at all is no proof of anything: the path is probably wrong."""
    message = f"{copies.without_id} of {copies.lines} lines have no id under {expression!r}, and are kept"
    nothing = copies.lines > 0 and copies.without_id == copies.lines
    return Check(id="event_ids", status="unknown" if nothing else "pass", message=message)


def _of_shard(ports: Ports, copies: Copies, shard: str, of: ShardCopies, *, left_out: bool) -> Finding:
    pieces = [piece for number in of.numbers if (piece := copies.pieces[number]) is not None]
    minutes = {piece.minute for piece in pieces}
    first = copies.pieces[of.samples[0].original.piece]
    original = "a record of the day before"
    if first is not None:
        places = _positions(ports, first, [of.samples[0].original.line])
        original = f"{first.shard_id}/{places[0]}" if places else first.key
    fate = "; they are left out of the Parquet files" if left_out else ""
    return finding(
        Code.PRODUCER_DUPLICATE,
        f"{of.records} record(s) repeat an event that was there before; the first of them repeats {original}{fate}",
        severity="warning",
        shard=shard,
        minute=minute_text(minutes.pop()) if len(minutes) == 1 else None,
        keys=[piece.key for piece in pieces],
        positions=_sampled(ports, copies, of),
        count=of.records,
    )


def _sampled(ports: Ports, copies: Copies, of: ShardCopies) -> list[Position]:
    lines: dict[int, list[int]] = {}
    for copy in of.samples:
        lines.setdefault(copy.place.piece, []).append(copy.place.line)
    found = []
    for number in list(lines)[:_READ_AGAIN]:
        piece = copies.pieces[number]
        found += [] if piece is None else _positions(ports, piece, lines[number])
    return found


def _positions(ports: Ports, piece: Piece, lines: list[int]) -> list[Position]:
    """Read the positions of some lines of an object; none when it is gone meanwhile."""
    stored = until_known(lambda: ports.archive.get(piece.key), ports.waits(), f"GET {piece.key}")
    found = []
    for number, line in enumerate(() if stored is None else inflate([stored.body])):
        if number in lines:
            found.append(decode_line(line)[1].position)
        if number >= lines[-1]:
            break
    return found
