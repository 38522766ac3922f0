"""Whoever reads `clean` reads what is true: what comes, goes or is damaged is seen by the next night."""

import dataclasses
from pathlib import Path

import msgspec
import pytest

from compaction.basis import judged
from compaction.job.context import AuditOptions
from compaction.night import rewrite
from compaction.night.days.run import DayRow, row_of_due
from compaction.night.due import Due, days_in_turn, do_due, find_due, pointer_word
from compaction.verdict.audit_document import Audit, decode_audit
from compaction.verdict.basis import Basis
from minutebook.coverage.intervals import Interval
from minutebook.format.day import Day
from minutebook.format.document import encode_document
from minutebook.format.metadata import Continuity
from minutebook.format.minute import MINUTE_MS
from minutebook.format.read_mark import MarkKind, ReadMark, encode_read_mark, mark_days, read_mark_key
from minutebook.format.segment import SegmentWriter
from minutebook.published.generation import Pointer
from minutebook.store.places import open_storage
from tests.corpus.desk import DAY, Desk, Mill, expire
from tests.corpus.event_defects import drop_records
from tests.corpus.model import PREFIX, Corpus, Shape, Stored

NEXT_NIGHT = 86_400


def find(desk: Desk, window: int = 1) -> Due:
    """Return what is due."""
    return find_due(desk.context(), desk.out, AuditOptions(published=desk.out), window)


def night(desk: Desk, window: int = 1) -> dict[str, DayRow]:
    """Do what `compact --due` does; returns the rows by day."""
    desk.corpus.write_marks(open_storage(desk.archive))
    options = rewrite.CompactOptions(AuditOptions(published=desk.out), desk.out)
    storage, rows = desk.context().open(desk.out.address), {}
    for each in find(desk, window).days:
        done = do_due(desk.context(), each, options)
        pointer = each.pointer if each.is_expired else pointer_word(storage, desk.out.prefix, each.day)
        rows[str(each.day)] = row_of_due(each, done, pointer, "unknown")
    return rows


def delete(desk: Desk, *keys: str) -> None:
    """Delete raw objects."""
    open_storage(desk.archive).delete(keys)


def lose(desk: Desk, offset: int) -> Stored:
    """Delete a segment of the first shard, by its minute of the day."""
    segments = desk.corpus.shards[0].segments
    gone = next(one for one in segments if one.metadata.minute == DAY.first_minute + offset)
    segments.remove(gone)
    delete(desk, gone.key)
    return gone


def published(desk: Desk) -> tuple[Pointer, Audit]:
    """Return the pointer, and its audit."""
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    body = desk.publisher().audit(pointer)
    assert body is not None
    return pointer, decode_audit(body)


def shorter(stored: Stored) -> Stored:
    """Return the segment without its third record, with metadata that agree."""
    records = [record for number, record in enumerate(stored.records) if number != 2]
    made = SegmentWriter(stored.metadata.shard_id, stored.metadata.minute)
    made.extend(records)
    size = sum(len(record.data) for record in records)
    metadata = msgspec.structs.replace(stored.metadata, records=len(records), payload_bytes=size)
    return dataclasses.replace(stored, records=records, metadata=metadata, body=made.body(), fields=metadata.encode())


def put(desk: Desk, stored: Stored) -> None:
    """Store a segment, where none is."""
    open_storage(desk.archive).put_if_absent(stored.key, stored.body, stored.fields, "application/gzip")


def test_a_loss_of_the_last_minute_withdraws_the_day(tmp_path: Path) -> None:
    """Its mark ends where the day ends."""
    desk = Desk(tmp_path)
    night(desk)
    lost = Interval(DAY.end_ms - MINUTE_MS, DAY.end_ms)
    shard = desk.corpus.shards[0].shard_id
    mark = ReadMark(shard, MarkKind.STREAM, Continuity.LOST, *lost, None, "audit")
    for day in mark_days(mark):
        key = read_mark_key(PREFIX, day, mark)
        open_storage(desk.archive).put_if_absent(key, encode_read_mark(mark), {}, "application/json")
    row = night(desk)[str(DAY)]
    assert (row.pointer, row.exit_code) == ("defects", 3)


def test_the_first_day_is_judged_when_its_objects_are_gone(tmp_path: Path) -> None:
    """The archive begins where it began, not with the first object that is left."""
    desk, first = Desk(tmp_path), DAY.shift(-1)
    assert night(desk, 14)[str(first)].pointer == "clean"
    delete(desk, *(row.key for row in open_storage(desk.archive).list_objects(first.path(PREFIX))))
    row = night(desk, 14)[str(first)]
    assert (row.pointer, row.exit_code) == ("defects", 3)


def test_a_day_before_the_first_object_is_named(tmp_path: Path) -> None:
    """The application ran since then, and whatever arrived is not there."""
    desk = Desk(tmp_path, Corpus(DAY, shape=Shape(minutes=(600, 601, 1439, 1441))))
    desk.clock.advance(3 * NEXT_NIGHT)
    assert str(DAY.shift(1)) in night(desk, 14)
    delete(desk, *(row.key for row in open_storage(desk.archive).list_objects(DAY.path(PREFIX))))
    assert str(DAY) in {str(each.day) for each in find(desk, 14).days}


