"""What is published of a day that is not over: nothing, unless it is asked for so far; and never as a whole day."""

from pathlib import Path

import pytest

from compaction.job.context import AuditOptions
from compaction.job.scope import SETTLED_MS
from compaction.night.days.run import row_of_compaction
from compaction.night.dry_run import plan_dry_run
from compaction.night.due import find_due
from compaction.night.rewrite import CompactOptions
from consumer.stream.port import StreamIdentity
from minutebook.errors import SafetyRefusal, SettingsError
from minutebook.format.minute import MINUTE_MS
from minutebook.owner import StreamOwner
from minutebook.store.places import open_storage
from minutebook.store.storage import Address
from tests.corpus.desk import DAY, Desk, no_engine
from tests.corpus.model import PREFIX, STREAM_ARN
from tests.fakes.archive_scene import ArchiveScene
from tests.fakes.clock import ManualClock
from tests.fakes.stream import DAY_MS

UNTIL_MS = DAY.begin_ms + 601 * MINUTE_MS


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return a day that is not published, a quarter of an hour after its end."""
    desk = Desk(tmp_path)
    desk.clock = ManualClock(DAY.end_ms + 15 * 60_000)
    return desk


def so_far(until_ms: int = UNTIL_MS) -> AuditOptions:
    """Ask for a day so far."""
    return AuditOptions(so_far_ms=until_ms)


@pytest.mark.parametrize("accept", [False, True])
def test_a_day_that_is_not_settled_is_held(desk: Desk, accept: bool) -> None:  # noqa: FBT001 - a case
    """Before a line of it is read, whatever may be accepted: it will have other rows in a moment."""
    done = desk.compact(accept="known" if accept else None, engine=no_engine)
    assert (done.state, done.verdict, "not over" in done.reason) == ("held", "unknown", True)
    assert not list(desk.storage.list_objects(""))
    desk.clock.advance(SETTLED_MS / 1000)
    assert desk.compact().verdict == "clean"


def test_a_day_so_far_says_so_and_holds_no_later_row(desk: Desk) -> None:
    """Pointer and manifest name the end of the scope."""
    done = desk.compact(audit=so_far())
    pointer, manifest = desk.publisher().published()
    assert pointer is not None
    assert (done.state, done.verdict, done.manifest) == ("published", "clean", manifest)
    assert pointer.until == "2026-11-20T10:01:00.000Z"
    rows = sum(
        len(segment.records)
        for shard in desk.corpus.shards
        for segment in shard.segments
        if DAY.first_minute <= segment.metadata.minute < DAY.first_minute + 601
    )
    assert len(desk.published_rows()) == rows < desk.corpus.records


def test_a_day_so_far_is_there_already_for_the_same_end_alone(desk: Desk) -> None:
    """Another end is another claim, even over the same rows."""
    desk.compact(audit=so_far())
    assert desk.compact(audit=so_far(), engine=no_engine).state == "already"
    assert desk.compact(audit=so_far(UNTIL_MS + MINUTE_MS)).state == "published"


def test_the_whole_day_follows_the_day_so_far(desk: Desk) -> None:
    """It is judged again though not an object came, and the pointer says that it is whole."""
    desk.compact(audit=so_far(DAY.end_ms))
    before = desk.publisher().published()
    desk.clock.advance(SETTLED_MS / 1000)
    done = desk.compact()
    pointer, _ = desk.publisher().published()
    assert before[0] is not None
    assert pointer is not None
    assert (before[0].until, pointer.until, done.state) == ("2026-11-21T00:00:00.000Z", None, "published")
    assert len(desk.published_rows()) == desk.corpus.records


def test_a_part_of_a_day_that_is_whole_is_published_already(desk: Desk) -> None:
    """Readers would see less than they did."""
    desk.clock.advance(SETTLED_MS / 1000)
    desk.compact()
    done = desk.compact(audit=so_far(), engine=no_engine)
    assert (done.state, done.verdict, len(desk.published_rows())) == ("already", "clean", desk.corpus.records)
    assert plan_dry_run(desk.context(), DAY, CompactOptions(so_far(), desk.out)).action == "nothing to do"


def test_a_loss_withdraws_the_whole_day_that_a_part_was_asked_of(desk: Desk) -> None:
    """What is published is judged, also hours behind the part, and the exit code is that of the judgement."""
    desk.clock.advance(SETTLED_MS / 1000)
    desk.compact()
    shard = desk.corpus.shards[0]
    open_storage(desk.archive).delete([shard.segments[shard.in_day(DAY)[-2]].key])
    done = desk.compact(audit=so_far())
    assert (done.state, done.verdict, done.done) == ("held", "defects", ("withdrawn",))
    assert row_of_compaction(DAY, done, "unknown").exit_code == 3
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    assert (pointer.verdict, pointer.until) == ("defects", None)


def test_another_streams_archive_is_not_published(desk: Desk) -> None:
    """Its rows would stand among ours."""
    with pytest.raises(SafetyRefusal, match="belongs to the stream"):
        desk.compact(owner=StreamOwner("other", "us-east-1"))
    assert not list(desk.storage.list_objects(""))


@pytest.mark.parametrize("command", ["compact", "due", "dry run"])
def test_another_applications_properties_touch_no_published_day(desk: Desk, command: str) -> None:
    """Its checkpoints would withdraw a verdict that is true; nothing is read or written before that is noticed."""
    desk.clock.advance(SETTLED_MS / 1000)
    desk.compact()
    audit = AuditOptions(application="another", published=desk.out)
    before = list(desk.storage.list_objects(""))
    runs = {
        "compact": lambda: desk.compact(audit=audit, engine=no_engine),
        "due": lambda: find_due(desk.context(), desk.out, audit, 3),
        "dry run": lambda: plan_dry_run(desk.context(), DAY, CompactOptions(audit, desk.out)),
    }
    with pytest.raises(SafetyRefusal, match="begun by the application app") as caught:
        runs[command]()
    assert "applicationName" in caught.value.next_step
    assert list(desk.storage.list_objects("")) == before


def test_a_day_before_the_archive_begins_is_not_published(tmp_path: Path) -> None:
    """Nobody was to archive it: an empty day would say that nothing arrived."""
    desk = Desk(tmp_path)
    store = open_storage(Address(None, str(desk.raw)))
    store.delete([f"{PREFIX}_application.json"])
    ArchiveScene(store, PREFIX).settle(StreamIdentity(STREAM_ARN, 1, DAY_MS), start_at_ms=DAY.end_ms)
    with pytest.raises(SettingsError, match="before this archive begins"):
        desk.compact()
    assert not list(desk.storage.list_objects(""))
