"""Rows that a rewrite leaves out, as copies that producers sent again, or brings back, as copies of nothing."""

from pathlib import Path

import msgspec
import pytest

from compaction.audit.audit import audit_day
from compaction.job.context import AuditOptions
from compaction.parquet.plan import TaskSizes
from compaction.verdict.acceptance import accept, still_holds
from compaction.verdict.findings import Finding
from minutebook.errors import SafetyRefusal
from minutebook.format.payload import NumberPaths, PayloadPath
from minutebook.format.record import decode_dropped_line
from minutebook.format.segment import SegmentWriter, inflate
from minutebook.store.places import open_storage
from minutebook.store.storage import Address
from tests.corpus.auditing import job_context
from tests.corpus.chain_defects import overlapping_segments
from tests.corpus.desk import DAY, Mill, Row, expire, published_events, repeated, rows_of
from tests.corpus.event_defects import (
    drop_records,
    dropped_by_number,
    dropped_without_original,
    other_event_after_midnight,
    other_events_with_an_id,
    repeated_event,
)
from tests.corpus.model import PREFIX, Corpus, Shape, make_segment


def test_the_first_position_of_each_event_stays(tmp_path: Path) -> None:
    """Exactly the copies are missing; the other rows are there, in order, and the numbers say so."""
    corpus, copies = repeated()
    mill = Mill(tmp_path, corpus)
    done = mill.rewrite()
    assert (done.state, done.verdict) == ("published", "clean")
    assert done.manifest is not None
    assert done.result is not None
    assert mill.rows(done.manifest) == [row for row in rows_of(corpus) if row not in copies]
    numbers = done.result.audit.equation
    assert (numbers.raw, numbers.unique, numbers.removed) == (corpus.records, corpus.records - 6, 6)
    assert (numbers.compacted, numbers.balanced) == (corpus.records - 6, True)
    assert (done.manifest.removed, done.manifest.event_id) == (6, "n")


@pytest.mark.parametrize("segments", [1, 2, 4, 99])
def test_the_same_copies_are_left_out_however_tasks_are_cut(tmp_path: Path, segments: int) -> None:
    """Several tasks of a group, or one of several groups: the numbers of objects go on from task to task."""
    corpus, copies = repeated()
    mill = Mill(tmp_path, corpus)
    audit = AuditOptions(event_id="n", published=mill.out, drop_producer_duplicates=True)
    done = mill.compact(audit=audit, sizes=TaskSizes(segments=segments, shards=2))
    assert done.manifest is not None
    assert mill.rows(done.manifest) == [row for row in rows_of(corpus) if row not in copies]


def shared() -> tuple[Corpus, list[Row]]:
    """Return an archive in which events share ids, and the rows that must not be published."""
    corpus = Corpus(DAY, shape=Shape(shards=3))
    first, second, _ = corpus.shards
    other_events_with_an_id(corpus, first, 3)
    other_event_after_midnight(corpus, second, 3)
    records = first.segments[3].records
    return corpus, [(first.shard_id, records[place].position, records[place].data) for place in (3, 4)]


def test_an_event_with_anothers_id_stays(tmp_path: Path) -> None:
    """Its payload is another one: it is named, and left out never; a copy of either event is."""
    corpus, copies = shared()
    mill = Mill(tmp_path, corpus)
    done = mill.rewrite()
    assert done.manifest is not None
    assert done.result is not None
    assert (done.state, done.verdict, done.manifest.removed) == ("published", "clean", 2)
    assert mill.rows(done.manifest) == [row for row in rows_of(corpus) if row not in copies]
    conflicts = [found for found in done.result.audit.findings if found.code == "id_conflict"]
    shards = corpus.shards
    assert [(found.shard, found.count, found.positions) for found in conflicts] == [
        (shards[0].shard_id, 1, (str(shards[0].segments[3].records[1].position),)),
        (shards[1].shard_id, 1, (str(shards[1].segments[3].records[2].position),)),
    ]
    assert f"{shards[0].shard_id}/{shards[0].segments[3].records[0].position}" in conflicts[0].message
    assert all("--event-id n" in found.reproduce and "--shard" not in found.reproduce for found in conflicts)


