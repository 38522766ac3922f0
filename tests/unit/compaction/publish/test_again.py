"""Published days that are judged again: by later evidence, in either direction, and which of them are."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from archive.format.coverage_markers import SkippedMarker, encode_coverage_marker, skipped_key
from archive.format.document import FORMAT
from archive.format.minute import MINUTE_MS
from archive.store.places import open_storage
from archive.store.storage import Address
from compaction.job.context import AuditOptions
from compaction.publish.generation import Pointer
from compaction.recheck import days_to_recheck
from compaction.tasks.task import Order, TaskResult
from compaction.verdict.audit_document import decode_audit
from tests.corpus.desk import DAY, Desk, unproven
from tests.corpus.event_defects import drop_records
from tests.corpus.model import PREFIX, Corpus
from tests.fakes.clock import ManualClock

S0 = "shardId-000000000000"


def _no_engine(orders: Sequence[Order]) -> list[TaskResult]:
    raise AssertionError(f"{len(orders)} tasks were run")


def pointer(desk: Desk) -> Pointer:
    """Return the day's pointer."""
    found = desk.publisher().current().pointer
    assert found is not None
    return found


def skip(desk: Desk) -> None:
    """Let the daemon tell of records that it skipped on the day."""
    logged_ms = DAY.begin_ms + 601 * MINUTE_MS
    marker = SkippedMarker(
        format=FORMAT, shard=S0, logged_at_ms=logged_ms, message="skipped", writer="w", written_at=""
    )
    store = open_storage(Address(None, str(desk.raw)))
    body = encode_coverage_marker(marker)
    store.put_if_absent(skipped_key(PREFIX, S0, logged_ms, "w"), body, {}, "application/json")


def test_a_clean_verdict_is_withdrawn_when_a_gap_shows(tmp_path: Path) -> None:
    """The same rows and the same files, judged by what came to be known; and clean again once that is settled."""
    desk = Desk(tmp_path)
    desk.compact()
    before = pointer(desk)
    skip(desk)
    done = desk.compact(engine=_no_engine)
    after = pointer(desk)
    assert (before.verdict, done.state, done.verdict, after.verdict) == ("clean", "already", "unknown", "unknown")
    assert (before.generation, before.manifest, before.written_at) == (
        after.generation,
        after.manifest,
        after.written_at,
    )
    audit = decode_audit(desk.publisher().audit(after) or b"")
    assert (audit.verdict, audit.level, [found.code for found in audit.findings]) == (
        "unknown",
        "keys",
        ["unproven_end"],
    )
    assert before.audit != after.audit
    assert audit.equation == decode_audit(desk.publisher().audit(before) or b"").equation


def test_what_was_found_of_the_lines_stands(tmp_path: Path) -> None:
    """They are not read again: an original that nobody has found is in doubt as before, whatever the evidence."""
    corpus = Corpus(DAY)
    shard = corpus.shards[0]
    drop_records(corpus, shard, shard.in_day(DAY)[1], {1: f"corpus/{corpus.shards[1].shard_id}/7:0"})
    desk = Desk(tmp_path, corpus)
    assert desk.compact().verdict == "unknown"
    skip(desk)
    assert desk.compact(engine=_no_engine).verdict == "unknown"
    audit = decode_audit(desk.publisher().audit(pointer(desk)) or b"")
    assert [found.code for found in audit.findings] == ["unproven_end", "dropped_without_original"]


def test_nothing_new_changes_nothing(tmp_path: Path) -> None:
    """The pointer stays as it is, byte by byte."""
    desk = Desk(tmp_path)
    desk.compact()
    before = desk.publisher().current()
    assert desk.compact(engine=_no_engine).verdict == "clean"
    assert desk.publisher().current() == before


def test_a_day_that_is_held_no_longer_says_clean(tmp_path: Path) -> None:
    """A segment is gone: its rows stay readable, and nobody may delete anything for their sake."""
    desk = Desk(tmp_path)
    desk.compact()
    before = pointer(desk)
    gone = desk.corpus.shards[0].segments[3]
    open_storage(Address(None, str(desk.raw))).delete([gone.key])
    done = desk.compact()
    after = pointer(desk)
    assert (done.state, done.verdict, after.verdict) == ("held", "defects", "defects")
    assert (after.generation, after.manifest) == (before.generation, before.manifest)
    assert len(desk.published_rows()) == desk.corpus.records


def test_days_that_are_not_clean_are_judged_again(tmp_path: Path) -> None:
    """However old they are."""
    desk, proof = unproven(tmp_path)
    desk.clock = ManualClock(DAY.shift(400).begin_ms)
    assert days_to_recheck(desk.context(), desk.out, 1) == [DAY]
    desk.corpus.shards[2].checkpoint = proof
    assert desk.compact().verdict == "clean"
    assert days_to_recheck(desk.context(), desk.out, 1) == []


@pytest.mark.parametrize(("days", "is_due"), [(3, True), (1, False)])
def test_days_that_newer_evidence_touches_are_judged_again(tmp_path: Path, days: int, is_due: bool) -> None:  # noqa: FBT001 - a case
    """Of the last days alone: their names are listed."""
    desk = Desk(tmp_path)
    desk.clock = ManualClock(DAY.shift(2).begin_ms)
    desk.compact()
    audit = desk.publisher().current().pointer
    assert audit is not None
    for row in open_storage(Address(None, str(desk.raw))).list_objects(""):
        desk.age_raw(row.key, 1_000)
    assert days_to_recheck(desk.context(), desk.out, days) == []
    skip(desk)
    assert days_to_recheck(desk.context(), desk.out, days) == ([DAY] if is_due else [])


def test_a_day_so_far_is_judged_again_once_it_is_over(tmp_path: Path) -> None:
    """Its verdict is about less than the day."""
    desk = Desk(tmp_path)
    desk.compact(audit=AuditOptions(so_far_ms=DAY.begin_ms + 600 * MINUTE_MS))
    assert days_to_recheck(desk.context(), desk.out, 3) == [DAY]
