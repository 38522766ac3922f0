"""The verdict of a part of a day is judged by every run, however far that one reaches, and in either direction."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

from compaction.job.context import AuditOptions
from compaction.job.scope import SETTLED_MS
from compaction.job.so_far import NoFullHour
from compaction.night.days.run import row_of_compaction, row_of_error
from compaction.night.due import find_due
from compaction.night.rewrite import Compacted
from compaction.tasks.task import Order, TaskResult
from compaction.verdict.audit_document import decode_audit
from minutebook.format.minute import MINUTE_MS
from minutebook.published.generation import FACTS_FOLDER, Pointer
from minutebook.store.places import open_storage
from tests.corpus.auditing import in_process
from tests.corpus.desk import DAY, Desk, no_engine
from tests.corpus.edits import edit_payload
from tests.corpus.model import Corpus, Stored
from tests.fakes.clock import ManualClock
from tests.unit.compaction.night.test_damaged import DAMAGES

ELEVEN_MS: Final = DAY.begin_ms + 11 * 60 * MINUTE_MS
_BEFORE_MIDNIGHT_MS: Final = DAY.end_ms - MINUTE_MS
UNTIL: Final[dict[str, int | None]] = {
    "earlier": DAY.begin_ms + 30 * MINUTE_MS,
    "the same": ELEVEN_MS,
    "later": DAY.begin_ms + 20 * 60 * MINUTE_MS,
    "the whole day": None,
}


def run(desk: Desk, until_ms: int | None, **changes: object) -> Compacted:
    """Publish a part, or the whole day."""
    return desk.compact(audit=AuditOptions(so_far_ms=until_ms), **changes)  # type: ignore[arg-type]


def pointer_of(desk: Desk) -> Pointer:
    """Return the pointer."""
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    return pointer


def seen(desk: Desk) -> tuple[str, str | None]:
    """Return what readers see: the verdict, and until when."""
    return pointer_of(desk).verdict, pointer_of(desk).until


def segment_at(desk: Desk, minute: int) -> Stored:
    """Return a segment of the first shard."""
    return next(one for one in desk.corpus.shards[0].segments if one.metadata.minute == DAY.first_minute + minute)


def lose(desk: Desk, minute: int) -> None:
    """Delete a segment."""
    open_storage(desk.archive).delete([segment_at(desk, minute).key])


def spoil(desk: Desk, minute: int) -> None:
    """Write something else into a segment."""
    (desk.raw / segment_at(desk, minute).key).write_bytes(b"nothing of ours")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return a day that is published until 11:00, clean, and is settled."""
    desk = Desk(tmp_path)
    desk.clock = ManualClock(DAY.end_ms + SETTLED_MS)
    assert run(desk, ELEVEN_MS).verdict == "clean"
    return desk


@pytest.mark.parametrize("wrong", [lose, spoil])
@pytest.mark.parametrize("minute", [1, 600])
@pytest.mark.parametrize("until", UNTIL)
def test_whatever_the_next_run_reaches_it_withdraws(
    desk: Desk, until: str, minute: int, wrong: Callable[[Desk, int], None]
) -> None:
    """A segment within the part is lost or spoilt: nobody reads clean after the run, and the rows stay."""
    rows = desk.published_rows()
    wrong(desk, minute)
    done = run(desk, UNTIL[until])
    assert (done.state, done.verdict, done.done) == ("held", "defects", ("withdrawn",))
    assert seen(desk) == ("defects", "2026-11-20T11:00:00.000Z")
    assert desk.published_rows() == rows


@pytest.mark.parametrize("until", UNTIL)
def test_hours_that_are_blocked_are_in_no_clean_pointer(tmp_path: Path, until: str) -> None:
    """Two hours of the day are spoilt before anything is published."""
    desk = Desk(tmp_path)
    desk.clock = ManualClock(DAY.end_ms + SETTLED_MS)
    for minute in (1, 600):
        spoil(desk, minute)
    assert (run(desk, UNTIL[until]).state, desk.publisher().current().pointer) == ("held", None)


def test_later_hours_that_are_held_leave_the_part_as_it_is(desk: Desk) -> None:
    """It was judged by itself, which the outcome says."""
    spoil(desk, 1439)
    done = run(desk, None)
    assert (done.state, done.verdict) == ("held", "defects")
    assert "until 2026-11-20T11:00:00.000Z was judged by itself: clean" in done.reason
    assert seen(desk) == ("clean", "2026-11-20T11:00:00.000Z")


def test_a_part_becomes_clean_though_later_hours_are_held(tmp_path: Path) -> None:
    """Its evidence came late; what is wrong behind it is not its own."""
    corpus = Corpus(DAY)
    proof, corpus.shards[2].checkpoint = corpus.shards[2].checkpoint, None
    desk = Desk(tmp_path, corpus)
    desk.clock = ManualClock(DAY.end_ms + SETTLED_MS)
    run(desk, _BEFORE_MIDNIGHT_MS)
    assert seen(desk) == ("unknown", "2026-11-20T23:59:00.000Z")
    spoil(desk, 1439)
    corpus.shards[2].checkpoint = proof
    assert run(desk, None).state == "held"
    assert seen(desk) == ("clean", "2026-11-20T23:59:00.000Z")


@pytest.mark.parametrize("inner_ms", [ELEVEN_MS + MINUTE_MS, None])
def test_a_run_that_loses_judges_what_reaches_further(desk: Desk, inner_ms: int | None) -> None:
    """Another host published more while it read: the pointer never goes back."""
    inner: list[Compacted] = []

    def engine(orders: Sequence[Order]) -> list[TaskResult]:
        if not inner:
            inner.append(run(desk, inner_ms, engine=in_process))
        return in_process(orders)

    desk.storage.delete([desk.publisher().folder.pointer])
    outer = run(desk, UNTIL["earlier"], engine=engine)
    assert (inner[0].state, outer.state, outer.verdict) == ("published", "already", "clean")
    assert seen(desk) == ("clean", None if inner_ms is None else "2026-11-20T11:01:00.000Z")


