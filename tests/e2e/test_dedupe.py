"""Producer deduplication under the real daemon: retries around a SIGKILL of a processor, and numbers out of order.

claims      two shards   |--10 events, 5 again--(claimed, not committed) X processors--all again, in both shards--|
watermark   one shard    |--1 2 4 5--(committed) X processor--3, then 4 5 3 2 again, 6--|
"""

import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from demo.ledger import RecordRef
from demo.readback import StoredSegment, Verdict, compare
from demo.retries import Mode, Retries, count_retries
from minutebook.format.position import Position
from tests.e2e.harness import Application
from tests.e2e.worker import Worker, kill
from tests.witness.events import Event
from tests.witness.ledger import Sent
from tests.witness.waiting import wait_for_an_early_second, wait_until

if TYPE_CHECKING:
    from demo.embedded import EmbeddedAws

_DEVICE = "d-1"


@dataclass(kw_only=True)
class Life:
    """What one application left behind."""

    segments: list[StoredSegment]
    verdict: Verdict
    retries: Retries
    table_before: bool
    table_after: bool
    commits_before_kill: list[Event]
    kept: list[str]
    """Event ids of all lines, in the order of keys."""


class Story:
    """One application with a mode of deduplication, and its producer's memory of which record is which event."""

    def __init__(self, aws: "EmbeddedAws", app: Application, mode: Mode) -> None:
        self.app = app
        self._dynamodb = aws.dynamodb_client()
        self._mode: Mode = mode
        self._events: dict[RecordRef, str] = {}

    def send(self, key: str, events: Iterable[tuple[str, bytes]]) -> list[RecordRef]:
        """Put events (id, payload) under one partition key."""
        sent = list(events)
        places = self.app.producer.put(Sent(key, data) for _, data in sent)
        self._events |= {place: event_id for place, (event_id, _) in zip(places, sent, strict=True)}
        return places

    def has_table(self) -> bool:
        """Tell whether the dedupe table exists."""
        return self._table in self._dynamodb.list_tables()["TableNames"]

    def claims(self) -> int:
        """Count the items of the dedupe table."""
        return self._dynamodb.scan(TableName=self._table, Select="COUNT")["Count"] if self.has_table() else 0

    def end(self, *, table_before: bool, commits: list[Event]) -> Life:
        """Read the archive back."""
        segments = self.app.segments()
        return Life(
            segments=segments,
            verdict=compare(segments, self.app.producer.fingerprints()),
            retries=count_retries(self._mode, self.app.name, segments, self._events),
            table_before=table_before,
            table_after=self.has_table(),
            commits_before_kill=commits,
            kept=[self._events[record.ref] for segment in segments for record in segment.records],
        )

    @property
    def _table(self) -> str:
        return f"{self.app.name}-dedupe"


@pytest.fixture(scope="module")
def claims(embedded_aws: "EmbeddedAws", tmp_path_factory: pytest.TempPathFactory) -> Life:
    """Play mode claims."""
    app = Application(
        embedded_aws,
        tmp_path_factory.mktemp("claims"),
        shards=2,
        flushSeconds=30,
        lingerSeconds=1,
        dedupe="claims",
        eventId="event.id",
    )
    story = Story(embedded_aws, app, "claims")
    left, right = (app.key_of(shard) for shard in app.open_shards())
    table_before = story.has_table()
    app.seed_leases(dict.fromkeys(app.open_shards(), "w1"))
    with app.consume() as worker:
        for shard in app.open_shards():
            worker.events.wait("shard_opened", shard=shard)
        # A minute that ends meanwhile would be committed before the kill.
        wait_for_an_early_second()
        story.send(left, _events(range(10)))
        story.send(left, _events(range(5)))
        wait_until(lambda: story.claims() == 10, "every event is claimed")
        commits = worker.events.all("segment_committed")
        mark = worker.events.mark()
        _kill_processors(worker)
        story.send(left, _events(range(5, 10)))
        story.send(right, _events(range(10)))
        last = story.send(left, _events(range(10, 12)))[-1]
        _await_commit(worker, last, since=mark)
        worker.terminate()
        assert worker.wait() == 0
    return story.end(table_before=table_before, commits=commits)


