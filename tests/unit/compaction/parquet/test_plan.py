"""Which objects are merged: those whose spans touch, within what their metadata says."""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import msgspec

from compaction.audit.audit import audit_day
from compaction.job.context import AuditOptions
from compaction.parquet.plan import LineSpan, MergeGroup, RawObject, TaskSizes, group_overlaps, plan_tasks
from compaction.tasks.task import Order, TaskResult, run
from minutebook.format.position import Position
from tests.corpus.auditing import job_context
from tests.corpus.desk import DAY, Desk
from tests.corpus.model import Corpus, body_of
from tests.corpus.object_defects import swapped_lines


class CountedPosition(Position):
    """A position that counts how often it is compared."""

    compared: ClassVar[Counter[str]] = Counter()

    def __lt__(self, other: object) -> bool:
        self.compared["times"] += 1
        return tuple.__lt__(self, other)  # type: ignore[operator] # as every tuple

    def __gt__(self, other: object) -> bool:
        self.compared["times"] += 1
        return tuple.__gt__(self, other)  # type: ignore[operator] # as every tuple


def span(number: int, low: int, high: int) -> LineSpan:
    """Return the span of an object of the one shard."""
    raw_object = RawObject(f"k{number:06d}", "e", 1, "s", 0, Position(low))
    return LineSpan(raw_object, CountedPosition(low), CountedPosition(high), is_sorted=True)


def test_objects_that_touch_are_one_group() -> None:
    """Also where an earlier one reaches over several."""
    spans = [span(0, 1, 5), span(1, 6, 30), span(2, 7, 9), span(3, 10, 12), span(4, 31, 40)]
    groups = [[raw_object.key for raw_object in group.objects] for group in group_overlaps(spans)]
    assert groups == [["k000000"], ["k000001", "k000002", "k000003"], ["k000004"]]


def test_grouping_takes_a_sort_and_one_sweep() -> None:
    """A day of two writers whose cuts interleave touches from end to end: pairs must not be compared."""
    count = 5_000
    spans = [span(number, 10 * number, 10 * number + 15) for number in range(count)]
    CountedPosition.compared.clear()
    (group,) = group_overlaps(spans)
    assert len(group.objects) == count
    assert CountedPosition.compared["times"] < 20 * count


def one(shard: int, number: int, size: int) -> MergeGroup:
    """Return the group of one object."""
    name = f"shardId-{shard:012d}"
    return MergeGroup((RawObject(f"{name}/{number:06d}", "e", size, name, number, Position(number)),))


def test_a_large_day_has_about_as_many_files_as_it_should() -> None:
    """One shard holds half of it: tasks of one size, in the order of the shards."""
    sizes = TaskSizes(files=380, most_bytes=1 << 30)
    objects = [one(shard, number, 8 << 20) for shard in range(10) for number in range(1_800)]
    objects += [one(10, number, 16 << 20) for number in range(7_500)]
    tasks = plan_tasks(objects, sizes=sizes)
    assert 370 < len(tasks) <= 400
    assert max(task.size for task in tasks) <= sizes.bytes_for(sum(group.size for group in objects))
    assert [raw_object for task in tasks for raw_object in task.objects] == [group.objects[0] for group in objects]


def test_a_very_large_day_has_more_files_and_no_larger_ones() -> None:
    """A file above 512 MiB takes an engine's worker too long: beyond 2 TB the number of files grows instead."""
    sizes = TaskSizes()
    assert sizes.bytes_for(1 << 30) == 64 << 20
    assert sizes.bytes_for(3_800 * (512 << 20)) == sizes.bytes_for(1 << 50) == 512 << 20
    tasks = plan_tasks([one(0, number, 64 << 20) for number in range(100)], day_bytes=1 << 50)
    assert {task.size for task in tasks[:-1]} == {512 << 20}


def test_small_shards_share_a_file() -> None:
    """A thousand shards of a megabyte are some files, and not a thousand."""
    tasks = plan_tasks([one(shard, 1, 1 << 20) for shard in range(1_000)])
    assert len(tasks) == 16


def test_tiny_segments_are_cut_by_number() -> None:
    """A task's requests are bounded."""
    tasks = plan_tasks([one(0, number, 100) for number in range(9_000)])
    assert [len(task.groups) for task in tasks] == [4_000, 4_000, 1_000]


def test_a_line_outside_its_objects_span_draws_no_other_object_in(tmp_path: Path) -> None:
    """One low position would touch everything before it: the object is judged by itself, and read alone."""
    corpus = Corpus(DAY)
    stored = corpus.shards[0].segments[4]
    low = corpus.shards[0].segments[1].records[2].position
    stored.records[1] = msgspec.structs.replace(stored.records[1], sequence_number=str(low.sequence))
    stored.body = body_of(corpus.shards[0].shard_id, stored.metadata.minute, stored.records)
    orders: list[Order] = []

    def engine(given: list[Order]) -> list[TaskResult]:
        orders.extend(given)
        return [run(order) for order in given]

    desk = Desk(tmp_path, corpus)
    context = job_context(desk.raw, corpus.checkpoints, clock=desk.clock)._replace(engine=engine)  # type: ignore[arg-type]
    found = audit_day(context, DAY, AuditOptions()).audit
    assert {(finding.code, finding.keys) for finding in found.findings} == {
        ("out_of_order", (stored.key,)),
        ("metadata_mismatch", (stored.key,)),
    }
    merged = [group for order in orders for group in order.task.groups if group.merge]
    assert [[raw_object.key for raw_object in group.objects] for group in merged] == [[stored.key]]


def test_a_day_with_such_a_line_is_written_whole(tmp_path: Path) -> None:
    """Nothing is lost: the line stands among those of its object."""
    corpus = Corpus(DAY)
    stored = corpus.shards[0].segments[4]
    low = corpus.shards[0].segments[1].records[2].position
    stored.records[1] = msgspec.structs.replace(stored.records[1], sequence_number=str(low.sequence + 1))
    stored.body = body_of(corpus.shards[0].shard_id, stored.metadata.minute, stored.records)
    desk = Desk(tmp_path, corpus)
    done = desk.compact(accept="known")
    assert done.result is not None
    assert done.result.audit.equation.balanced
    rows = [Position(int(sequence), sub) for shard, sequence, sub in desk.published_rows() if shard.endswith("0")]
    assert Position(low.sequence + 1) in rows
    assert sum(after < before for before, after in pairwise(rows)) == 1


def test_lines_out_of_order_are_sorted_in_the_parquet(tmp_path: Path) -> None:
    """The raw object stays as it is, and the finding with it."""
    corpus = Corpus(DAY)
    shard = corpus.shards[0]
    swapped_lines(corpus, shard, 4)
    desk = Desk(tmp_path, corpus)
    desk.compact(accept="known")
    rows = [Position(int(sequence), sub) for name, sequence, sub in desk.published_rows() if name == shard.shard_id]
    assert rows
    assert rows == sorted(rows)
