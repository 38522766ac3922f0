"""Rows that a rewrite leaves out or brings back: producer duplicates, and records dropped as copies of nothing."""

import json
from pathlib import Path

import msgspec

from archive.format.day import Day
from archive.format.position import Position
from archive.store.places import StorePrefix, open_storage
from archive.store.storage import Address
from compaction.job.context import AuditOptions
from compaction.publish.generation import Manifest
from compaction.rewrite import Compacted, CompactOptions, compact_day
from tests.corpus.auditing import job_context
from tests.corpus.chain_defects import overlapping_segments
from tests.corpus.event_defects import (
    drop_records,
    dropped_without_original,
    repeated_after_midnight,
    repeated_event,
    repeated_in_another_shard,
    repeated_later,
)
from tests.corpus.model import Corpus, Shape, make_segment
from tests.corpus.reading import published_events, published_rows

DAY = Day.parse("2026-11-20")
Row = tuple[str, Position, bytes]


class Mill:
    """An archive and an output in two folders, and rewrites that leave repeated events out."""

    def __init__(self, folder: Path, corpus: Corpus) -> None:
        self.corpus = corpus
        self.raw = Address(None, str(folder / "raw"))
        self.out = StorePrefix(Address(None, str(folder / "out")), "tables/")
        self.storage = open_storage(self.out.address)
        self.put()

    def put(self) -> None:
        """Write what is new in the corpus."""
        self.corpus.write(open_storage(self.raw))

    def compact(
        self, event_id: str | None = "n", *, drop: bool = True, day: Day = DAY, accept_defects: bool = False
    ) -> Compacted:
        """Compact a day."""
        drop = drop and event_id is not None
        audit = AuditOptions(event_id=event_id, published=self.out, drop_producer_duplicates=drop)
        given = job_context(Path(self.raw.root), self.corpus.checkpoints)
        return compact_day(given, given.open(self.out.address), day, CompactOptions(audit, self.out, accept_defects))

    def manifest(self, event_id: str | None = "n", *, drop: bool = True) -> Manifest:
        """Compact the day; return what was published."""
        found = self.compact(event_id, drop=drop).manifest
        assert found is not None
        return found

    def rows(self, manifest: Manifest) -> list[Row]:
        """Return the rows of a generation, file by file."""
        return list(published_rows(self.storage, manifest))


def rows_of(corpus: Corpus, day: Day = DAY) -> list[Row]:
    """Return the lines of a day, in order."""
    return [
        (shard.shard_id, record.position, record.data)
        for shard in corpus.shards
        for index in shard.in_day(day)
        for record in shard.segments[index].records
    ]


def repeated() -> tuple[Corpus, list[Row]]:
    """Return an archive with copies of every kind, and the rows that must not be published."""
    corpus = Corpus(DAY, shape=Shape(shards=5))
    for number, defect in enumerate(
        (repeated_event, repeated_later, repeated_after_midnight, repeated_in_another_shard)
    ):
        defect(corpus, corpus.shards[number], 3)
    one, two, three, four, _ = corpus.shards
    copies = [
        (one, one.segments[3], 2),
        (one, one.segments[3], 4),
        (two, two.segments[two.in_day(DAY)[-1]], 1),
        (three, three.segments[3], 0),
        (three, three.segments[3], 3),
        (four, four.segments[3], 2),
    ]
    return corpus, [
        (shard.shard_id, stored.records[place].position, stored.records[place].data)
        for shard, stored, place in copies
    ]


def test_the_first_position_of_each_event_stays(tmp_path: Path) -> None:
    """Exactly the copies are missing; the other rows are there, in order, and the numbers say so."""
    corpus, copies = repeated()
    mill = Mill(tmp_path, corpus)
    done = mill.compact()
    assert (done.state, done.verdict) == ("published", "clean")
    assert done.manifest is not None
    assert done.result is not None
    assert mill.rows(done.manifest) == [row for row in rows_of(corpus) if row not in copies]
    numbers = done.result.audit.equation
    assert (numbers.raw, numbers.unique, numbers.removed) == (corpus.records, corpus.records - 6, 6)
    assert (numbers.compacted, numbers.balanced) == (corpus.records - 6, True)
    assert (done.manifest.removed, done.manifest.event_id) == (6, "n")


def test_without_the_flag_copies_are_reported_and_written(tmp_path: Path) -> None:
    """The day is the same as without the path, row by row, and so is its generation."""
    corpus, _ = repeated()
    mill = Mill(tmp_path, corpus)
    done = mill.compact(drop=False)
    assert done.manifest is not None
    assert done.result is not None
    assert mill.rows(done.manifest) == rows_of(corpus)
    assert {one.code for one in done.result.audit.findings} == {"producer_duplicate"}
    assert mill.compact(None).state == "already"


def test_the_same_input_is_nothing_to_do(tmp_path: Path) -> None:
    """Path, flag, the day and the day before are the same: so are the rows."""
    mill = Mill(tmp_path, repeated()[0])
    first = mill.manifest()
    second = mill.compact()
    assert second.manifest is not None
    assert (second.state, second.manifest.generation) == ("already", first.generation)


