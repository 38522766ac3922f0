"""Where an application starts: `minutebook.start=now` is resolved once, and every later start uses the same moment.

put early | consume (start=now) |-- put late --| stop, lease rows reset | consume (start=oldest): adds nothing
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from demo.ledger import RecordRef
from demo.readback import Verdict, compare
from minutebook.clock import SystemClock
from minutebook.format.boundaries import COMPLETE, UNTIL
from minutebook.format.keys import application_key
from minutebook.format.markers import ApplicationRecord, decode_marker
from tests.e2e.commands import Answer, health, settled_health
from tests.e2e.harness import PREFIX, Application
from tests.witness.events import Event
from tests.witness.readback import assert_exactly_once
from tests.witness.waiting import wait_until

if TYPE_CHECKING:
    from demo.embedded import EmbeddedAws

_SHARD = "shardId-000000000000"


@dataclass(kw_only=True)
class Story:
    """What was seen."""

    application: ApplicationRecord
    early: list[RecordRef]
    archived: set[RecordRef]
    opened: Event
    late: Verdict
    """The archive against what was put after the start."""
    warned: list[Event]
    objects: tuple[dict[str, str], dict[str, str]]
    """After the first life and after the second."""
    health: tuple[Answer, Answer]
    """In the first life and after it, without the worker's --state-dir."""
    taken: Event
    """In the second life, whose only lease was nobody's."""


@pytest.fixture(scope="module")
def story(embedded_aws: "EmbeddedAws", tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Play it."""
    folder = tmp_path_factory.mktemp("start")
    app = Application(embedded_aws, folder, flushSeconds=1, checkpointIntervalSeconds=0)
    early = app.producer.put_numbered(10)
    second = SystemClock().now_ms() // 1000
    wait_until(lambda: SystemClock().now_ms() // 1000 > second, "the next second: KCL takes whole ones")
    app.seed_leases({_SHARD: "w1"}, checkpoint="AT_TIMESTAMP")
    with app.consume(start="now") as worker:
        worker.events.wait("start_settled")
        app.producer.put_numbered(10)
        opened = worker.events.wait("shard_opened")
        worker.events.wait("checkpoint_written", position=str(app.producer.last()[_SHARD]))
        alive = settled_health(app)
        worker.terminate()
        assert worker.wait() == 0
    objects, gone = app.objects(), health(app)
    app.drop_lease_tables()
    app.seed_leases({}, checkpoint="AT_TIMESTAMP")
    with app.consume("w2", start="oldest") as worker:
        taken = worker.events.wait("lease_taken")
        worker.events.wait("checkpoint_written", position=str(app.producer.last()[_SHARD]))
        warned = worker.events.all("start_settled_earlier")
        worker.terminate()
        assert worker.wait() == 0
    found = app.store.get(application_key(PREFIX))
    assert found is not None
    segments = app.segments()
    late = {place: digest for place, digest in app.producer.fingerprints().items() if place not in early}
    return Story(
        application=decode_marker(found.body, ApplicationRecord, application_key(PREFIX)),
        early=early,
        archived={record.ref for segment in segments for record in segment.records},
        opened=opened,
        late=compare(segments, late),
        warned=warned,
        objects=(objects, app.objects()),
        health=(alive, gone),
        taken=taken,
    )


def test_now_leaves_out_what_was_there_before(story: Story) -> None:
    """Not one record put before the start is archived."""
    assert story.archived.isdisjoint(story.early)


def test_everything_after_the_start_is_archived_once(story: Story) -> None:
    """Also what came between the settling of the start and the daemon's first read."""
    assert_exactly_once(story.late)


def test_the_chain_says_where_it_starts(story: Story) -> None:
    """AT_TIMESTAMP, not TRIM_HORIZON: the audit can tell a chosen start from a loss."""
    assert story.opened["after"] == "AT_TIMESTAMP"


def test_the_start_is_stored_as_whole_seconds(story: Story) -> None:
    """KCL takes no finer timestamp, so two writers cannot differ by milliseconds."""
    assert (story.application.start, (story.application.start_at_ms or 1) % 1000) == ("now", 0)


def test_a_later_start_uses_the_stored_one(story: Story) -> None:
    """The second life's own setting is not taken, and the log says so."""
    assert [(event["setting"], event["stored"]) for event in story.warned] == [("oldest", "now")]


def test_a_second_start_adds_nothing(story: Story) -> None:
    """The lease rows were reset: everything since the start came again, and no object changed.

    But for what the second run says of its shards' times: that is news.
    """
    before, after = (
        {key: etag for key, etag in each.items() if not key.startswith((f"{PREFIX}{UNTIL}", f"{PREFIX}{COMPLETE}"))}
        for each in story.objects
    )
    assert after == before


def test_health_finds_the_worker_that_has_a_state_folder(story: Story) -> None:
    """While it runs; then the line says that nobody runs, and which option it was given."""
    alive, gone = story.health
    assert (alive.code, alive.text) == (0, "healthy: 1 shard, nothing waits\n")
    assert (gone.code, "no daemon runs" in gone.text, "--state-dir" in gone.text) == (7, True, True)


def test_the_only_lease_is_taken_where_it_is_free(story: Story) -> None:
    """Before the daemon starts, which then opens the shard at once."""
    assert (story.taken["shard"], story.taken["worker"]) == (_SHARD, "w2")