def test_without_the_flag_the_same_records_are_reported(tmp_path: Path) -> None:
    """Copies and conflicts are told apart where nothing is left out, too."""
    mill = Mill(tmp_path, shared()[0])
    without, with_flag = mill.rewrite(drop=False), mill.rewrite()
    counts = [
        sorted((found.code, found.shard, found.count, found.positions) for found in done.result.audit.findings)
        for done in (without, with_flag)
        if done.result is not None
    ]
    assert counts[0] == counts[1]
    assert [code for code, *_ in counts[0]] == ["id_conflict", "id_conflict", "producer_duplicate"]


def test_an_expired_day_before_shows_payloads_too(tmp_path: Path) -> None:
    """They are read from its Parquet files: the same rows and findings as while its raw objects were there."""
    corpus = shared()[0]
    mill = Mill(tmp_path, corpus)
    yesterday = mill.rewrite(None, day=DAY.shift(-1)).manifest
    assert yesterday is not None
    expire(mill, yesterday.generation)
    done = mill.rewrite()
    assert done.manifest is not None
    assert done.result is not None
    assert mill.rows(done.manifest) == [row for row in rows_of(corpus) if row not in shared()[1]]
    assert sum(found.code == "id_conflict" for found in done.result.audit.findings) == 2


def test_without_the_flag_copies_are_reported_and_written(tmp_path: Path) -> None:
    """The day is the same as without the path, row by row, and so is its generation."""
    corpus, _ = repeated()
    mill = Mill(tmp_path, corpus)
    done = mill.rewrite(drop=False)
    assert done.manifest is not None
    assert done.result is not None
    assert mill.rows(done.manifest) == rows_of(corpus)
    assert {finding.code for finding in done.result.audit.findings} == {"producer_duplicate"}
    assert mill.rewrite(None).state == "already"


def test_the_same_input_is_nothing_to_do(tmp_path: Path) -> None:
    """Path, flag, the day and the day before are the same: so are the rows."""
    mill = Mill(tmp_path, repeated()[0])
    first = mill.manifest()
    second = mill.rewrite()
    assert second.manifest is not None
    assert (second.state, second.manifest.generation) == ("already", first.generation)


def test_whatever_changes_the_rows_makes_a_generation(tmp_path: Path) -> None:
    """The flag, the path, a late object, and one of the day before: each has a name of its own."""
    corpus = repeated()[0]
    mill = Mill(tmp_path, corpus)
    other = mill.rewrite("name", max_repeats=1).manifest
    assert other is not None
    names = [mill.manifest(None).generation, mill.manifest().generation, other.generation]
    shard = corpus.shards[1]
    before = shard.segments[0]
    late = msgspec.structs.replace(before.records[0], sequence_number=str(before.metadata.first.sequence - 5))
    shard.segments.insert(0, make_segment(shard.shard_id, before.metadata.minute, [late], before.metadata.after, "l"))
    shard.has_start = False  # it is stored, and names the segment that was the first one then
    mill.put()
    names.append(mill.rewrite(accept="known").manifest.generation)  # type: ignore[union-attr]  # it is published
    assert len(set(names)) == 4


def test_a_path_that_most_records_share_is_refused(tmp_path: Path) -> None:
    """It is no event's id: nothing is left out, nothing is written, and what is published stays."""
    corpus = Corpus(DAY)
    mill = Mill(tmp_path, corpus)
    published = mill.manifest(None)
    with pytest.raises(SafetyRefusal, match=r"repeat an id \(100%; --max-repeats is 0\.2\)") as raised:
        mill.rewrite("name")
    assert (raised.value.exit_code, bool(raised.value.next_step)) == (6, True)
    assert mill.publisher().published()[1] == published
    assert not list(tmp_path.rglob("*.parquet.*"))
    done = mill.rewrite("name", max_repeats=1)
    assert done.manifest is not None
    assert (done.verdict, done.manifest.rows) == ("clean", corpus.records - done.manifest.removed)


