"""What a person accepted of a day is what was found then: other lines that are lost are another finding."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from compaction.verdict.acceptance import Acceptance, accept, still_holds
from compaction.verdict.audit_document import decode_audit
from compaction.verdict.findings import Finding
from minutebook.format.keys import duplicates_key
from minutebook.format.minute import MINUTE_MS
from minutebook.format.segment import SegmentWriter
from minutebook.store.directory_storage import DirectoryStorage
from tests.corpus.chain_defects import missing_tail
from tests.corpus.desk import DAY, Desk, Mill
from tests.corpus.event_defects import drop_records
from tests.corpus.model import PREFIX, Corpus, Stored
from tests.lives.night import Site
from tests.lives.world import FIRST_DAY, HOUR, World

REASON = "looked at, and it stays so"


def lose_line(stored: Stored, at: int) -> None:
    """Leave a line out of the body; the metadata still counts it."""
    del stored.records[at]
    stored.pack()


def swap_lines(stored: Stored, at: int) -> None:
    """Exchange two neighbouring lines."""
    records = stored.records
    records[at], records[at + 1] = records[at + 1], records[at]
    stored.pack()


def delay_line(stored: Stored, at: int) -> None:
    """Let a line have arrived in the minute after."""
    late = stored.records[at].arrival_ms + MINUTE_MS
    stored.records[at] = msgspec.structs.replace(stored.records[at], arrival_ms=late)
    stored.pack()


def misstate_bytes(stored: Stored, at: int) -> None:
    """Change a payload; the metadata counts other bytes."""
    stored.records[at] = msgspec.structs.replace(stored.records[at], data=b"x")
    stored.pack()


def misplace(stored: Stored, at: int) -> None:
    """Let the metadata name another minute, and change a payload."""
    edited = msgspec.structs.replace(stored.records[at], data=stored.records[at].data[::-1])
    stored.records[at] = edited
    stored.pack()
    stored.fields["minute"] = msgspec.structs.replace(stored.metadata, minute=stored.metadata.minute + 1).encode()[
        "minute"
    ]


def repeat_line(stored: Stored, at: int) -> None:
    """Hold a line twice, and count it twice."""
    stored.records.insert(at, stored.records[at])
    size = stored.metadata.payload_bytes + len(stored.records[at].data)
    stored.pack()
    stored.fields |= {"records": str(len(stored.records)), "payload-bytes": str(size)}


def cut_body(stored: Stored, at: int) -> None:
    """Cut the body short."""
    stored.body = stored.body[: -8 * at]


def accepted(desk: Desk) -> Acceptance | None:
    """Return the acceptance in the audit that the pointer names."""
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    return decode_audit(desk.publisher().audit(pointer) or b"").accepted


@pytest.mark.parametrize(
    "damage", [lose_line, swap_lines, delay_line, misstate_bytes, misplace, repeat_line, cut_body]
)
def test_an_accepted_object_with_other_lines_is_a_new_finding(
    tmp_path: Path, damage: Callable[[Stored, int], None]
) -> None:
    """Key, code and number are the same. The same bytes stored again end nothing; nor does a repair."""
    desk = Desk(tmp_path, Corpus(DAY))
    stored = desk.corpus.shards[0].segments[3]
    records, before = list(stored.records), (stored.body, dict(stored.fields))
    damage(stored, 1)
    desk.store_again(stored, 1)
    assert desk.compact(accept=REASON).accepted == REASON
    for hour in (20, 21):
        desk.store_again(stored, hour)
        assert desk.compact().accepted == REASON
    stored.records, (stored.body, stored.fields) = list(records), (before[0], dict(before[1]))
    damage(stored, 3)
    desk.store_again(stored, 30)
    for _ in range(2):
        assert desk.compact().verdict == "defects"
        assert accepted(desk) is None


def kept_copies(stored: Stored, places: tuple[int, ...]) -> bytes:
    """Return dropped lines of which these alone are kept."""
    made = SegmentWriter(stored.metadata.shard_id, stored.metadata.minute)
    for place in places:
        made.drop(stored.records[place], "corpus/shardId-000000000000/1:0")
    return made.duplicates_body()


@pytest.mark.parametrize("later", [(2, 4), ()], ids=["others", "none"])
def test_accepted_dropped_lines_that_are_others_are_a_new_finding(tmp_path: Path, later: tuple[int, ...]) -> None:
    """Two of three were kept, and accepted: two others, or none, are another loss."""
    corpus = Corpus(DAY)
    shard = corpus.shards[0]
    stored = shard.segments[3]
    original = f"corpus/{shard.shard_id}/{shard.segments[2].records[0].position}"
    before = msgspec.structs.replace(stored.metadata), list(stored.records)
    drop_records(corpus, shard, 3, dict.fromkeys((1, 2, 4), original))
    whole = Stored(before[1], before[0], stored.key)
    slot = (shard.shard_id, stored.metadata.minute, stored.metadata.first, stored.metadata.writer)
    key = duplicates_key(PREFIX, *slot)
    corpus.objects[key] = (kept_copies(whole, (1, 2)), {})
    desk = Desk(tmp_path, corpus)
    assert desk.compact(accept=REASON).accepted == REASON
    assert desk.compact().accepted == REASON
    (desk.raw / key).unlink()
    if later:
        DirectoryStorage(desk.raw).put_if_absent(key, kept_copies(whole, later), {}, "application/gzip")
    assert desk.compact().accepted == ""
    assert accepted(desk) is None


def test_a_checkpoint_that_names_more_than_was_accepted_is_a_new_finding(tmp_path: Path) -> None:
    """The archive's end is the same, and what is missing behind it is not."""
    corpus = Corpus(DAY)
    shard = corpus.shards[2]
    missing_tail(corpus, shard, 0)
    desk = Desk(tmp_path, corpus)
    assert desk.compact(accept=REASON).accepted == REASON
    assert desk.compact().accepted == REASON
    assert shard.checkpoint is not None
    shard.checkpoint = shard.checkpoint._replace(sequence=shard.checkpoint.sequence + 9)
    assert desk.compact().accepted == ""
    assert accepted(desk) is None


