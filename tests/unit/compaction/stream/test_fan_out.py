"""A shard by enhanced fan-out: what polling reads, whatever becomes of the subscriptions. Real boto3 on loopback."""

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from archive.access import PLAIN
from archive.aws import client_config, make_kinesis_client
from archive.errors import StreamRefused, StreamUnavailable
from archive.format.position import Position
from compaction.stream.kinesis import Reach, ReadLog, Sent, StreamReader
from tests.conftest import set_credentials
from tests.fakes.clock import START_MS, ManualClock
from tests.fakes.fan_out_kinesis import SHARD, FanOutKinesis, FanOutServer, Fault
from tests.fakes.held_kinesis import Held
from tests.unit.compaction.stream.test_reading import BEGIN_MS, DAY_MS, END_MS, HOUR_MS, held

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

pytestmark = pytest.mark.usefixtures("credentials")
WHOLE = Reach(BEGIN_MS, END_MS, created_ms=1)


class World:
    """A stream, its server, and who reads it."""

    def __init__(self, service: FanOutKinesis, client: "KinesisClient") -> None:
        self.service = service
        self.consumer = service.register("audit").arn
        self.client = client
        self.reader = StreamReader(client, "corpus", service.clock, random.Random(1), share=1.0)

    def read(self, reach: Reach = WHOLE, *, fan_out: bool = True) -> tuple[list[Sent], ReadLog]:
        """Read a reach."""
        log = ReadLog()
        return list(self.reader.read(SHARD, reach, log, self.consumer if fan_out else None)), log

    def subscriptions(self) -> list[str]:
        """Return where the subscriptions were to begin."""
        asked = [asked["StartingPosition"] for name, asked in self.service.asked if name == "SubscribeToShard"]
        return [place.get("SequenceNumber", place["Type"]) for place in asked]


@pytest.fixture(scope="module")
def server() -> Iterator[FanOutServer]:
    """Return a server, whose service each test sets."""
    with closing(FanOutServer(FanOutKinesis(ManualClock(), []))) as server:
        yield server


@pytest.fixture(scope="module")
def client(server: FanOutServer) -> Iterator["KinesisClient"]:
    """Return a client of it, which waits for a third of a second."""
    with pytest.MonkeyPatch.context() as patch:
        set_credentials(patch)
        yield make_kinesis_client("us-east-1", server.endpoint, PLAIN, client_config(read_timeout=0.3))


@pytest.fixture
def world(server: FanOutServer, client: "KinesisClient") -> Callable[..., World]:
    """Return what makes a world of records."""

    def make(records: list[Held], **settings: object) -> World:
        service = FanOutKinesis(ManualClock(), records, **settings)  # type: ignore[arg-type] # by name
        server.serve(service)
        return World(service, client)

    return make


@pytest.mark.parametrize("settings", [{}, {"names_last": False}, {"empty_before": 3}, {"is_closed": True}])
def test_it_is_what_polling_reads(world: Callable[..., World], settings: dict[str, object]) -> None:
    """Also slice by slice, whether the number to go on at is that of a record or not, and to the shard's end."""
    one = world(held(60), most=7, **settings)
    polled, _ = one.read(fan_out=False)
    sent, log = one.read()
    assert sent == polled
    assert (len(sent), log.is_broken, log.is_trimmed) == (72, False, False)
    found, at, stops = list[Sent](), None, [Position(1021, 1), Position(1022, 0), Position(1300, 0)]
    for start, stop in zip([None, *stops], [*stops, None], strict=True):
        sent, log = one.read(Reach(BEGIN_MS, END_MS, start, stop, at, 1))
        found, at = found + sent, log.next_sequence
        assert not log.is_broken
    assert found == polled


@pytest.mark.parametrize("names_last", [True, False])
@pytest.mark.parametrize(
    "kind",
    ["cut", "crc", "silent", "misshapen", "ResourceInUseException", "InternalFailureException", "Throttling"],
)
def test_it_goes_on_where_the_last_whole_event_ended(
    world: Callable[..., World], kind: str, *, names_last: bool
) -> None:
    """No record is left out, and none comes twice."""
    faults = [Fault(0, kind), Fault(2, kind), Fault(1, kind)]
    one = world(held(60), most=7, faults=faults, names_last=names_last)
    sent, log = one.read()
    assert [row.position.sequence for row in sent if not row.position.sub] == [1000 + 7 * n for n in range(60)]
    assert (len(sent), log.is_broken) == (72, False)
    assert one.subscriptions()[:2] == ["AT_TIMESTAMP", "AT_TIMESTAMP"]
    assert len(one.subscriptions()) == 4