def test_the_share_is_one_of_records_with_an_id(tmp_path: Path) -> None:
    """Records without an id do not hide that the others are all alike."""
    corpus, copies = repeated()
    mill = Mill(tmp_path, corpus)
    ids = sum(PayloadPath("n").text(data) is not None for _, _, data in rows_of(corpus))
    assert ids < corpus.records
    with pytest.raises(SafetyRefusal, match=f"{len(copies)} of {ids} records"):
        mill.rewrite(max_repeats=(len(copies) - 0.5) / ids)
    assert mill.rewrite(max_repeats=len(copies) / ids).state == "published"


def test_an_expired_day_before_is_read_as_it_was_published(tmp_path: Path) -> None:
    """The same rows, and the same generation, as while its raw objects were there."""
    corpus, _ = repeated()
    mill = Mill(tmp_path, corpus)
    yesterday = mill.rewrite(None, day=DAY.shift(-1)).manifest
    assert yesterday is not None
    first = mill.manifest()
    again = Mill(tmp_path / "again", corpus)
    again.rewrite(None, day=DAY.shift(-1))
    expire(again, yesterday.generation)
    second = again.manifest()
    assert second.generation == first.generation
    assert again.rows(second) == mill.rows(first)


def test_an_expired_day_before_that_lacks_copies_is_doubt(tmp_path: Path) -> None:
    """What was left out of its files may be the first that this day sees of an event: published, not clean."""
    corpus = Corpus(DAY)
    shard = corpus.shards[1]
    repeated_event(corpus, shard, 0)
    mill = Mill(tmp_path, corpus)
    yesterday = mill.rewrite(day=DAY.shift(-1)).manifest
    assert yesterday is not None
    assert yesterday.removed == 2
    expire(mill, yesterday.generation)
    done = mill.rewrite()
    assert (done.state, done.verdict) == ("published", "unknown")
    assert mill.rewrite().verdict == "unknown"


def test_a_merged_object_takes_no_part(tmp_path: Path) -> None:
    """Lines of objects that overlap are in doubt: doubt keeps."""
    corpus = Corpus(DAY)
    repeated_event(corpus, corpus.shards[0], 3)
    overlapping_segments(corpus, corpus.shards[0], 3)
    mill = Mill(tmp_path, corpus)
    done = mill.rewrite(accept="known")
    assert done.manifest is not None
    assert (done.manifest.removed, done.verdict) == (0, "defects")
    assert mill.rows(done.manifest)  # and none of them twice
    places = [row[:2] for row in mill.rows(done.manifest)]
    assert len(places) == len(set(places))


def test_events_of_a_published_day_stand_there_once(tmp_path: Path) -> None:
    """What a reader counts."""
    corpus, _ = repeated()
    mill = Mill(tmp_path, corpus)
    events = [event for event in published_events(mill.storage, mill.manifest()) if event is not None]
    assert len(events) == len(set(events))


def test_a_line_that_was_dropped_as_a_copy_of_nothing_comes_back(tmp_path: Path) -> None:
    """The first copy stands among its shard's rows in the order of positions, once; the audit still reports it."""
    corpus = Corpus(DAY)
    shard = corpus.shards[1]
    first, last = shard.segments[3].records[0], shard.segments[3].records[-1]
    (expected,) = dropped_without_original(corpus, shard, 3)
    mill = Mill(tmp_path, corpus)
    done = mill.rewrite(None)
    assert done.manifest is not None
    assert done.result is not None
    back = (shard.shard_id, first.position, first.data)
    assert mill.rows(done.manifest) == sorted([*rows_of(corpus), back])
    assert last.position not in [row[1] for row in mill.rows(done.manifest)]
    assert (done.state, done.verdict, done.manifest.restored) == ("published", "defects", 1)
    (found,) = done.result.audit.findings
    assert (found.code, found.severity, found.count, found.repaired) == (
        expected.code.value,
        "defect",
        expected.times,
        True,
    )
    assert done.result.audit.equation.balanced


