"""A key of a day that was published clean is gone: its first record was archived, whatever the chain says now."""

import dataclasses
from pathlib import Path

import msgspec
import pytest

from compaction.commands.vacuum.day import delete_leftovers, find_leftovers
from compaction.job.context import AuditOptions
from compaction.night.rewrite import Compacted
from minutebook.format.keys import segment_key
from minutebook.format.segment import SegmentWriter
from minutebook.store.places import open_storage
from tests.corpus.desk import DAY, Desk
from tests.corpus.model import PREFIX, Stored


def compact(desk: Desk, accept: str | None = None) -> Compacted:
    """Compact the day a day later, as a night does."""
    desk.clock.advance(86_400)
    return desk.compact(audit=AuditOptions(published=desk.out), accept=accept)


def rest_of(stored: Stored, left_out: int = 1) -> Stored:
    """Return the segment without its first records, under the key of the next one, linked as it was."""
    records, metadata = stored.records[left_out:], stored.metadata
    made = SegmentWriter(metadata.shard_id, metadata.minute)
    made.extend(records)
    written = made.metadata(after=metadata.after, writer=metadata.writer, continuity=metadata.continuity)
    written = msgspec.structs.replace(written, evidence_ms=metadata.evidence_ms)
    key = segment_key(PREFIX, metadata.shard_id, metadata.minute, written.first)
    return dataclasses.replace(
        stored, key=key, records=records, metadata=written, body=made.body(), fields=written.encode()
    )


def replace(desk: Desk, gone: Stored, *others: Stored) -> None:
    """Delete a segment, and store others."""
    store = open_storage(desk.archive)
    store.delete([gone.key])
    for other in others:
        store.put_if_absent(other.key, other.body, other.fields, "application/gzip")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return a day that was published clean."""
    desk = Desk(tmp_path)
    assert compact(desk).verdict == "clean"
    return desk


@pytest.mark.parametrize("at", [0, 3, -1])
def test_a_day_that_is_clean_by_its_chain_over_a_row_less_is_not_clean(desk: Desk, at: int) -> None:
    """Not in the night that sees it, and in none after it, whatever else comes."""
    shard = desk.corpus.shards[0]
    gone = shard.segments[shard.in_day(DAY)[at]]
    replace(desk, gone, rest_of(gone))
    for _ in range(3):
        done = compact(desk)
        assert (done.state, done.verdict) == ("held", "defects")
    desk.archive_more()
    done = compact(desk)
    assert (done.state, done.verdict) == ("held", "defects")
    assert done.result is not None
    (about,) = [about for about in done.result.audit.findings if about.reasons]
    assert (about.code, about.severity, about.keys) == ("broken_chain", "defect", (gone.key,))
    assert about.positions == (str(gone.metadata.first),)
    assert about.reproduce == f"minutebook compact FILE.properties --date {DAY}"


def test_it_is_accepted_as_anything_else_and_found_again_if_more_goes(desk: Desk) -> None:
    """The rows are published without it, and what was clean last is not forgotten."""
    shard = desk.corpus.shards[0]
    first, second = (shard.segments[shard.in_day(DAY)[at]] for at in (2, 4))
    replace(desk, first, rest_of(first))
    assert compact(desk, accept="we know").state == "published"
    for _ in range(2):
        done = compact(desk)
        assert (done.state, done.verdict, done.accepted) == ("already", "defects", "we know")
    replace(desk, second, rest_of(second))
    done = compact(desk)
    assert (done.state, done.accepted) == ("held", "")


def test_it_is_clean_when_the_key_is_back(desk: Desk) -> None:
    """As from a version of it."""
    shard = desk.corpus.shards[0]
    gone = shard.segments[shard.in_day(DAY)[3]]
    other = rest_of(gone)
    replace(desk, gone, other)
    assert compact(desk).verdict == "defects"
    replace(desk, other, gone)
    assert compact(desk).verdict == "clean"


def test_a_key_whose_first_record_another_segment_holds_may_go(tmp_path: Path) -> None:
    """As a zombie's, which overlaps: taking it away is a repair."""
    desk = Desk(tmp_path)
    shard = desk.corpus.shards[0]
    segment = shard.segments[shard.in_day(DAY)[3]]
    assert compact(desk).verdict == "clean"
    zombie = rest_of(segment)
    store = open_storage(desk.archive)
    store.put_if_absent(zombie.key, zombie.body, zombie.fields, "application/gzip")
    assert compact(desk, accept="a zombie").accepted == "a zombie"
    store.delete([zombie.key])
    assert compact(desk).verdict == "clean"


def test_what_was_never_clean_may_go(tmp_path: Path) -> None:
    """A stranger's object that was published, accepted, and is taken away."""
    desk = Desk(tmp_path)
    assert compact(desk).verdict == "clean"
    shard = desk.corpus.shards[0]
    segment = shard.segments[shard.in_day(DAY)[3]]
    stray = dataclasses.replace(segment, key=segment.key.replace(f"{segment.metadata.first.sequence}", "7" * 20))
    store = open_storage(desk.archive)
    store.put_if_absent(stray.key, stray.body, stray.fields, "application/gzip")
    assert compact(desk, accept="somebody's").accepted == "somebody's"
    store.delete([stray.key])
    assert compact(desk).verdict == "clean"


def test_a_deleted_segment_is_told_once(desk: Desk) -> None:
    """The chain says it, and an acceptance of an earlier release goes on."""
    shard = desk.corpus.shards[0]
    gone = shard.segments[shard.in_day(DAY)[3]]
    replace(desk, gone)
    done = compact(desk)
    assert done.result is not None
    assert [about.code for about in done.result.audit.findings if about.severity == "defect"] == ["broken_chain"]


def test_vacuum_keeps_what_was_last_clean(desk: Desk) -> None:
    """Its generation was replaced long ago, and each night compares with its inventory."""
    shard = desk.corpus.shards[0]
    gone = shard.segments[shard.in_day(DAY)[3]]
    replace(desk, gone, rest_of(gone))
    assert compact(desk, accept="we know").state == "published"
    storage, folder = desk.context().open(desk.out.address), desk.publisher().folder
    left = find_leftovers(storage, folder, before_ms=desk.after_grace_ms(), has_raw=lambda _: True)
    delete_leftovers(storage, folder, left)
    assert left.objects
    done = desk.compact(accept=None)
    assert (done.verdict, done.accepted) == ("defects", "we know")
