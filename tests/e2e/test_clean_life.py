"""A life without trouble, under LANG=C: records of every kind, a split, a merge, a minute's end, SIGTERM.

s0 |--records, stray--split| s2 |--records---------------------------------------- stop
                           | s3 |(no record)--merge|
s1 |--records, nothing-----------------------------| s4 |--records-- minute over -- stop

The last Kinesis record of s0 is an aggregate whose keys belong to s1, as a producer with an old map of the shards
writes it; that of s1 is an aggregate without a record, of 23 bytes. KCL delivers nothing of either.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from demo.ledger import RecordRef, fingerprint
from demo.readback import StoredSegment, Verdict, compare
from minutebook.format.markers import EndMarker, StartMarker
from tests.e2e.harness import Application
from tests.e2e.leases import LeaseRow
from tests.witness.aggregate import EMPTY, aggregate
from tests.witness.events import Event, EventLog
from tests.witness.ledger import Sent
from tests.witness.readback import assert_exactly_once

if TYPE_CHECKING:
    from demo.embedded import EmbeddedAws

_KINDS = [
    Sent("café-日", "naïve £ 日本 🛩".encode()),
    Sent("🛩 \u2028\u0000\ufeff", "line\u2028separator\nbreak\r\x00".encode()),
    Sent("ÿ" * 256, bytes(range(256))),
    Sent("surrogate", rb'{"escaped":"\ud800"}'),
    Sent("surrogate", b"\xed\xa0\x80"),
    Sent("broken", "日本".encode()[:-1]),
    Sent("gzip", b"\x1f\x8b\x08\x00"),
    Sent("empty", b""),
    Sent("largest", bytes(range(256)) * 4096),
]


@dataclass(kw_only=True)
class Story:
    """What was seen."""

    shards: tuple[str, str, str, str, str]
    """s0 to s4 of the picture."""
    kinds: list[RecordRef]
    withheld: dict[str, str]
    """Of s0 and s1: the sequence number of the last Kinesis record, of which KCL delivers nothing."""
    events: EventLog
    minute_commit: Event
    starts: dict[str, StartMarker]
    ends: dict[str, EndMarker]
    leases: dict[str, LeaseRow]
    exit_code: int
    segments: list[StoredSegment]
    verdict: Verdict
    last: dict[str, str]
    """Shard -> last position sent."""


@pytest.fixture(scope="module")
def story(embedded_aws: "EmbeddedAws", tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Play it."""
    folder = tmp_path_factory.mktemp("clean-life")
    app = Application(embedded_aws, folder, shards=2, lingerSeconds=3, checkpointIntervalSeconds=1)
    s0, s1 = app.open_shards()
    app.seed_leases(dict.fromkeys((s0, s1), "w1"))
    with app.consume(environment={"LANG": "C", "LC_ALL": "C"}) as worker:
        kinds = app.producer.put(_KINDS)
        app.producer.put_numbered(50)
        for shard in (s0, s1):
            worker.events.wait("shard_opened", shard=shard)
        withheld = {
            s0: app.put_raw(app.key_of(s0), aggregate([(app.key_of(s1), b"stray")])),
            s1: app.put_raw(app.key_of(s1), EMPTY),
        }
        s2, s3 = app.split(s0)
        app.producer.put_numbered(20, key=app.key_of(s2))
        worker.events.wait("shard_opened", shard=s3)
        s4 = app.merge(s3, s1)
        worker.events.wait("shard_opened", shard=s4)
        mark = worker.events.mark()
        app.producer.put_numbered(20, key=app.key_of(s4))
        commit = worker.events.wait("segment_committed", shard=s4, since=mark)
        for shard in (s2, s4):
            position = str(app.producer.last()[shard])
            worker.events.wait("checkpoint_written", shard=shard, position=position)
        worker.terminate()
        code = worker.wait()
    segments = app.segments()
    return Story(
        shards=(s0, s1, s2, s3, s4),
        kinds=kinds,
        withheld=withheld,
        events=worker.events,
        minute_commit=commit,
        starts={shard: app.start_marker(shard) for shard in (s0, s1, s2, s4)},
        ends={shard: app.end_marker(shard) for shard in (s0, s1, s3)},
        leases=app.leases(),
        exit_code=code,
        segments=segments,
        verdict=compare(segments, app.producer.fingerprints()),
        last={shard: str(position) for shard, position in app.producer.last().items()},
    )


def test_every_record_is_archived_once(story: Story) -> None:
    """Nothing lost, nothing twice, in whole chains, over a split and a merge."""
    assert_exactly_once(story.verdict)


