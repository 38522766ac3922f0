"""A day that is judged in many groups of shards is judged as in one: what looks across shards is not lost."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from compaction.audit.audit import audit_day
from compaction.audit.day_view import view_day
from compaction.audit.shards.objects import TaskSize, number_tasks
from compaction.inventory.day_objects import ListArgument, list_piece
from compaction.inventory.segments import ListedSegment
from compaction.job.context import AuditOptions
from compaction.parquet.plan import TaskSizes
from compaction.shard_groups.grouping import grouping_of
from compaction.shard_groups.local import LocalGroupSource, LocalShardGroups
from compaction.shard_groups.port import GroupValue, ShardGroups, Values
from compaction.verdict.audit_document import Audit, AuditLevel
from minutebook.compression import compression_of
from minutebook.format.keys import segment_key
from minutebook.store.places import open_storage
from minutebook.store.storage import Address
from tests.corpus.auditing import job_context
from tests.corpus.desk import DAY
from tests.corpus.event_defects import drop_records
from tests.corpus.model import PREFIX, Corpus, Shape, Shard


def key_under(shard: Shard, index: int, other: Shard) -> str:
    """Return the key that a segment would have under another shard."""
    metadata = shard.segments[index].metadata
    compression = compression_of(shard.segments[index].key)
    return segment_key(PREFIX, other.shard_id, metadata.minute, metadata.first, compression)


def copied(corpus: Corpus) -> None:
    """Copy a segment under another shard's key, and one more to a name that is none of ours."""
    one, *_, last = corpus.shards
    corpus.objects[key_under(one, 3, last)] = (one.segments[3].body, one.segments[3].fields)
    corpus.objects[last.segments[4].key.replace(".jsonl", "-copy.jsonl")] = (
        last.segments[4].body,
        last.segments[4].fields,
    )


def moved(corpus: Corpus) -> None:
    """Let a segment lie under another shard's key alone."""
    one, *_, last = corpus.shards
    stored = last.segments[3]
    corpus.objects[key_under(last, 3, one)] = (stored.body, stored.fields)
    last.segments.remove(stored)


def same_writer(corpus: Corpus) -> None:
    """Let segments of two shards name one writer, each in its place, and of one size."""
    one, *_, last = corpus.shards
    one.segments[3].fields["writer"] = last.segments[4].fields["writer"]
    last.segments[4].body = last.segments[4].body.ljust(len(one.segments[3].body), b"\0")
    one.segments[3].body = one.segments[3].body.ljust(len(last.segments[4].body), b"\0")


def audited(folder: Path, corpus: Corpus, shards: int, level: AuditLevel) -> Audit:
    """Audit an archive in groups of so many shards."""
    context = job_context(folder, corpus.checkpoints)._replace(sizes=TaskSizes(segments=5, shards=shards))
    return audit_day(context, DAY, AuditOptions(level=level)).audit


@pytest.mark.parametrize("level", ["inventory", "keys"])
@pytest.mark.parametrize(
    ("harm", "code", "count"),
    [(copied, "identical_segment", 2), (moved, "metadata_mismatch", 1), (same_writer, "identical_segment", 1)],
)
def test_groups_of_one_shard_judge_as_one_group_does(
    tmp_path: Path, harm: Callable[[Corpus], None], code: str, count: int, level: AuditLevel
) -> None:
    """Copies and segments under other shards' keys, by the same findings and the same numbers."""
    corpus = Corpus(DAY, shape=Shape(shards=5))
    harm(corpus)
    corpus.write(open_storage(Address(None, str(tmp_path))))
    one, many = (audited(tmp_path, corpus, shards, level) for shards in (100, 1))
    assert many.findings == one.findings
    assert sum(found.code == code for found in many.findings) >= count
    assert (many.equation, many.shards, many.verdict) == (one.equation, one.shards, one.verdict)


