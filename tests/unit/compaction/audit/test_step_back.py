"""Arrival times that step back within a shard: measured each night, and never clean beyond what proofs assume."""

from itertools import count
from pathlib import Path

import msgspec
import pytest

from compaction.audit.audit import audit_day
from compaction.job.context import AuditOptions
from compaction.verdict.audit_document import Audit, AuditLevel, publishable
from consumer.stream.port import StreamIdentity
from minutebook.format.day import Day
from minutebook.format.minute import MINUTE_MS, minute_of
from minutebook.format.record import Record
from minutebook.store.places import open_storage
from minutebook.store.storage import Address, Storage
from tests.corpus.auditing import job_context
from tests.corpus.desk import DAY, Desk, no_engine
from tests.corpus.model import PREFIX, STREAM_ARN, Corpus, make_segment
from tests.fakes.archive_scene import ArchiveScene
from tests.fakes.clock import ManualClock
from tests.fakes.stream import DAY_MS

SHARD = "shardId-000000000000"
HOUR_MS = 60 * MINUTE_MS
NOON_MS = DAY.begin_ms + 12 * HOUR_MS


def archive(folder: Path, *groups: tuple[int, ...]) -> None:
    """Write a shard whose records arrived at these times, in the order of positions: a segment each group."""
    scene: ArchiveScene[Storage] = ArchiveScene(open_storage(Address(None, str(folder))), PREFIX)
    scene.settle(StreamIdentity(STREAM_ARN, DAY.begin_ms - 3 * DAY_MS, DAY_MS))
    scene.first(SHARD)
    scene.begin(SHARD)
    sequences = count(1000)
    around = ((DAY.begin_ms - 5 * HOUR_MS,), *groups, (DAY.end_ms + 5 * HOUR_MS,))
    for number, times in enumerate(around):
        records = [Record(str(next(sequences)), 0, "k", time_ms, b"x") for time_ms in times]
        scene.segment(SHARD, minute_of(times[0]), records, writer=f"run-{number}")


def audit(folder: Path, level: AuditLevel = "keys", day: Day = DAY) -> Audit:
    """Audit a day a day later."""
    context = job_context(folder, clock=ManualClock(DAY.shift(2).begin_ms))
    return audit_day(context, day, AuditOptions(level=level)).audit


def step(found: Audit) -> int | None:
    """Return the step back that the shard's row says."""
    return found.shards[0].arrival_step_back_ms


@pytest.mark.parametrize("level", ["inventory", "keys"])
@pytest.mark.parametrize("late_ms", [61_000, 3 * MINUTE_MS, 2 * HOUR_MS])
def test_a_step_beyond_what_proofs_assume_is_never_clean(tmp_path: Path, late_ms: int, level: AuditLevel) -> None:
    """Its rows are right, and published; what is proven of times is not worth its name."""
    archive(tmp_path, (NOON_MS,), (NOON_MS - late_ms,), (NOON_MS + HOUR_MS,))
    found = audit(tmp_path, level)
    assert found.verdict == "unknown"
    [about] = found.findings
    assert (about.code, about.severity, about.shard) == ("arrival_step_back", "unknown", SHARD)
    assert (about.positions, len(about.keys), step(found)) == (("1002:0",), 2, late_ms)
    assert publishable(found)


@pytest.mark.parametrize(
    ("late_ms", "severities"), [(29_000, []), (30_000, []), (45_000, ["warning"]), (60_000, ["warning"])]
)
def test_a_smaller_step_is_clean_and_half_of_it_is_a_warning(
    tmp_path: Path, late_ms: int, severities: list[str]
) -> None:
    """Over a minute's boundary, where a new segment begins."""
    archive(tmp_path, (NOON_MS,), (NOON_MS - late_ms,), (NOON_MS + HOUR_MS,))
    found = audit(tmp_path)
    assert (found.verdict, [about.severity for about in found.findings], step(found)) == (
        "clean",
        severities,
        late_ms,
    )


