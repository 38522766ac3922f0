"""What became of the producer's retries: each way to be wrong is seen."""

import pytest

from demo.flights import Event
from demo.ledger import Ledger
from demo.readback import compare, read_archive
from demo.retries import Mode, Retries, count_retries
from demo.scenario import Recovery
from minutebook.errors import FormatError
from minutebook.format.keys import duplicates_key
from minutebook.format.position import Position
from minutebook.format.record import Record
from tests.fakes.archive_scene import MemoryScene, Stored

PREFIX = "flights/"
SHARD = "shardId-000000000000"
MINUTE = 29_000_000
BEGIN_MS = MINUTE * 60_000
OWNER = f"flights/{SHARD}/1:0"


class Archive(MemoryScene):
    """One segment of a shard, and the ledger of what was sent: records are (sequence, event, duplicate of)."""

    def __init__(self) -> None:
        super().__init__(prefix=PREFIX)
        self.ledger = Ledger()

    def write(self, *records: tuple[int, str, str | None]) -> Stored:
        """Commit a segment."""
        seen: set[str] = set()
        for sequence, event_id, _ in records:
            event = Event(event_id, "key", event_id.encode())
            self.ledger.add(SHARD, str(sequence), event, is_retry=event_id in seen)
            seen.add(event_id)
        return self.segment(
            SHARD,
            MINUTE,
            [Record(str(number), 0, "key", BEGIN_MS + number, event_id.encode()) for number, event_id, _ in records],
            duplicate_of={Position(number): original for number, _, original in records if original is not None},
            writer="w",
        )

    def count(self, mode: Mode | None = "claims", *recoveries: Recovery) -> Retries:
        """Read all back."""
        return count_retries(mode, "flights", read_archive(self.store, PREFIX), self.ledger.events(), recoveries)


@pytest.fixture
def archive() -> Archive:
    """Return an empty archive."""
    return Archive()


def test_a_removed_retry_is_right(archive: Archive) -> None:
    """The event is there once, and its copy names it."""
    archive.write((1, "a", None), (2, "b", None), (3, "a", OWNER))
    found = archive.count()
    assert (found.is_right, found.events, found.sent, found.removed, found.left) == (True, 2, 1, 1, 0)


def test_a_removed_retry_is_accounted_for(archive: Archive) -> None:
    """The verdict finds it in `_duplicates`, though it is the span's last record."""
    archive.write((1, "a", None), (2, "a", OWNER))
    assert compare(read_archive(archive.store, PREFIX), archive.ledger.records()).is_clean


def test_a_retry_that_is_left_is_wrong(archive: Archive) -> None:
    """Two lines of one event."""
    archive.write((1, "a", None), (2, "a", None))
    found = archive.count()
    assert (found.is_right, found.left) == (False, 1)


def test_without_deduplication_retries_stay(archive: Archive) -> None:
    """And removing one would be wrong."""
    archive.write((1, "a", None), (2, "a", None))
    assert archive.count(None).is_right


def test_without_deduplication_nothing_may_be_removed(archive: Archive) -> None:
    """A processor that drops without being asked."""
    archive.write((1, "a", None), (2, "a", OWNER))
    assert not archive.count(None).is_right


def test_an_event_whose_every_copy_was_dropped_is_lost(archive: Archive) -> None:
    """Each copy names the other: nothing is left of it."""
    archive.write((1, "a", f"flights/{SHARD}/2:0"), (2, "a", OWNER))
    found = archive.count()
    assert (found.is_right, found.lost) == (False, ["a"])


def test_a_copy_that_names_another_record_is_wrong(archive: Archive) -> None:
    """The named original must be the one that was kept."""
    archive.write((1, "a", None), (2, "b", None), (3, "b", OWNER))
    found = archive.count()
    assert (found.is_right, len(found.misnamed)) == (False, 1)


def test_a_numbered_event_is_named_by_its_producer(archive: Archive) -> None:
    """Mode watermark: producer and number, as the payload has them."""
    archive.write((1, "JFK-LAX#7", None), (2, "JFK-LAX#7", 'producer "JFK-LAX" number 7'))
    assert archive.count("watermark").is_right


def test_a_missing_duplicates_object_is_an_error(archive: Archive) -> None:
    """What was dropped must be kept beside the segment."""
    first = archive.write((1, "a", None), (2, "a", OWNER)).metadata.first
    archive.bucket.delete(duplicates_key(PREFIX, SHARD, MINUTE, first, "w"))
    with pytest.raises(FormatError, match="0 dropped duplicates"):
        archive.count()


def test_a_run_without_every_kind_of_retry_tells_little(archive: Archive) -> None:
    """Nothing crossed a shard, a minute or a crash."""
    archive.write((1, "a", None), (2, "a", OWNER))
    assert not archive.count().is_telling


@pytest.mark.parametrize(("stored_after_ms", "through"), [(1, 1), (-1, 0)])
def test_a_replayed_retry_arrived_before_the_kill_and_was_stored_after_it(
    archive: Archive, stored_after_ms: int, through: int
) -> None:
    """Stored before the kill, it was not replayed."""
    archive.write((1, "a", None), (2, "a", OWNER))
    (stored,) = read_archive(archive.store, PREFIX)
    crash = Recovery("kill", 1.0, stored.stored_at_ms - stored_after_ms, frozenset({SHARD}))
    assert stored.stored_at_ms > BEGIN_MS + 1000
    assert archive.count("claims", crash).through_a_crash == through