def test_a_segment_that_was_lost_and_accepted_comes_back_altered(tmp_path: Path) -> None:
    """The day was published without it, and its first content is known still."""
    desk = Desk(tmp_path)
    night(desk)
    gone = lose(desk, 600)
    assert desk.compact(accept="it is lost").state == "published"
    assert night(desk)[str(DAY)].pointer == "accepted"
    put(desk, shorter(gone))
    row = night(desk)[str(DAY)]
    assert (row.pointer, row.exit_code) == ("defects", 3)
    assert "altered_object" in row.reason


def test_a_segment_that_was_lost_and_accepted_comes_back_as_it_was(tmp_path: Path) -> None:
    """That is a repair."""
    desk = Desk(tmp_path)
    night(desk)
    gone = lose(desk, 600)
    desk.compact(accept="it is lost")
    put(desk, gone)
    assert night(desk)[str(DAY)].pointer == "clean"
    assert night(desk)[str(DAY)].done == ("nothing",)


def test_a_new_defect_of_a_held_day_ends_its_acceptance(tmp_path: Path) -> None:
    """The day is held, with the verdict that it had; readers see that nobody accepted this."""
    desk = Desk(tmp_path)
    night(desk)
    lose(desk, 600)
    desk.compact(accept="it is lost")
    assert night(desk)[str(DAY)].pointer == "accepted"
    lose(desk, 1)
    row = night(desk)[str(DAY)]
    assert (row.pointer, row.exit_code) == ("defects", 3)
    assert published(desk)[1].accepted is None


def test_what_was_accepted_as_unknown_is_not_accepted_as_a_defect(tmp_path: Path) -> None:
    """A copy without a first digest was accepted; then it is edited, under the same key and code."""
    desk = Desk(tmp_path)
    night(desk)
    pointer, _ = published(desk)
    facts = desk.storage.list_objects(f"{desk.publisher().folder.generation(pointer.generation)}_facts/")
    desk.storage.delete([row.key for row in facts])
    segment = desk.corpus.shards[0].segments[4]
    delete(desk, segment.key)
    put(desk, segment)
    assert night(desk)[str(DAY)].pointer == "unknown"
    desk.compact(accept="it was restored")
    assert night(desk)[str(DAY)].pointer == "accepted"
    delete(desk, segment.key)
    put(desk, shorter(segment))
    row = night(desk)[str(DAY)]
    assert (row.pointer, row.exit_code) == ("defects", 3)


@pytest.mark.parametrize("body", [None, b'{"for'])
def test_a_pointer_without_its_manifest_loses_its_verdict(tmp_path: Path, body: bytes | None) -> None:
    """A held day without a whole manifest: the pointer gets the verdict, whatever it names."""
    desk = Desk(tmp_path)
    night(desk)
    pointer, _ = published(desk)
    manifest = Path(desk.storage.uri(pointer.manifest))
    manifest.unlink() if body is None else manifest.write_bytes(body)
    lose(desk, 600)
    assert night(desk)[str(DAY)].exit_code == 3
    assert published(desk)[0].verdict == "defects"
    assert night(desk)[str(DAY)].done == ("blocked",)


@pytest.mark.parametrize("name", ["manifest", "audit"])
def test_damage_of_an_expired_day_is_no_success(tmp_path: Path, name: str) -> None:
    """Nothing can be made anew, so somebody has to restore it."""
    desk = Mill(tmp_path)
    night(desk)
    pointer, _ = published(desk)
    expire(desk, pointer.generation, days=0)
    assert night(desk)[str(DAY)].exit_code == 0
    Path(desk.storage.uri(getattr(pointer, name))).write_bytes(b"{")
    row = night(desk)[str(DAY)]
    assert (row.pointer, row.done[-1], row.exit_code) == ("expired", "blocked", 4)
    now = desk.publisher().current().pointer
    assert now is not None
    assert now.verdict == "unknown"


@pytest.mark.parametrize(
    "damage", [{"first_before": "x"}, {"first_after": "1:y"}, {"minute_before": -(10**12)}, {"minute_after": 10**12}]
)
def test_a_damaged_basis_concerns_its_day_alone(tmp_path: Path, damage: dict[str, object]) -> None:
    """It is judged again; no list of it is made by values that no archive has."""
    desk = Desk(tmp_path)
    night(desk, 2)
    pointer, audit = published(desk)
    assert audit.basis is not None
    first, *others = audit.basis.shards
    basis = msgspec.structs.replace(audit.basis, shards=(msgspec.structs.replace(first, **damage), *others))
    Path(desk.storage.uri(pointer.audit)).write_bytes(encode_document(msgspec.structs.replace(audit, basis=basis)))
    rows = night(desk, 2)
    assert rows[str(DAY)].done == ("judged again",)
    assert rows[str(DAY.shift(-1))].done == ("nothing",)


