"""What `audit --level stream` finds lost withdraws a published verdict in the next night, and in every later one."""

from pathlib import Path

from compaction.job.context import AuditOptions
from compaction.night.due import find_due
from compaction.verdict.audit_document import decode_audit
from tests.corpus.comparing import compare
from tests.corpus.desk import DAY, Desk, no_engine


def verdict(desk: Desk) -> str:
    """Return the published verdict."""
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    return pointer.verdict


def why(desk: Desk) -> str:
    """Return why the day is due; empty: it is not."""
    return {each.day: each.why for each in find_due(desk.context(), desk.out, AuditOptions(), 14).days}[DAY]


def test_a_loss_that_level_stream_sees_withdraws_the_day_for_good(tmp_path: Path) -> None:
    """Its lines are as they were published, and its chain is whole; neither night sees the stream."""
    desk = Desk(tmp_path)
    desk.clock.advance(2 * 86_400)
    assert desk.compact().verdict == "clean"
    assert why(desk) == ""
    shard = desk.corpus.shards[0]
    lost = shard.segments[shard.in_day(DAY)[2]].records[0].position
    found = compare(desk, lost=lost)
    assert ("missing_in_archive", "defect") in {(about.code, about.severity) for about in found.findings}
    assert verdict(desk) == "clean"
    assert why(desk) == "its marks are others"
    for _ in range(3):
        desk.clock.advance(86_400)
        done = desk.compact(engine=no_engine)
        assert (done.state, done.verdict, verdict(desk)) == ("already", "defects", "defects")
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    audit = decode_audit(desk.publisher().audit(pointer) or b"")
    assert [(about.code, about.severity, about.shard) for about in audit.findings] == [
        ("broken_chain", "defect", shard.shard_id)
    ]


def test_a_loss_harms_no_other_day(tmp_path: Path) -> None:
    """It is about the minute in which the records arrived."""
    desk = Desk(tmp_path)
    shard = desk.corpus.shards[0]
    days = [DAY.shift(-1), DAY.shift(1)]
    before = [desk.compact(day=day).verdict for day in days]
    compare(desk, lost=shard.segments[shard.in_day(DAY)[2]].records[0].position)
    desk.clock.advance(3600)
    assert [desk.compact(day=day).verdict for day in days] == before