@pytest.mark.parametrize("earlier", [0, 2])
def test_another_event_that_was_dropped_by_a_producers_number_comes_back(tmp_path: Path, earlier: int) -> None:
    """Once; a copy stays dropped, with the same number and the same payload. The finding names the records."""
    corpus = Corpus(DAY)
    shard = corpus.shards[1]
    positions = [record.position for record in shard.segments[4].records]
    first = shard.segments[4 - earlier].records[0].position
    (expected,) = dropped_by_number(corpus, shard, 4, earlier)
    done = Mill(tmp_path, corpus).compact(audit=AuditOptions(numbers=NumberPaths("n")))
    assert done.manifest is not None
    assert done.result is not None
    back = (shard.shard_id, positions[2], b'{"n":"7","x":"other"}')
    assert Mill(tmp_path, corpus).rows(done.manifest) == sorted([*rows_of(corpus), back])
    assert (done.state, done.verdict, done.manifest.restored) == ("published", "clean", 1)
    assert done.result.audit.equation.balanced
    (found,) = done.result.audit.findings
    assert (found.code, found.severity, found.count, found.repaired) == ("id_conflict", "warning", 2, True)
    assert found.positions == (str(positions[2]), str(positions[4]))
    assert found.keys[0] == expected.keys[0]
    assert f"{shard.shard_id}/{first}" in found.message


@pytest.mark.parametrize(("numbers", "earlier"), [(None, 0), (NumberPaths("other"), 0), (NumberPaths("n"), 4)])
def test_a_number_whose_record_is_not_seen_decides_nothing(
    tmp_path: Path, numbers: NumberPaths | None, earlier: int
) -> None:
    """Without the paths, with wrong ones, and where that record is of the day before: dropped stays dropped."""
    corpus = Corpus(DAY)
    shard = corpus.shards[1]
    assert shard.segments[0].metadata.minute not in DAY
    dropped_by_number(corpus, shard, 4, earlier)
    mill = Mill(tmp_path, corpus)
    done = mill.compact(audit=AuditOptions(numbers=numbers))
    assert done.manifest is not None
    assert (mill.rows(done.manifest), done.verdict) == (rows_of(corpus), "clean")


def test_the_paths_of_numbers_are_part_of_a_generations_name(tmp_path: Path) -> None:
    """Rows come back by them: a day that was published without them is published anew."""
    mill = Mill(tmp_path, Corpus(DAY))
    names = [
        mill.compact(audit=AuditOptions(numbers=numbers)).manifest.generation  # type: ignore[union-attr]  # published
        for numbers in (None, NumberPaths("n"), NumberPaths("n", "key"))
    ]
    assert len(set(names)) == 3


def test_an_audit_names_what_was_dropped_by_a_number(tmp_path: Path) -> None:
    """It brings nothing back, and repairs nothing."""
    corpus = Corpus(DAY)
    dropped_by_number(corpus, corpus.shards[1], 4)
    corpus.write(open_storage(Address(None, str(tmp_path))))
    context = job_context(tmp_path, corpus.checkpoints)
    (found,) = audit_day(context, DAY, AuditOptions(numbers=NumberPaths("n"))).audit.findings
    assert (found.code, found.severity, found.count, found.repaired) == ("id_conflict", "warning", 2, False)


def test_a_restored_row_follows_the_copy_that_is_kept_of_it(tmp_path: Path) -> None:
    """As many lines come back as before, and one of them holds another payload now."""
    corpus = Corpus(DAY)
    shard = corpus.shards[1]
    position = shard.segments[4].records[2].position
    dropped_by_number(corpus, shard, 4)
    mill = Mill(tmp_path, corpus)
    options = AuditOptions(numbers=NumberPaths("n"))
    assert mill.compact(audit=options).verdict == "clean"
    store, other = open_storage(mill.archive), b'{"n":"7","x":"third"}'
    (key,) = (row.key for row in store.list_objects(f"{PREFIX}_duplicates/"))
    stored = store.get(key)
    assert stored is not None
    made = SegmentWriter(shard.shard_id, shard.segments[4].metadata.minute)
    for _, record, duplicate_of in map(decode_dropped_line, inflate([stored.body])):
        is_other = b"other" in record.data
        made.drop(msgspec.structs.replace(record, data=other) if is_other else record, duplicate_of)
    store.delete([key])
    store.put_if_absent(key, made.duplicates_body(), {}, "application/gzip")
    done = mill.compact(audit=options)
    assert done.manifest is not None
    assert (done.state, done.verdict, done.manifest.restored) == ("published", "clean", 1)
    assert mill.rows(done.manifest) == sorted([*rows_of(corpus), (shard.shard_id, position, other)])
    assert mill.compact(audit=options).state == "already"