@pytest.mark.parametrize("number", range(len(_KINDS)))
def test_keys_and_payloads_of_every_kind_survive_lang_c(story: Story, number: int) -> None:
    """Partition keys beyond ASCII and any bytes come back as they were put."""
    place = story.kinds[number]
    found = [record.digest for segment in story.segments for record in segment.records if record.ref == place]
    assert found == [fingerprint(*_KINDS[number])]


def test_a_minute_is_committed_once_it_is_over(story: Story) -> None:
    """Without flushSeconds and without a new record the minute's end commits the open segment."""
    assert story.minute_commit["reason"] in {"minute", "idle"}


def test_a_minute_of_a_shard_is_one_object(story: Story) -> None:
    """Only the end of a shard cut a minute short: nothing was retried, nothing contested."""
    keys = [(segment.metadata.shard_id, segment.metadata.minute) for segment in story.segments]
    assert len(keys) == len(set(keys))


def test_the_end_of_a_split_shard_is_proven_by_reading(story: Story) -> None:
    """end.json names the last record sent, both children, and how the end was proven."""
    s0, _, s2, s3, _ = story.shards
    end = story.ends[s0]
    assert (end.last, end.children, end.proof) == (story.last[s0], [s2, s3], "read")


def test_an_end_is_proven_behind_what_kcl_does_not_deliver(story: Story) -> None:
    """The record is kept as it is, and named; no end is unprovable for what a producer sent last."""
    s0, s1 = story.shards[:2]
    assert {shard: (story.ends[shard].proof, story.ends[shard].undelivered) for shard in (s0, s1)} == {
        shard: ("read", [sequence]) for shard, sequence in story.withheld.items()
    }
    told = {(event["shard"], event["reason"]) for event in story.events.all("record_not_delivered")}
    assert told == {(s0, "outside_hash_range"), (s1, "empty")}


def test_nothing_is_restarted(story: Story) -> None:
    """One daemon serves the whole life."""
    assert len(story.events.all("daemon_started")) == 1


def test_the_end_of_merged_shards_names_their_child(story: Story) -> None:
    """Both parents of the merge name the one child."""
    _, s1, _, s3, s4 = story.shards
    assert (story.ends[s1].children, story.ends[s3].children) == ([s4], [s4])


def test_a_shard_without_a_record_ends_with_null(story: Story) -> None:
    """Its end is proven as well, and it has no start."""
    s3 = story.shards[3]
    assert (story.ends[s3].last, story.ends[s3].proof) == (None, "read")


def test_children_name_their_parents(story: Story) -> None:
    """start.json of a split's child names one parent, that of a merge's child two."""
    s0, s1, s2, s3, s4 = story.shards
    assert (story.starts[s2].parents, story.starts[s4].parents) == ([s0], sorted([s1, s3]))


def test_a_child_starts_at_its_own_trim_horizon(story: Story) -> None:
    """Which is fixed: its first record after the reshard."""
    _, _, s2, _, s4 = story.shards
    assert [story.starts[shard].sentinel for shard in (s2, s4)] == ["TRIM_HORIZON", "TRIM_HORIZON"]


def test_a_child_opens_after_its_parents_end_is_checkpointed(story: Story) -> None:
    """The only order that KCL promises over a reshard, and it needs our SHARD_END."""
    s0, s1, s2, s3, s4 = story.shards
    times = {
        (name, event["shard"]): event["timestamp"]
        for name in ("shard_end_checkpointed", "shard_opened")
        for event in story.events.all(name)
    }
    for parent, child in ((s0, s2), (s0, s3), (s1, s4), (s3, s4)):
        assert times["shard_end_checkpointed", parent] < times["shard_opened", child]


def test_closed_shards_stand_at_shard_end(story: Story) -> None:
    """Their lease rows say so (KCL deletes them later, which the archive outlives)."""
    s0, s1, _, s3, _ = story.shards
    assert {story.leases[shard].checkpoint for shard in (s0, s1, s3)} == {"SHARD_END"}


def test_open_shards_stand_at_the_archives_end(story: Story) -> None:
    """After SIGTERM the next start repeats nothing."""
    _, _, s2, _, s4 = story.shards
    for shard in (s2, s4):
        tail = max(segment.metadata.last for segment in story.segments if segment.metadata.shard_id == shard)
        assert story.leases[shard].checkpoint == str(tail)


def test_the_stop_is_orderly(story: Story) -> None:
    """Exit code 0; nobody lost a slot, nobody failed."""
    troubles = [event for name in ("slot_lost", "processor_failed") for event in story.events.all(name)]
    assert (story.exit_code, troubles) == (0, [])


def test_every_line_on_stderr_is_json(story: Story) -> None:
    """A log collector can take the stream as it is."""
    assert story.events.foreign_lines == []