@pytest.mark.parametrize("place", [(0, 0), (1, 0)], ids=["other damage", "another object"])
def test_accepted_doubt_about_the_day_before_is_about_its_objects(tmp_path: Path, place: tuple[int, int]) -> None:
    """One object of it cannot be read, and was accepted; another one, or its bytes, are another doubt."""
    mill = Mill(tmp_path, Corpus(DAY))
    stored = mill.corpus.shards[0].segments[0]
    before = stored.body
    cut_body(stored, 1)
    mill.store_again(stored, 1)
    assert mill.rewrite(accept=REASON).accepted == REASON
    assert mill.rewrite().accepted == REASON
    stored.body = before
    mill.store_again(stored, 2)
    other = mill.corpus.shards[place[0]].segments[place[1]]
    cut_body(other, 2)
    mill.store_again(other, 3)
    assert mill.rewrite().accepted == ""
    assert accepted(mill) is None


def test_what_an_earlier_release_accepted_goes_on() -> None:
    """It did not name what is in an object with a defect of its own."""
    finding = Finding(code="count_mismatch", severity="defect", message="m", keys=("k",), count=2, contents=("one",))
    now = accept([finding], (), REASON, "t")
    bare = msgspec.structs.replace(now.findings[0], contents=())
    earlier = msgspec.structs.replace(now, findings=(bare,), names_contents=False)
    other = msgspec.structs.replace(finding, contents=("another",))
    assert still_holds(earlier, [finding], ())
    assert still_holds(earlier, [other], ())
    assert not still_holds(now, [other], ())
    assert not still_holds(msgspec.structs.replace(earlier, names_contents=True), [finding], ())


def test_accepted_dropped_lines_that_are_damaged_otherwise_are_a_new_finding(tmp_path: Path) -> None:
    """The object beside the segment could not be read, and was accepted: other bytes are another finding."""
    corpus = Corpus(DAY)
    shard = corpus.shards[0]
    original = f"corpus/{shard.shard_id}/{shard.segments[2].records[0].position}"
    drop_records(corpus, shard, 3, dict.fromkeys((1, 2), original))
    (key,) = (key for key in corpus.objects if "_duplicates/" in key)
    corpus.objects[key] = (b"damaged", {})
    desk = Desk(tmp_path, corpus)
    assert desk.compact(accept=REASON).accepted == REASON
    assert desk.compact().accepted == REASON
    (desk.raw / key).write_bytes(b"otherwise")
    assert desk.compact().accepted == ""
    assert accepted(desk) is None


def test_a_day_that_was_accepted_beside_a_quiet_shard_is_accepted_in_the_nights_behind(tmp_path: Path) -> None:
    """At ten on the next day marks of the quiet shard are still to come; each night judges the day again."""
    world = World(tmp_path / "raw", 3, begin_ms=FIRST_DAY.begin_ms, shards=2)
    site = Site(tmp_path / "out", world)
    quiet, last = "shardId-000000000001", FIRST_DAY.shift(6)
    world.readings[quiet].quiet_until = last.begin_ms
    for number in range(6):
        world.plan_day(FIRST_DAY.shift(number))
    world.live_until(FIRST_DAY.begin_ms + 20 * HOUR)
    world.delete(world.segments(FIRST_DAY)[1])
    world.live_until(FIRST_DAY.end_ms + 10 * HOUR)
    assert site.night(5, accept={FIRST_DAY: REASON}).rows[FIRST_DAY].pointer == "accepted"
    for number in range(2, 6):
        world.live_until(FIRST_DAY.shift(number).begin_ms + HOUR)
        row = site.night(5).rows[FIRST_DAY]
        assert (row.pointer, row.exit_code, row.verdict) == ("accepted", 0, "defects")
    world.delete(world.segments(FIRST_DAY)[-1])
    row = site.night(5).rows[FIRST_DAY]
    assert (row.pointer, row.exit_code) == ("defects", 3)