def test_an_original_in_another_group_is_found(tmp_path: Path) -> None:
    """A record that was dropped as the copy of another shard's is no finding, and one of nothing is a defect."""
    corpus = Corpus(DAY, shape=Shape(shards=4))
    one, other = corpus.shards[0], corpus.shards[3]
    there = f"corpus/{other.shard_id}/{other.segments[2].records[1].position}"
    gap = f"corpus/{other.shard_id}/{other.segments[2].metadata.last.sequence}:1"
    drop_records(corpus, one, 3, {1: there, 2: gap})
    corpus.write(open_storage(Address(None, str(tmp_path))))
    single, many = (audited(tmp_path, corpus, shards, "keys") for shards in (100, 1))
    assert many.findings == single.findings
    assert [(found.code, found.severity, found.count) for found in many.findings] == [
        ("dropped_without_original", "defect", 1)
    ]


class Forgetful(LocalGroupSource):
    """Lists a day whose first folder is listed again, on another machine, after an object is gone."""

    def scatter(self, items: Values) -> LocalShardGroups:
        """Return groups that lose an object between two steps."""
        return Losing(self._run, {number: [item] for number, item in enumerate(items)})


class Losing(LocalShardGroups):
    """Drops the last row of each list."""

    def repartition(
        self, work: Callable[[Values, object], object], arguments: object, count: int
    ) -> LocalShardGroups:
        """Move the values that remain."""
        del work

        def lossy(values: Values, argument: ListArgument) -> list[GroupValue]:
            given = list(list_piece(values, argument))
            return [(group, value[:-1] if _is_rows(value) else value) for group, value in given]

        return super().repartition(lossy, arguments, count)  # type: ignore[arg-type] # those of the listing


def _is_rows(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], ListedSegment)


def test_a_group_that_was_listed_again_is_not_judged(tmp_path: Path) -> None:
    """What is judged must be what the generation names: anything else could not be proven."""
    corpus = Corpus(DAY)
    corpus.write(open_storage(Address(None, str(tmp_path))))
    context = job_context(tmp_path, corpus.checkpoints)
    context = context._replace(group_sources=lambda _: Forgetful(context.engine))
    audit = audit_day(context, DAY, AuditOptions(level="inventory")).audit
    assert audit.verdict == "unknown"
    assert re.search("listed again", audit.checks[0].message)


def test_a_shard_that_nobody_knew_lies_between_its_neighbours() -> None:
    """Groups are known by names; more shards behind the last one move none."""
    names = [f"shardId-{number:012d}" for number in range(20)]
    grouping = grouping_of(names, 8)
    assert [grouping.of(name) for name in names] == [1] * 8 + [2] * 8 + [3] * 4
    assert list(grouping.numbers) == [1, 2, 3]
    assert grouping.of("shardId-000000000007a") == 1
    assert grouping.of("") == 1
    more = grouping_of([*names, *(f"shardId-{number:012d}" for number in range(20, 30))], 8)
    assert [more.of(name) for name in names] == [grouping.of(name) for name in names]
    assert grouping_of([], 8).total == 2
    assert grouping_of((f"{number:06d}" for number in range(10_000)), 8).total <= 130


def test_small_groups_share_a_task() -> None:
    """While there is room; a group of several tasks begins one of its own."""
    sizes = {1: [TaskSize(30, 3)], 2: [TaskSize(30, 3)], 3: [TaskSize(50, 5)], 4: [], 5: [TaskSize(90, 9)] * 2}
    sizes[6] = [TaskSize(10, 1)]
    assert number_tasks(sizes, TaskSizes(least_bytes=100, segments=10), 210) == ({1: 0, 2: 0, 3: 1, 5: 2, 6: 3}, 4)


def test_the_digest_of_a_day_is_that_of_its_keys_in_order(tmp_path: Path) -> None:
    """However it was listed: folders and objects beside them, in the order of bytes."""
    corpus = Corpus(DAY)
    for name in ("00!", "00", "01/x", "zz", "é/1"):
        corpus.objects[f"{DAY.path(PREFIX)}{name}" + ("-loose" if "/" not in name else "")] = (b"x", {})
    corpus.write(open_storage(Address(None, str(tmp_path))))
    context = job_context(tmp_path, corpus.checkpoints)
    objects = view_day(context, DAY, None).inventory
    listed: ShardGroups = objects.rows
    assert listed is not None
    keys = [row[0] for row in objects.spool.rows()]
    assert keys == sorted(keys, key=str.encode)
    assert len(keys) == objects.objects == len(list(context.archive.list_objects(DAY.path(PREFIX))))
