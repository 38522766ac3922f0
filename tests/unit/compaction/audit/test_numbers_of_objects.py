"""Objects whose ids are compared have numbers of their own, in the order of day, shard and position, or none."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from archive.errors import SafetyRefusal, SettingsError
from archive.store.places import open_storage
from archive.store.storage import Address
from compaction.audit.audit import audit_day
from compaction.audit.reading import Writing, read_day
from compaction.job.context import AuditOptions, Shuffled
from compaction.job.sight import look
from compaction.tasks.ids.rows import NUMBERS, IdCollector, IdOrder
from compaction.tasks.plan import TaskSizes
from compaction.tasks.taken import TakenHour
from compaction.tasks.task import Order
from tests.corpus.auditing import job_context
from tests.corpus.desk import DAY, Desk
from tests.corpus.model import Corpus

OPTIONS = AuditOptions(event_id="n")


def nobody(orders: Sequence[Order]) -> Shuffled:
    """Run no task."""
    raise AssertionError(orders)


def test_a_day_of_more_tasks_than_numbers_is_refused(tmp_path: Path) -> None:
    """Eighteen tasks read the day and three the day before: there is room for them, or no line is read."""
    corpus = Corpus(DAY)
    corpus.write(open_storage(Address(None, str(tmp_path))))
    given = job_context(tmp_path, corpus.checkpoints)
    enough, fewer = (TaskSizes(least_bytes=1, segments=NUMBERS // tasks, shards=2) for tasks in (21, 20))
    assert audit_day(given._replace(sizes=enough), DAY, OPTIONS).audit.verdict == "clean"
    with pytest.raises(SafetyRefusal, match="take 21 tasks, and event ids are compared of 20"):
        audit_day(given._replace(sizes=fewer, shuffle=nobody), DAY, OPTIONS)


@pytest.mark.parametrize("order", [IdOrder("n", 4, 1, room=2), IdOrder("n", NUMBERS - 2, 1)])
def test_a_task_with_more_objects_than_numbers_is_refused(order: IdOrder) -> None:
    """Its last objects would have the numbers of the next task's first ones, or none that fits."""
    IdCollector(order, ["a", "b"])
    with pytest.raises(SafetyRefusal, match="a task has 3 objects"):
        IdCollector(order, ["a", "b", "c"])


def test_what_hours_have_left_has_no_ids(tmp_path: Path) -> None:
    """Tasks that take hours over come before all others, whatever their shards: their numbers would say nothing."""
    desk = Desk(tmp_path)
    sight = look(desk.context(), DAY, None)
    shard = desk.corpus.shards[0]
    segment = shard.segments[shard.in_day(DAY)[0]]
    place = (shard.shard_id, segment.metadata.first, segment.metadata.minute, segment.key)
    hour = TakenHour(DAY.first_minute, "f/", (place,), (0,), ("facts",))
    writing = Writing(desk.out, "folder/", hours=(hour,))
    with pytest.raises(SettingsError, match="published hours are not read again"):
        read_day(desk.context(), sight.inventory, OPTIONS, writing, None)