def lost_originals(folder: Path, *places: int) -> list[Finding]:
    """Return what an audit finds of a segment, records of which were dropped as copies of nothing."""
    corpus = Corpus(DAY)
    shard = corpus.shards[1]
    gap = f"corpus/{shard.shard_id}/{shard.segments[2].metadata.last.sequence}:1"
    drop_records(corpus, shard, 3, dict.fromkeys(places, gap))
    corpus.write(open_storage(Address(None, str(folder))))
    return list(audit_day(job_context(folder, corpus.checkpoints), DAY, AuditOptions()).audit.findings)


def test_an_acceptance_of_lost_originals_is_one_of_these_records(tmp_path: Path) -> None:
    """One of them alone is a part of it; another record of the same segment is not."""
    accepted = accept(lost_originals(tmp_path / "two", 1, 2), (), "known", "t")
    assert still_holds(accepted, lost_originals(tmp_path / "one", 1), ())
    assert not still_holds(accepted, lost_originals(tmp_path / "another", 3), ())


def test_a_segment_whose_lines_were_all_dropped_gets_one_back(tmp_path: Path) -> None:
    """No file named it before; the row is there all the same, between its neighbours."""
    corpus = Corpus(DAY)
    shard = corpus.shards[1]
    wanted = [(shard.shard_id, record.position, record.data) for record in shard.segments[3].records]
    gap = f"corpus/{shard.shard_id}/{shard.segments[2].metadata.last.sequence}:1"
    drop_records(corpus, shard, 3, dict.fromkeys(range(6), gap))
    mill = Mill(tmp_path, corpus)
    manifest = mill.manifest(None)
    assert mill.rows(manifest) == sorted([*rows_of(corpus), wanted[0]])


def test_copies_of_one_lost_record_in_two_shards_come_back_once(tmp_path: Path) -> None:
    """The copy that arrived first: shards are told apart by arrival."""
    corpus = Corpus(DAY)
    one, two = corpus.shards[1], corpus.shards[0]
    gap = f"corpus/{corpus.shards[2].shard_id}/{corpus.shards[2].segments[2].metadata.last.sequence}:1"
    wanted = two.segments[2].records[5]
    drop_records(corpus, one, 3, {1: gap})
    drop_records(corpus, two, 2, {5: gap})
    mill = Mill(tmp_path, corpus)
    manifest = mill.manifest(None)
    assert manifest.restored == 1
    assert (two.shard_id, wanted.position, wanted.data) in mill.rows(manifest)


def test_lines_come_back_into_a_segment_that_also_loses_some(tmp_path: Path) -> None:
    """Both at once: the copy of an event is left out, the dropped line is there."""
    corpus = Corpus(DAY)
    shard = corpus.shards[1]
    repeated_event(corpus, shard, 3)
    copies = [shard.segments[3].records[place] for place in (2, 4)]
    wanted = shard.segments[3].records[1]
    gap = f"corpus/{shard.shard_id}/{shard.segments[2].metadata.last.sequence}:1"
    drop_records(corpus, shard, 3, {1: gap})
    mill = Mill(tmp_path, corpus)
    manifest = mill.manifest()
    places = [row[1] for row in mill.rows(manifest) if row[0] == shard.shard_id]
    assert (manifest.removed, manifest.restored) == (2, 1)
    assert wanted.position in places
    assert not {copy.position for copy in copies} & set(places)
    assert places == sorted(places)


def test_a_repaired_day_is_published_by_the_run_after_a_crash(tmp_path: Path) -> None:
    """The manifest is there, the pointer is not: the day is read again, and says what it is."""
    corpus = Corpus(DAY)
    dropped_without_original(corpus, corpus.shards[1], 3)
    mill = Mill(tmp_path, corpus)
    mill.rewrite(None)
    mill.storage.delete([f"tables/dt={DAY}/_current.json"])
    done = mill.rewrite(None)
    assert (done.state, done.verdict) == ("published", "defects")
    assert done.result is not None
    assert [found.repaired for found in done.result.audit.findings] == [True]