def test_a_run_that_is_asked_for_less_finds_it_there(desk: Desk) -> None:
    """Nothing is read."""
    assert run(desk, UNTIL["earlier"], engine=no_engine).state == "already"
    assert seen(desk) == ("clean", "2026-11-20T11:00:00.000Z")


def test_hours_that_come_are_not_late(desk: Desk) -> None:
    """Only what is new within the part that was published is."""
    later = run(desk, None)
    assert later.result is not None
    assert "late_minutes" not in {about.code for about in later.result.audit.findings}


def test_nothing_is_withdrawn_because_no_hour_is_covered(tmp_path: Path) -> None:
    """Nothing is published by names alone, and nothing withdrawn: the part that readers see is judged as it is."""
    desk = Desk(tmp_path)
    desk.clock = ManualClock(DAY.begin_ms + 200 * MINUTE_MS)
    covered = AuditOptions(so_far_ms="covered")
    held = desk.compact(audit=covered, engine=no_engine)
    assert (held.state, held.verdict, "covered by every shard" in held.reason) == ("held", "unknown", True)
    assert row_of_compaction(DAY, held, "unknown").exit_code == 4
    run(desk, DAY.begin_ms + 60 * MINUTE_MS)
    assert desk.compact(audit=covered, engine=no_engine).state == "already"
    assert seen(desk) == ("clean", "2026-11-20T01:00:00.000Z")
    lose(desk, 1)
    assert desk.compact(audit=covered).done == ("withdrawn",)


def test_before_the_first_hour_is_over_there_is_nothing_to_do(tmp_path: Path) -> None:
    """That is no failure of a cron each hour; a part that a person published is judged then, too."""
    desk = Desk(tmp_path)
    desk.clock = ManualClock(DAY.begin_ms + 79 * MINUTE_MS)
    covered = AuditOptions(so_far_ms="covered")
    with pytest.raises(NoFullHour) as caught:
        desk.compact(audit=covered, engine=no_engine)
    row = row_of_error(DAY, caught.value)
    assert (row.state, row.exit_code, "no full hour" in row.reason) == ("early", 0, True)
    run(desk, DAY.begin_ms + 30 * MINUTE_MS)
    assert desk.compact(audit=covered, engine=no_engine).state == "already"


@pytest.mark.parametrize("minutes", [79, 200])
def test_a_host_whose_clock_is_late_leaves_a_whole_day_as_it_is(desk: Desk, minutes: int) -> None:
    """By its clock no hour is over, or none is covered."""
    run(desk, None)
    desk.clock = ManualClock(DAY.begin_ms + minutes * MINUTE_MS)
    done = desk.compact(audit=AuditOptions(so_far_ms="covered"), engine=no_engine)
    assert (done.state, done.verdict) == ("already", "unknown")  # it has judged nothing
    assert seen(desk) == ("clean", None)


@pytest.mark.parametrize("how", [*DAMAGES, "gone"])
@pytest.mark.parametrize("until_ms", [ELEVEN_MS, None])
def test_a_damaged_manifest_does_not_keep_a_verdict(desk: Desk, how: str, until_ms: int | None) -> None:
    """Nothing can be published in its place, and nobody reads clean."""
    run(desk, until_ms)
    path = Path(desk.storage.uri(pointer_of(desk).manifest))
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(DAMAGES[how](path.read_bytes()))
    lose(desk, 1)
    assert run(desk, until_ms).state == "held"
    assert pointer_of(desk).verdict == "defects"


def test_a_settled_day_that_is_published_in_part_is_due(desk: Desk) -> None:
    """However clean the part is."""
    days = {each.day: each for each in find_due(desk.context(), desk.out, AuditOptions(), 14).days}
    assert (days[DAY].pointer, "until 2026-11-20T11:00" in days[DAY].why) == ("clean", True)


def test_what_was_accepted_of_a_part_does_not_hold_the_whole_day(desk: Desk) -> None:
    """The finding is the same one; what later hours add to it was not accepted."""
    lose(desk, 1)
    assert run(desk, ELEVEN_MS, accept="it is lost").accepted == "it is lost"
    done = run(desk, None)
    assert (done.state, done.accepted, seen(desk)) == ("published", "it is lost", ("defects", None))


def test_a_part_that_was_accepted_accepts_nothing_of_later_hours(desk: Desk) -> None:
    """The whole day is held for them, and the part stays accepted."""
    lose(desk, 1)
    run(desk, ELEVEN_MS, accept="it is lost")
    spoil(desk, 1439)
    done = run(desk, None)
    assert (done.state, done.accepted) == ("held", "")
    pointer = pointer_of(desk)
    audit = decode_audit(desk.publisher().audit(pointer) or b"")
    assert (pointer.until is None, audit.accepted is None) == (False, False)


def test_an_altered_object_of_a_part_is_altered_in_the_whole_day(desk: Desk) -> None:
    """Also where its facts are gone: the audit of the part tells of it."""
    stored = segment_at(desk, 1)
    edit_payload(stored)
    desk.store_again(stored, 1)
    run(desk, ELEVEN_MS, accept="we edited it")
    storage = desk.publisher().storage
    storage.delete([key for key in storage.keys(desk.publisher().folder.path) if FACTS_FOLDER in key])
    done = run(desk, None)
    assert (done.accepted, seen(desk)) == ("we edited it", ("defects", None))