def _with_original_before(folder: Path) -> Desk:
    corpus = Corpus(DAY, shape=Shape(minutes=(-3000, -2999, -700, -2, -1, 0, 1, 2, 600, 1439, 1440, 1441, 1442)))
    shard = corpus.shards[0]
    kept = shard.segments[0].records[2].position
    original = f"corpus/{shard.shard_id}/{kept.sequence}:{kept.sub}"
    drop_records(corpus, shard, shard.in_day(DAY)[2], {1: original})
    return Desk(folder, corpus)


@pytest.mark.parametrize("offset", [-3000, -1, 1440])
def test_what_goes_around_the_day_before_its_basis_is_made_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offset: int
) -> None:
    """A dropped record's original, the segment before the day and the one behind it; others beside them stay."""
    desk = _with_original_before(tmp_path)
    segments = desk.corpus.shards[0].segments
    key = next(one.key for one in segments if one.metadata.minute == DAY.first_minute + offset)
    make = judged.basis_of

    def basis_of(*args: object) -> Basis:
        delete(desk, key)
        return make(*args)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(rewrite, "basis_of", basis_of)
    assert night(desk)[str(DAY)].pointer == "clean"
    assert night(desk)[str(DAY)].pointer in {"unknown", "defects"}


def test_a_day_is_judged_again_once_when_the_day_before_is_expired(tmp_path: Path) -> None:
    """Its event ids are compared with what was published of that day from then on."""
    desk = Mill(tmp_path)
    options = AuditOptions(event_id="n", published=desk.out)
    for day in (DAY.shift(-1), DAY):
        desk.rewrite(day=day, drop=False)
    expire(desk, published(desk)[0].generation)
    assert find_due(desk.context(), desk.out, options, 1).days[0].why
    desk.rewrite(drop=False)
    assert [each.why for each in find_due(desk.context(), desk.out, options, 1).days] == [""]


def test_a_damaged_tombstone_is_no_success(tmp_path: Path) -> None:
    """Whether anything came since then is not known."""
    desk = Mill(tmp_path)
    night(desk)
    expire(desk, published(desk)[0].generation, days=0)
    Path(open_storage(desk.archive).uri(f"{PREFIX}_expired/{DAY}.json")).write_bytes(b"{")
    row = night(desk)[str(DAY)]
    assert (row.pointer, row.exit_code) == ("expired", 4)
    assert "its tombstone cannot be read" in row.reason


def test_an_edit_is_not_forgotten_with_its_facts(tmp_path: Path) -> None:
    """It was accepted, its facts are damaged, and the day is published anew: the audit before still tells."""
    desk = Desk(tmp_path)
    night(desk)
    segment = desk.corpus.shards[0].segments[4]
    delete(desk, segment.key)
    put(desk, shorter(segment))
    assert night(desk)[str(DAY)].pointer == "defects"
    desk.compact(accept="we know")
    pointer, _ = published(desk)
    for facts in desk.storage.list_objects(f"{desk.publisher().folder.generation(pointer.generation)}_facts/"):
        Path(desk.storage.uri(facts.key)).write_bytes(b"PAR1")
    desk.archive_more()
    row = night(desk)[str(DAY)]
    assert (row.pointer, row.done) == ("accepted", ("rewritten",))
    assert published(desk)[0].verdict == "defects"


@pytest.mark.parametrize("span", [1, 2, 16, 75, 76])
@pytest.mark.parametrize("is_growing", [False, True])
def test_each_older_day_has_its_turn(span: int, *, is_growing: bool) -> None:
    """The days before the window move on each night, with a retention and without one."""
    begin, looked_at = DAY.number, set[Day]()
    for night_number in range(2 * span):
        first = begin if is_growing else begin + night_number
        days = [Day(number) for number in range(first, begin + night_number + span)]
        in_turn = days_in_turn(days, Day(begin + night_number + span + 14))
        assert len(in_turn) <= 2
        looked_at.update(in_turn)
    gone = begin if is_growing else begin + span
    assert {Day(number) for number in range(gone, gone + span)} <= looked_at


def test_a_tombstone_that_goes_withdraws_what_rests_on_it(tmp_path: Path) -> None:
    """The original of a dropped record is of an expired day; further expired days change nothing."""
    corpus = Corpus(DAY, shape=Shape(minutes=(-4400, -3000, -2999, -700, 0, 1, 2, 600, 601, 1439, 1441)))
    shard = corpus.shards[0]
    kept = shard.segments[1].records[2].position
    drop_records(corpus, shard, shard.in_day(DAY)[2], {1: f"corpus/{shard.shard_id}/{kept.sequence}:{kept.sub}"})
    desk = Mill(tmp_path, corpus)
    expire(desk, "0" * 16, days=3)
    assert night(desk)[str(DAY)].pointer == "clean"
    assert night(desk)[str(DAY)].done == ("nothing",)
    expire(desk, "0" * 16, days=4)
    assert night(desk)[str(DAY)].done == ("nothing",)
    delete(desk, f"{PREFIX}_expired/{DAY.shift(-3)}.json")
    assert night(desk)[str(DAY)].pointer == "unknown"