def test_whatever_changes_the_rows_makes_a_generation(tmp_path: Path) -> None:
    """The flag, the path, a late object, and one of the day before: each has a name of its own."""
    corpus = repeated()[0]
    mill = Mill(tmp_path, corpus)
    names = [mill.manifest(None).generation, mill.manifest().generation, mill.manifest("name").generation]
    shard = corpus.shards[1]
    before = shard.segments[0]
    late = msgspec.structs.replace(before.records[0], sequence_number=str(before.metadata.first.sequence - 5))
    shard.segments.insert(0, make_segment(shard.shard_id, before.metadata.minute, [late], before.metadata.after, "l"))
    shard.has_start = False  # it is stored, and names the segment that was the first one then
    mill.put()
    names.append(mill.compact(accept_defects=True).manifest.generation)  # type: ignore[union-attr]  # it is published
    assert len(set(names)) == 4


def test_an_expired_day_before_is_read_as_it_was_published(tmp_path: Path) -> None:
    """The same rows, and the same generation, as while its raw objects were there."""
    corpus, _ = repeated()
    mill = Mill(tmp_path, corpus)
    yesterday = mill.compact(None, day=DAY.shift(-1)).manifest
    assert yesterday is not None
    first = mill.manifest()
    again = Mill(tmp_path / "again", corpus)
    again.compact(None, day=DAY.shift(-1))
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
    yesterday = mill.compact(day=DAY.shift(-1)).manifest
    assert yesterday is not None
    assert yesterday.removed == 2
    expire(mill, yesterday.generation)
    done = mill.compact()
    assert (done.state, done.verdict) == ("published", "unknown")
    assert mill.compact().verdict == "unknown"


def test_a_merged_object_takes_no_part(tmp_path: Path) -> None:
    """Lines of objects that overlap are in doubt: doubt keeps."""
    corpus = Corpus(DAY)
    repeated_event(corpus, corpus.shards[0], 3)
    overlapping_segments(corpus, corpus.shards[0], 3)
    mill = Mill(tmp_path, corpus)
    done = mill.compact(accept_defects=True)
    assert done.manifest is not None
    assert (done.manifest.removed, done.verdict) == (0, "defects")
    assert mill.rows(done.manifest)  # and none of them twice
    places = [row[:2] for row in mill.rows(done.manifest)]
    assert len(places) == len(set(places))


def test_a_line_that_was_dropped_as_a_copy_of_nothing_comes_back(tmp_path: Path) -> None:
    """The first copy stands among its shard's rows in the order of positions, once; the audit still reports it."""
    corpus = Corpus(DAY)
    shard = corpus.shards[1]
    first, last = shard.segments[3].records[0], shard.segments[3].records[-1]
    (expected,) = dropped_without_original(corpus, shard, 3)
    mill = Mill(tmp_path, corpus)
    done = mill.compact(None)
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


def test_a_segment_whose_lines_were_all_dropped_gets_one_back(tmp_path: Path) -> None:
    """It stands in no file before; the row is there all the same, between its neighbours."""
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
    assert not {one.position for one in copies} & set(places)
    assert places == sorted(places)


def test_a_repaired_day_is_published_by_the_run_after_a_crash(tmp_path: Path) -> None:
    """The manifest is there, the pointer is not: the audit beside it says that the rows are right."""
    corpus = Corpus(DAY)
    dropped_without_original(corpus, corpus.shards[1], 3)
    mill = Mill(tmp_path, corpus)
    mill.compact(None)
    mill.storage.delete([f"tables/dt={DAY}/_current.json"])
    done = mill.compact(None)
    assert (done.state, done.result, done.verdict) == ("published", None, "defects")


def test_events_of_a_published_day_stand_there_once(tmp_path: Path) -> None:
    """What a reader counts."""
    corpus, _ = repeated()
    mill = Mill(tmp_path, corpus)
    events = [event for event in published_events(mill.storage, mill.manifest()) if event is not None]
    assert len(events) == len(set(events))


def expire(mill: Mill, generation: str) -> None:
    """Delete the raw objects of the day before, as `minutebook expire` does."""
    yesterday = DAY.shift(-1)
    tombstone = {
        "format": 1,
        "day": str(yesterday),
        "generation": generation,
        "segments": 0,
        "bytes": 0,
        "shards": {
            shard.shard_id: {
                "runs": [
                    {
                        "after": str(one.metadata.after),
                        "first": str(one.metadata.first),
                        "last": str(one.metadata.last),
                        "segments": 1,
                    }
                    for one in shard.segments
                    if one.metadata.minute in yesterday
                ],
                "kept": [],
            }
            for shard in mill.corpus.shards
        },
        "writer": "w",
        "written_at": "t",
    }
    store = open_storage(mill.raw)
    store.put_if_absent(f"raw/_expired/{yesterday}.json", json.dumps(tombstone).encode(), {}, "application/json")
    store.delete([row.key for row in store.list_objects(yesterday.path("raw/"))])