@pytest.mark.parametrize(("late_ms", "warnings"), [(29_000, 0), (45_000, 1)])
def test_a_step_inside_a_segment_shows_where_lines_are_read(tmp_path: Path, late_ms: int, warnings: int) -> None:
    """The metadata has no order."""
    archive(tmp_path, (NOON_MS + 1, NOON_MS + 55_000, NOON_MS + 55_000 - late_ms, NOON_MS + 56_000))
    found = audit(tmp_path)
    assert (found.verdict, len(found.findings), step(found)) == ("clean", warnings, late_ms)
    by_names = audit(tmp_path, "inventory")
    assert (by_names.findings, step(by_names)) == ((), 0)


def test_steps_add_up_over_segments(tmp_path: Path) -> None:
    """Each is small, and the last record is far behind the first one."""
    times = [NOON_MS, NOON_MS - 50_000, NOON_MS - 100_000, NOON_MS - 150_000]
    archive(tmp_path, *((time_ms,) for time_ms in times))
    assert (audit(tmp_path).verdict, step(audit(tmp_path))) == ("unknown", 150_000)


@pytest.mark.parametrize("edge_ms", [DAY.begin_ms, DAY.end_ms])
def test_a_step_over_midnight_is_measured_on_both_days(tmp_path: Path, edge_ms: int) -> None:
    """The record of the day before follows one of the day behind: either day's proofs rest on it."""
    archive(tmp_path, (edge_ms - HOUR_MS,), (edge_ms + 20_000,), (edge_ms - 50_000,), (edge_ms + HOUR_MS,))
    for day in (Day(edge_ms // DAY_MS), Day(edge_ms // DAY_MS - 1)):
        found = audit(tmp_path, day=day)
        steps = [about.severity for about in found.findings if about.code == "arrival_step_back"]
        assert steps == ["unknown"]
        assert (found.verdict, step(found)) == ("unknown", 70_000)


def test_segments_that_share_records_are_no_step(tmp_path: Path) -> None:
    """A zombie's segment begins in the midst of another one: the records are the same, not later ones."""
    corpus = Corpus(DAY)
    shard = corpus.shards[0]
    one = shard.segments[shard.in_day(DAY)[2]]
    again = make_segment(
        shard.shard_id, one.metadata.minute, one.records[1:], one.records[0].position, "zombie-1", one.metadata
    )
    shard.segments.insert(shard.in_day(DAY)[2] + 1, again)
    found = audit(Desk(tmp_path, corpus).raw)
    assert "overlapping_segments" in {about.code for about in found.findings}
    assert found.shards[0].arrival_step_back_ms == audit(Desk(tmp_path / "2").raw).shards[0].arrival_step_back_ms


def test_a_published_day_keeps_what_reading_its_lines_had_shown(tmp_path: Path) -> None:
    """It is judged again by names: neither the number nor the warning goes, and nothing is written again."""
    corpus = Corpus(DAY)
    shard = corpus.shards[0]
    place = shard.in_day(DAY)[2]
    one = shard.segments[place]
    opens_ms = one.metadata.minute * MINUTE_MS
    for number, record in enumerate(one.records):
        one.records[number] = Record(
            record.sequence_number,
            record.sub_sequence_number,
            record.partition_key,
            opens_ms + (50_000 if number == 0 else 5_000 + number),
            record.data,
        )
    low_ms, high_ms = opens_ms + 5_001, opens_ms + 50_000
    one.metadata = msgspec.structs.replace(one.metadata, arrival_min_ms=low_ms, arrival_max_ms=high_ms)
    one.seal()
    desk = Desk(tmp_path, corpus)
    first = desk.compact()
    assert first.result is not None
    warned = [about for about in first.result.audit.findings if about.code == "arrival_step_back"]
    assert (first.verdict, [about.severity for about in warned]) == ("clean", ["warning"])
    pointer = desk.publisher().current().pointer
    for _ in range(2):
        assert desk.compact(engine=no_engine).verdict == "clean"
        assert desk.publisher().current().pointer == pointer
