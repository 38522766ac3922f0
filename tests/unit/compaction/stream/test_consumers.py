"""The consumer of a run: registered and removed by who made it, found and left by everybody else."""

import random
from collections.abc import Callable, Iterator

import pytest
from structlog.testing import capture_logs

from archive.access import PLAIN
from archive.aws import client_config, make_kinesis_client
from archive.errors import StreamRefused, StreamUnavailable
from archive.retry import Backoff
from compaction.stream.consumers import FanOut
from compaction.stream.kinesis import Reach, ReadLog, StreamReader
from tests.fakes.clock import ManualClock
from tests.fakes.fan_out_kinesis import SHARD, FanOutKinesis, FanOutServer
from tests.integration.asking import check
from tests.witness.policies import Names
from tests.witness.requests import hearing

pytestmark = pytest.mark.usefixtures("credentials")
ARN = "arn:aws:kinesis:us-east-1:000000000000:stream/corpus"


@pytest.fixture
def service() -> FanOutKinesis:
    """Return a stream without consumers."""
    return FanOutKinesis(ManualClock(), [])


@pytest.fixture
def fan_out(service: FanOutKinesis) -> Iterator[Callable[[str], FanOut]]:
    """Return what makes the consumer of a run."""
    server = FanOutServer(service)
    client = make_kinesis_client("us-east-1", server.endpoint, PLAIN, client_config(read_timeout=2))

    def waits() -> Backoff:
        return Backoff(service.clock, random.Random(1), budget_seconds=60)

    yield lambda asked: FanOut(client, asked, waits, waits)
    server.close()


def count(service: FanOutKinesis, operation: str) -> int:
    """Return how often the service was asked for something."""
    return [name for name, _ in service.asked].count(operation)


def test_what_a_run_registered_it_removes(service: FanOutKinesis, fan_out: Callable[[str], FanOut]) -> None:
    """Once for all days, when it is active."""
    run = fan_out("audit")
    with run.lent(ARN) as arn:
        assert service.consumers["audit"].status == "ACTIVE"
        assert arn == service.consumers["audit"].arn
    with run.lent(ARN) as again:
        assert again == arn
    run.close()
    run.close()
    assert service.consumers["audit"].is_deleting
    assert (count(service, "RegisterStreamConsumer"), count(service, "DeregisterStreamConsumer")) == (1, 1)


@pytest.mark.parametrize("by_arn", [True, False])
def test_what_was_there_is_used_and_left(
    service: FanOutKinesis, fan_out: Callable[[str], FanOut], *, by_arn: bool
) -> None:
    """The log says so of a name: a run that was killed may have left it."""
    arn = service.register("audit").arn
    run = fan_out(arn if by_arn else "audit")
    with capture_logs() as logs:
        with run.lent(ARN) as lent:
            assert lent == arn
        run.close()
    assert [row["event"] for row in logs] == ([] if by_arn else ["fan_out_consumer_found"])
    assert not service.consumers["audit"].is_deleting
    assert count(service, "RegisterStreamConsumer") == count(service, "DeregisterStreamConsumer") == 0


def test_one_that_is_being_deleted_is_waited_for(service: FanOutKinesis, fan_out: Callable[[str], FanOut]) -> None:
    """Then a new one is registered by the name; its ARN is another."""
    before = service.register("audit")
    before.is_deleting, before.looks_left = True, 2
    run = fan_out("audit")
    with run.lent(ARN) as arn:
        assert arn != before.arn
    run.close()
    assert count(service, "DeregisterStreamConsumer") == 1


def test_a_registration_without_an_answer_is_nobodys(
    service: FanOutKinesis, fan_out: Callable[[str], FanOut]
) -> None:
    """It may have been another run's: it is used and left, and the end of the run says that it may cost."""
    service.refusals["RegisterStreamConsumer"] = ["lost InternalFailure"]
    run = fan_out("audit")
    with capture_logs() as logs:
        with run.lent(ARN) as arn:
            assert arn == service.consumers["audit"].arn
        run.close()
    assert [row["event"] for row in logs] == ["fan_out_consumer_in_doubt"]
    assert not service.consumers["audit"].is_deleting


def test_a_registration_that_is_cut_off_is_told(service: FanOutKinesis, fan_out: Callable[[str], FanOut]) -> None:
    """Nobody knows whether it was made, whatever ended the run in its middle."""
    run = fan_out("audit")

    def cut_off(**_: object) -> None:
        raise KeyboardInterrupt

    run._client.meta.events.register("after-call.kinesis.RegisterStreamConsumer", cut_off)
    with pytest.raises(KeyboardInterrupt), run.lent(ARN):
        pass
    with capture_logs() as logs:
        run.close()
    assert "audit" in service.consumers
    assert [row["event"] for row in logs] == ["fan_out_consumer_in_doubt"]


def test_the_limit_of_consumers_is_told(service: FanOutKinesis, fan_out: Callable[[str], FanOut]) -> None:
    """After a while: the service says the same of requests that come too fast."""
    for number in range(20):
        service.register(f"other-{number}")
    run = fan_out("audit")
    with pytest.raises(StreamUnavailable, match="LimitExceededException"), run.lent(ARN):
        pass
    with capture_logs() as logs:
        run.close()
    assert logs == []


@pytest.mark.parametrize("asked", [f"{ARN}/consumer/gone:1", f"{ARN}-other/consumer/audit:1", "denied"])
def test_what_cannot_be_used_is_refused(service: FanOutKinesis, fan_out: Callable[[str], FanOut], asked: str) -> None:
    """An ARN that is not there, or is of another stream; a right that is missing."""
    service.refusals["RegisterStreamConsumer"] = ["AccessDeniedException"]
    with pytest.raises(StreamRefused), fan_out(asked).lent(ARN):
        pass


def test_one_that_cannot_be_removed_is_told(service: FanOutKinesis, fan_out: Callable[[str], FanOut]) -> None:
    """It costs; the run's verdict stays."""
    service.refusals["DeregisterStreamConsumer"] = ["AccessDeniedException"]
    run = fan_out("audit")
    with run.lent(ARN):
        pass
    with capture_logs() as logs:
        run.close()
    assert [(row["event"], row["log_level"]) for row in logs] == [("fan_out_consumer_left", "error")]


def test_the_policy_is_what_is_asked(service: FanOutKinesis) -> None:
    """Of a consumer's life, and of a reading by it, on top of what level stream has."""
    server, names = FanOutServer(service), Names(stream="corpus")
    with hearing(names) as heard:
        client = make_kinesis_client("us-east-1", server.endpoint, PLAIN, client_config(read_timeout=2))
        reader = StreamReader(client, "corpus", service.clock, random.Random(1))
        run = FanOut(client, "audit", reader._new_backoff, reader._new_backoff)
        with run.lent(ARN) as arn:
            assert list(reader.read(SHARD, Reach(1, 2), ReadLog(), arn)) == []
        run.close()
    server.close()
    check("fan-out", heard)
