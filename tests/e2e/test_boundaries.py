"""Boundaries on the real daemon: `minutebook wait` returns while shards are quiet and one was split.

s0 |--records-------------------- quiet ----------------| SIGTERM
s1 |--(no record)--split| s2 |--(no record)-------------|
                        | s3 |--a record---- quiet -----|
                                                      wait --until a time after the split
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pytest

from demo.readback import read_archive
from minutebook.clock import SystemClock
from minutebook.format.boundaries import (
    COMPLETE,
    UNTIL,
    CompleteMarker,
    decode_complete,
    decode_rows,
    decode_since,
    marker_key,
    parse_marker_key,
    since_key,
)
from minutebook.format.minute import MINUTE_MS, iso_time, parse_iso_time
from tests.e2e.commands import Answer, run, status
from tests.e2e.harness import PREFIX, Application
from tests.witness.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from demo.embedded import EmbeddedAws

_CLOCK = SystemClock()
_NOT_YET = 7
_TRIES = 4


class Story(NamedTuple):
    """What was seen. `sent_ms` lies behind the last record that was sent before the wait."""

    app: Application
    children: list[str]
    sent_ms: int
    answer: Answer
    exit_code: int

    def markers(self) -> list[CompleteMarker]:
        """Return the published markers, in order."""
        parsed = [parse_marker_key(PREFIX, row.key) for row in self.app.store.list_objects(f"{PREFIX}{COMPLETE}")]
        keys = [marker_key(PREFIX, key.boundary_ms) for key in parsed if key is not None]
        bodies = {key: self.app.store.get(key) for key in keys}
        return [decode_complete(stored.body, key) for key, stored in bodies.items() if stored is not None]


def _wait(app: Application, until: str) -> Answer:
    """Wait as a scheduler does: it asks again for as long as the answer is 7, not yet."""
    for _ in range(_TRIES):
        answer = run(app, "wait", "--until", until, "--timeout", "150s", "--json")
        if answer.code != _NOT_YET:
            break
    return answer


@pytest.fixture(scope="module")
def story(embedded_aws: "EmbeddedAws", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Archive, split a shard without a record, and wait until the time behind it is complete."""
    folder: Path = tmp_path_factory.mktemp("boundaries")
    app = Application(embedded_aws, folder, shards=2, completeSlotSeconds=60)
    s0, s1 = app.open_shards()
    app.seed_leases(dict.fromkeys((s0, s1), "w1"))
    with app.consume() as worker:
        app.producer.put_numbered(20, key=app.key_of(s0))
        worker.events.wait("shard_opened", shard=s1)
        s2, s3 = app.split(s1)
        app.producer.put_numbered(1, key=app.key_of(s3))
        worker.events.wait("shard_opened", shard=s2)
        sent_ms = _CLOCK.now_ms() + 1000
        wait_until(lambda: app.store.get(since_key(PREFIX)) is not None, "there is a first boundary")
        stored = app.store.get(since_key(PREFIX))
        assert stored is not None
        # The first boundary may lie behind the split on a slow machine: of what lies before it nothing is said.
        until_ms = max((sent_ms // MINUTE_MS + 1) * MINUTE_MS, decode_since(stored.body, "since").since_ms)
        answer = _wait(app, iso_time(until_ms + MINUTE_MS))
        worker.terminate()
        yield Story(app, [s2, s3], sent_ms, answer, worker.wait())


def test_wait_returns_while_shards_are_quiet_and_one_was_split(story: Story) -> None:
    """With exit code 0, and without a gap."""
    assert story.answer.code == 0, story.answer.text
    report = msgspec.json.decode(story.answer.text)
    assert (report["state"], report["gaps"], report["holds"]) == ("complete", [], [])
    assert story.exit_code == 0


def test_what_arrived_before_the_boundary_is_archived(story: Story) -> None:
    """Each record once, read back by a reader that trusts nothing but bytes."""
    report = msgspec.json.decode(story.answer.text)
    assert parse_iso_time(report["complete_until"]) > story.sent_ms
    archived = [record.ref for segment in read_archive(story.app.store, PREFIX) for record in segment.records]
    assert len(archived) == len(set(archived)) == 21


def test_the_boundaries_follow_each_other(story: Story) -> None:
    """Each a minute after the one before; the last ones know the children and no gap."""
    markers = story.markers()
    times = [marker.boundary_ms for marker in markers]
    assert times == list(range(times[0], times[-1] + 1, MINUTE_MS))
    assert set(story.children) <= markers[-1].shards.keys()
    assert all(marker.gaps == () for marker in markers)


def test_an_orderly_stop_says_its_last_rows(story: Story) -> None:
    """The next worker's first marker needs no look into the archive."""
    keys = [row.key for row in story.app.store.list_objects(f"{PREFIX}{UNTIL}")]
    last = max(keys, key=lambda key: int(key.rpartition("-")[2].removesuffix(".json")))
    stored = story.app.store.get(last)
    assert stored is not None
    assert decode_rows(stored.body, last).rows


def test_status_names_the_boundary(story: Story) -> None:
    """And what holds the next one, now that no worker runs."""
    complete = status(story.app).complete
    assert complete is not None
    assert complete.until is not None
    assert complete.gaps == []
