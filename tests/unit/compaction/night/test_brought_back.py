"""Rows that a rewrite brings back: records that were dropped as copies of nothing."""

from pathlib import Path

from tests.corpus.desk import DAY, Mill, rows_of
from tests.corpus.event_defects import (
    drop_records,
    dropped_without_original,
    repeated_event,
)
from tests.corpus.model import Corpus


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
