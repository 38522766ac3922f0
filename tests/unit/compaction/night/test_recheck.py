"""Published days that are judged again: by later evidence, in either direction, and which of them are."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from compaction.job.context import AuditOptions
from compaction.night.recheck import days_to_recheck
from compaction.tasks.task import Order, TaskResult
from compaction.verdict.audit_document import decode_audit
from minutebook.format.coverage_markers import SkippedMarker, encode_coverage_marker, skipped_key
from minutebook.format.document import FORMAT
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.published.generation import Pointer
from minutebook.store.places import open_storage
from minutebook.store.storage import Address
from tests.corpus.auditing import in_process
from tests.corpus.desk import DAY, Desk, no_engine, unproven
from tests.corpus.event_defects import drop_records
from tests.corpus.model import PREFIX, Corpus
from tests.fakes.clock import ManualClock

S0 = "shardId-000000000000"


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
    done = desk.compact(engine=no_engine)
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
    assert desk.compact(engine=no_engine).verdict == "unknown"
    audit = decode_audit(desk.publisher().audit(pointer(desk)) or b"")
    assert [found.code for found in audit.findings] == ["unproven_end", "dropped_without_original"]


def test_nothing_new_changes_nothing(tmp_path: Path) -> None:
    """The pointer stays as it is, byte by byte."""
    desk = Desk(tmp_path)
    desk.compact()
    before = desk.publisher().current()
    assert desk.compact(engine=no_engine).verdict == "clean"
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


def _told(desk: Desk) -> tuple[str, str, str]:
    """Return the verdicts of a run, of the pointer, and of the audit that it names."""
    verdict = desk.compact().verdict
    found = pointer(desk)
    body = desk.publisher().audit(found)
    assert body is not None
    audit = decode_audit(body)
    assert (audit.verdict == "clean") == (not audit.findings)
    return verdict, found.verdict, audit.verdict


def test_the_audit_that_a_pointer_names_gave_its_verdict(tmp_path: Path) -> None:
    """Also where nothing changed but KCL's checkpoint, which names more than is archived and is no evidence."""
    desk = Desk(tmp_path)
    assert _told(desk) == ("clean", "clean", "clean")
    shard = desk.corpus.shards[2]
    shard.checkpoint, before = Position(shard.segments[-1].metadata.last.sequence + 5), shard.checkpoint
    desk.corpus.write_marks = lambda _store: None  # type: ignore[method-assign] # the marks of before are all there are
    assert _told(desk) == ("defects", "defects", "defects")
    shard.checkpoint = before
    assert _told(desk) == ("clean", "clean", "clean")


def test_an_object_that_is_damaged_later_is_told_by_the_audit(tmp_path: Path) -> None:
    """Its name and tag are the same; the day is read anew because its Parquet is gone."""
    desk = Desk(tmp_path)
    assert _told(desk) == ("clean", "clean", "clean")
    manifest = desk.publisher().published()[1]
    assert manifest is not None

    def engine(orders: Sequence[Order]) -> list[TaskResult]:
        """Read the first object as one whose disk has failed."""
        results = in_process(orders)
        first = results[0].facts[0]._replace(problem="bad CRC")
        return [results[0]._replace(facts=(first, *results[0].facts[1:])), *results[1:]]

    before = pointer(desk)
    for file in manifest.files:
        path = Path(desk.storage.uri(file.key))
        body = path.read_bytes()
        path.write_bytes(body[:-1])
        desk.compact(engine=engine)
        path.write_bytes(body)
    after = pointer(desk)
    assert (before.verdict, after.verdict, before.audit == after.audit) == ("clean", "defects", False)
    body = desk.publisher().audit(after)
    assert body is not None
    assert decode_audit(body).verdict == "defects"
