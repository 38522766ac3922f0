"""A tombstone that cannot be read: named by audit, compact, and never a reason to stop judging other days."""

import re
from pathlib import Path

import pytest

from compaction.audit.audit import audit_day
from compaction.job.context import AuditOptions
from compaction.verdict.audit_document import Audit, AuditLevel
from minutebook.errors import SafetyRefusal
from minutebook.format.keys import duplicates_key
from minutebook.format.segment import SegmentWriter
from minutebook.store.places import open_storage
from minutebook.store.storage import Address
from tests.corpus.auditing import job_context
from tests.corpus.desk import DAY, Mill, expire
from tests.corpus.model import PREFIX, Corpus, Shape
from tests.fakes.clock import ManualClock

KEY = f"{PREFIX}_expired/{DAY.shift(-1)}.json"
DAMAGE = {
    "cut": lambda body: body[: len(body) // 2],
    "no JSON": lambda body: b"gone" + body,
    "format": lambda body: body.replace(b'"format": 1', b'"format": 9'),
    "position": lambda body: re.sub(rb'"last": "[0-9]+', b'"last": "x', body),
    "empty": lambda _: b"",
}
each_damage = pytest.mark.parametrize("damage", DAMAGE)


def damaged(
    folder: Path, damage: str, *, minutes: tuple[int, ...] = (-1445, -5, 5, 600, 1441), days: int = 1
) -> Mill:
    """Return an archive of which the day before, or one of the days before, was expired; its tombstone is damaged."""
    mill = Mill(folder, Corpus(DAY, shape=Shape(shards=1, minutes=minutes)))
    for number in range(1, days + 1):
        expire(mill, "g", number)
    path = mill.raw / KEY
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    return mill


def audit(mill: Mill, days: int = 0, level: AuditLevel = "keys") -> Audit:
    """Audit a day."""
    return audit_day(mill.context(), DAY.shift(days), AuditOptions(level=level)).audit


def told(found: Audit) -> list[tuple[str, str]]:
    """Return the findings in brief."""
    return [(one.code, one.severity) for one in found.findings]


@each_damage
def test_the_day_itself_is_never_clean(tmp_path: Path, damage: str) -> None:
    """It is expired, and nobody can tell what was kept of it."""
    found = audit(damaged(tmp_path, damage), -1)
    assert found.verdict == "unknown"
    assert {("expired_day", "unknown"), ("unreadable_object", "unknown")} == set(told(found))
    assert all(one.keys == (KEY,) for one in found.findings)


@each_damage
@pytest.mark.parametrize("level", ["inventory", "keys"])
def test_a_day_that_stands_on_it_is_unknown(tmp_path: Path, damage: str, level: AuditLevel) -> None:
    """What the day's first segment follows may have been expired on purpose: that is no proof of a loss."""
    found = audit(damaged(tmp_path, damage), level=level)
    assert found.verdict == "unknown", told(found)
    assert ("unreadable_object", "warning") in told(found)
    assert KEY in {key for one in found.findings for key in one.keys}


def test_a_segment_that_is_gone_elsewhere_is_lost_all_the_same(tmp_path: Path) -> None:
    """The day that cannot be read lies before both of its neighbours."""
    mill = damaged(tmp_path, "cut", minutes=(-1445, -5, 5, 300, 600, 1441))
    open_storage(Address(None, str(mill.raw))).delete([mill.corpus.shards[0].segments[3].key])
    found = audit(mill)
    assert (found.verdict, ("broken_chain", "defect") in told(found)) == ("defects", True)


@each_damage
def test_a_day_that_does_not_need_it_is_judged(tmp_path: Path, damage: str) -> None:
    """Clean by its own evidence; the object is named."""
    mill = damaged(tmp_path, damage, minutes=(-1445, -5, 5, 600, 1441, 1500, 2881))
    context = job_context(mill.raw, mill.corpus.checkpoints, clock=ManualClock(DAY.shift(9).begin_ms))
    found = audit_day(context, DAY.shift(1), AuditOptions()).audit
    assert (found.verdict, told(found)) == ("clean", [("unreadable_object", "warning")])


@each_damage
def test_the_days_around_it_are_published_as_what_is_proven(tmp_path: Path, damage: str) -> None:
    """Unknown, where they stand on it; the day itself is refused as any expired one."""
    mill = damaged(tmp_path, damage)
    done = mill.compact()
    assert (done.state, done.verdict) == ("held" if done.verdict == "defects" else done.state, "unknown")
    with pytest.raises(SafetyRefusal, match="were expired"):
        mill.compact(day=DAY.shift(-1))


def test_a_dropped_record_whose_original_may_lie_there_stays_dropped(tmp_path: Path) -> None:
    """Whether it is archived, the tombstone would tell."""
    corpus = Corpus(DAY, shape=Shape(shards=1, minutes=(-1445, -5, 5, 600, 1441)))
    shard = corpus.shards[0]
    segment, original = shard.segments[3], shard.segments[1].records[0]
    writer = SegmentWriter(shard.shard_id, segment.metadata.minute)
    writer.drop(segment.records[0], f"app/{shard.shard_id}/{original.position}")
    writer.extend(segment.records[1:])
    metadata = writer.metadata(after=segment.metadata.after, writer="w-1")
    segment.body, segment.fields = writer.body(), {**segment.fields, **metadata.encode()}
    key = duplicates_key(PREFIX, shard.shard_id, metadata.minute, metadata.first, metadata.writer)
    corpus.objects[key] = (writer.duplicates_body(), {})
    mill = Mill(tmp_path, corpus)
    expire(mill, "g")
    (mill.raw / KEY).write_bytes(b"")
    assert ("dropped_without_original", "unknown") in told(audit(mill))