@pytest.fixture(scope="module")
def watermark(embedded_aws: "EmbeddedAws", tmp_path_factory: pytest.TempPathFactory) -> Life:
    """Play mode watermark."""
    app = Application(
        embedded_aws,
        tmp_path_factory.mktemp("watermark"),
        flushSeconds=1,
        lingerSeconds=1,
        dedupe="watermark",
        producerSequence="seq",
        producerKey="device",
    )
    story = Story(embedded_aws, app, "watermark")
    table_before = story.has_table()
    app.seed_leases(dict.fromkeys(app.open_shards(), "w1"))
    with app.consume() as worker:
        first = story.send(_DEVICE, _numbers(1, 2, 4, 5))[-1]
        _await_commit(worker, first, since=0)
        commits = worker.events.all("segment_committed")
        mark = worker.events.mark()
        _kill_processors(worker)
        story.send(_DEVICE, _numbers(3))
        last = story.send(_DEVICE, _numbers(4, 5, 3, 2, 6))[-1]
        _await_commit(worker, last, since=mark)
        worker.terminate()
        assert worker.wait() == 0
    return story.end(table_before=table_before, commits=commits)


def test_claims_were_made_and_nothing_was_committed_when_the_kill_came(claims: Life) -> None:
    """The premise: the same records claim a second time after the crash."""
    assert claims.commits_before_kill == []


def test_claims_keep_every_event_once(claims: Life) -> None:
    """Before, through and after the crash, in both shards."""
    assert sorted(claims.kept) == sorted(event_id for event_id, _ in _events(range(12)))


def test_claims_remove_every_retry(claims: Life) -> None:
    """All 20 copies stand in `_duplicates`, ten of them from another shard, each named after the record kept."""
    counts = (claims.retries.sent, claims.retries.removed, claims.retries.left, claims.retries.across_shards)
    assert (counts, claims.retries.misnamed, claims.retries.lost) == ((20, 20, 0, 10), [], [])


def test_watermarks_keep_every_number_once(watermark: Life) -> None:
    """3 came after 4 and 5, as after a partial failure of PutRecords: it is no duplicate."""
    assert sorted(watermark.kept) == [f"{_DEVICE}#{number}" for number in range(1, 7)]


def test_watermarks_remove_every_retry(watermark: Life) -> None:
    """What the chain had seen before the crash is known after it."""
    counts = (watermark.retries.sent, watermark.retries.removed, watermark.retries.left)
    assert (counts, watermark.retries.misnamed, watermark.retries.lost) == ((4, 4, 0), [], [])


def test_watermarks_came_from_before_the_crash(watermark: Life) -> None:
    """The premise: 4 and 5 were committed by the processor that was killed."""
    assert watermark.commits_before_kill


@pytest.mark.parametrize("mode", ["claims", "watermark"])
def test_every_record_is_accounted_for_once(mode: str, request: pytest.FixtureRequest) -> None:
    """As a line or as a dropped duplicate of a committed segment; counts, spans and chains agree."""
    life: Life = request.getfixturevalue(mode)
    assert life.verdict.is_clean, life.verdict


@pytest.mark.parametrize("mode", ["claims", "watermark"])
def test_the_table_is_made_on_demand(mode: str, request: pytest.FixtureRequest) -> None:
    """It was not there before."""
    life: Life = request.getfixturevalue(mode)
    assert (life.table_before, life.table_after) == (False, True)


def _events(numbers: Iterable[int]) -> list[tuple[str, bytes]]:
    """Return events with an id inside; the same number gives the same bytes."""
    return [(f"event-{number}", b'{"event":{"id":"event-%d"}}' % number) for number in numbers]


def _numbers(*numbers: int) -> Sequence[tuple[str, bytes]]:
    """Return a device's numbered events."""
    return [(f"{_DEVICE}#{number}", b'{"device":"%s","seq":%d}' % (_DEVICE.encode(), number)) for number in numbers]


def _kill_processors(worker: Worker) -> None:
    """SIGKILL every processor: none commits what it holds."""
    for process in worker.processors():
        kill(process, signal.SIGKILL)


def _await_commit(worker: Worker, place: RecordRef, *, since: int) -> None:
    worker.events.wait(
        "segment_committed",
        since=since,
        shard=place.shard_id,
        where=lambda event: Position.parse(event["last"]) >= place.position,
    )