def test_it_subscribes_again_after_five_minutes_and_not_within_five_seconds(world: Callable[..., World]) -> None:
    """A subscription has 60 events here; the next one is not asked for in vain."""
    one = world(held(200), most=1)
    sent, log = one.read()
    assert (len(sent), log.is_broken, len(one.subscriptions())) == (240, False, 4)
    assert sum(one.service.clock.slept) >= 3 * 5


def test_a_shard_without_records_is_read_to_its_tip(world: Callable[..., World]) -> None:
    """Empty events go on; where none is behind it ends, and what it was asked for last is told."""
    one = world([])
    sent, log = one.read()
    assert (sent, log.is_broken, log.oldest_ms) == ([], False, None)
    assert log.asked_ms is not None
    assert log.answered_ms is not None
    assert log.answered_ms >= log.asked_ms


def test_empty_events_move_the_place(world: Callable[..., World]) -> None:
    """Where a subscription gave no record, the next one goes on behind it all the same."""
    one = world([Held(90_000, BEGIN_MS + 1000, "k", b"x")], empty_before=3, faults=[Fault(2, "cut")])
    sent, _ = one.read()
    assert len(sent) == 1
    assert one.subscriptions() == ["AT_TIMESTAMP", "89999"]


def test_a_shard_that_gives_nothing_is_given_up(world: Callable[..., World]) -> None:
    """Every subscription is cut before it brings anything: never an unbounded wait."""
    one = world(held(5), faults=[Fault(0, "cut")] * 100)
    with pytest.raises(StreamUnavailable, match=SHARD):
        one.read()
    assert sum(one.service.clock.slept) < 300


@pytest.mark.parametrize("kind", ["KMSDisabledException", "KMSAccessDeniedException", "ResourceNotFoundException"])
def test_what_cannot_pass_is_told_at_once(world: Callable[..., World], kind: str) -> None:
    """As an event; and a consumer that is deleted ends the reading, too."""
    one = world(held(20), most=5, faults=[Fault(1, kind)])
    with pytest.raises(StreamRefused, match=kind):
        one.read()
    one.service.consumers.clear()
    with pytest.raises(StreamRefused, match="ResourceNotFoundException"):
        one.read()


def test_a_subscription_that_is_taken_over_is_made_again(world: Callable[..., World]) -> None:
    """Somebody else subscribes with the same consumer; nothing is lost of that."""
    one = world(held(60), most=7, empty_before=1, idle_seconds=0.02)
    log = ReadLog()
    reading = one.reader.read(SHARD, WHOLE, log, one.consumer)
    first = next(reading)
    one.service.clock.advance(6)
    other = one.client.subscribe_to_shard(
        ConsumerARN=one.consumer, ShardId=SHARD, StartingPosition={"Type": "TRIM_HORIZON"}
    )
    with closing(other["EventStream"]):  # type: ignore[type-var] # botocore's can be closed
        sent = [first, *reading]
    assert len(sent) == 72
    assert len(one.subscriptions()) > 2


def test_a_reading_that_retention_overtakes_is_broken(world: Callable[..., World]) -> None:
    """The reader sleeps while records leave the stream; the service goes on behind them and says nothing."""
    begin_ms = START_MS - DAY_MS + 2 * 60_000
    one = world(held(300, begin_ms=begin_ms, step_ms=1000), most=10, faults=[Fault(3, "end")])
    log = ReadLog()
    reading = one.reader.read(SHARD, Reach(begin_ms, END_MS, created_ms=1), log, one.consumer)
    next(reading)
    one.service.clock.advance(10 * 60)
    assert (len(list(reading)) < 200, log.is_broken) == (True, True)


def test_what_has_left_before_is_told_and_not_asked_for(world: Callable[..., World]) -> None:
    """As by polling."""
    begin_ms = START_MS - DAY_MS - HOUR_MS
    reach = Reach(begin_ms, END_MS, created_ms=1)
    polled, told = world(held(720, begin_ms=begin_ms, step_ms=10_000)).read(reach, fan_out=False)
    sent, log = world(held(720, begin_ms=begin_ms, step_ms=10_000)).read(reach)
    assert sent == polled
    assert (log.is_trimmed, log.is_broken, log.since_ms) == (True, False, told.since_ms)
