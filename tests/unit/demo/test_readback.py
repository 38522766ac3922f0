"""The demo's verdict: each way an archive can be wrong is seen, and a right one is clean."""

import pytest

from demo.flights import Event
from demo.ledger import Ledger, RecordRef
from demo.readback import Verdict, compare, count_archived, read_archive
from minutebook.errors import FormatError
from minutebook.format.metadata import Continuity, Predecessor
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.format.record import Record
from tests.fakes.archive_scene import CHAIN_START, MemoryScene

PREFIX = "flights/"
SHARD = "shardId-000000000000"
MINUTE = 29_000_000


class Archive(MemoryScene):
    """A bucket filled by hand, and the ledger of what should be in it."""

    def __init__(self) -> None:
        super().__init__(prefix=PREFIX)
        self.ledger = Ledger()

    def send(self, *sequences: int) -> None:
        """Write records down as acknowledged."""
        for sequence in sequences:
            self.ledger.add(SHARD, str(sequence), _event(sequence), is_retry=False)

    def hold(
        self,
        *sequences: int,
        after: Predecessor = CHAIN_START,
        data: bytes | None = None,
        partition_key: str = "key",
        minute: int = MINUTE,
        continuity: Continuity | None = None,
    ) -> str:
        """Commit a segment with these records; returns its key."""
        begin_ms = MINUTE * MINUTE_MS
        records = [
            Record(str(number), 0, partition_key, begin_ms + number, data or _data(number)) for number in sequences
        ]
        writer = f"w{sequences[0]}"
        return self.segment(SHARD, minute, records, after=after, continuity=continuity, writer=writer).key

    def verdict(self) -> Verdict:
        """Read all back and compare."""
        return compare(read_archive(self.store, PREFIX), self.ledger.records())


@pytest.fixture
def archive() -> Archive:
    """Return an empty archive."""
    return Archive()


def test_a_whole_chain_of_all_records_is_clean(archive: Archive) -> None:
    """Everything acknowledged is there once, and the second segment follows the first."""
    archive.send(1, 2, 3)
    archive.hold(1, 2)
    archive.hold(3, after=Position(2))
    verdict = archive.verdict()
    assert (verdict.is_clean, verdict.sent, verdict.archived) == (True, 3, 3)


def test_markers_are_no_segments(archive: Archive) -> None:
    """Objects whose names begin with an underscore are passed over."""
    archive.bucket.place(f"{PREFIX}_application.json", b"{}")
    assert archive.verdict().is_clean


def test_a_missing_record_is_lost(archive: Archive) -> None:
    """Acknowledged and not archived."""
    archive.send(1, 2)
    archive.hold(1)
    assert archive.verdict().lost == [RecordRef(SHARD, Position(2))]


def test_a_record_in_two_segments_is_duplicated(archive: Archive) -> None:
    """Overlapping segments are seen by their records and by their links."""
    archive.send(1, 2, 3)
    archive.hold(1, 2)
    archive.hold(2, 3, after=Position(1))
    verdict = archive.verdict()
    assert verdict.duplicated == [RecordRef(SHARD, Position(2))]
    assert verdict.broken


@pytest.mark.parametrize(("data", "partition_key"), [(b"other", "key"), (None, "kéy")])
def test_other_bytes_or_another_partition_key_are_altered(
    archive: Archive, data: bytes | None, partition_key: str
) -> None:
    """The fingerprint decides, not the count; a wrong encoding damages the key first."""
    archive.send(1)
    archive.hold(1, data=data, partition_key=partition_key)
    assert archive.verdict().altered == [RecordRef(SHARD, Position(1))]


def test_a_record_nobody_sent_is_unknown(archive: Archive) -> None:
    """Archived and never acknowledged."""
    archive.hold(7)
    assert archive.verdict().unknown == [RecordRef(SHARD, Position(7))]


def test_a_deleted_object_is_a_broken_link(archive: Archive) -> None:
    """The successor names a predecessor that is not there."""
    archive.send(1, 2)
    key = archive.hold(1)
    archive.hold(2, after=Position(1))
    archive.bucket.delete(key)
    assert archive.verdict().broken == [f"{SHARD} 2:0: follows 1:0, expected the start of the chain"]


def test_unproven_continuity_is_not_clean(archive: Archive) -> None:
    """A segment that says that records may be missing before it is believed."""
    archive.send(1)
    archive.hold(1, continuity=Continuity.UNPROVEN)
    assert not archive.verdict().is_clean


def test_a_record_of_another_minute_is_an_error(archive: Archive) -> None:
    """The key's minute is the minute of every record."""
    archive.hold(1, minute=MINUTE + 1)
    with pytest.raises(FormatError, match="minute"):
        archive.verdict()


def test_a_body_that_is_not_what_its_metadata_says_is_an_error(archive: Archive) -> None:
    """A line too few is found though the gzip stream is whole."""
    key = archive.hold(1, 2)
    other = archive.hold(3)
    archive.bucket.place(key, archive.bucket.body(other), archive.bucket.metadata(key))
    with pytest.raises(FormatError, match="metadata says otherwise"):
        archive.verdict()


def test_arrival_times_that_are_not_those_of_the_body_are_an_error(archive: Archive) -> None:
    """The audit's latency figures and a search by time rest on them."""
    key = archive.hold(1, 2)
    wrong = {**archive.bucket.metadata(key), "arrival-min": str(MINUTE * MINUTE_MS)}
    archive.bucket.place(key, archive.bucket.body(key), wrong)
    with pytest.raises(FormatError, match="arrival times"):
        archive.verdict()


def test_counting_asks_for_each_object_once(archive: Archive) -> None:
    """The counter on the screen costs one LIST, and one HEAD for each new object."""
    known: dict[str, int] = {}
    archive.hold(1, 2)
    assert count_archived(archive.store, PREFIX, known) == 2
    archive.hold(3, after=Position(2))
    assert count_archived(archive.store, PREFIX, known) == 3
    assert archive.store.requests["HEAD"] == 2


def test_the_ledger_refuses_a_position_twice(archive: Archive) -> None:
    """A stream that hands out a position twice makes every count worthless."""
    archive.send(1)
    with pytest.raises(Exception, match="twice"):
        archive.send(1)


def test_the_ledger_tells_retries_from_events() -> None:
    """A retry is a record, not an event."""
    ledger = Ledger()
    ledger.add(SHARD, "1", _event(1), is_retry=False)
    ledger.add(SHARD, "2", _event(1), is_retry=True)
    totals = ledger.totals()
    assert (totals.records, totals.retries, totals.events) == (2, 1, 1)


def _event(sequence: int) -> Event:
    return Event(f"event {sequence}", "key", _data(sequence))


def _data(sequence: int) -> bytes:
    return f"payload {sequence}".encode()
