"""Batches of claims as botocore sends and reads them: what each answer means, and what none may come to mean."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.awsrequest import AWSRequest, AWSResponse
from structlog.testing import capture_logs

from archive.access import PLAIN
from archive.errors import OutcomeUnknown
from consumer.dedupe.insertion import Answer, Claim
from consumer.dedupe.table import DynamoDedupeTable, make_claims_client

CLAIMED, HELD, UNKNOWN = Answer.CLAIMED, Answer.HELD, Answer.UNKNOWN
BATCH = [Claim(event_id, "stream/shard/1:0", "digest") for event_id in ("a", "b", "c")]
DONE = {"TableName": "claims"}


def error(code: str) -> dict[str, Any]:
    """Return the entry of a statement that failed."""
    return {"Error": {"Code": code, "Message": "why"}, "TableName": "claims"}


class Service:
    """Stands where the network is: answers with what it is given, and keeps what was sent."""

    def __init__(self) -> None:
        self.status = 200
        self.body: bytes = b""
        self.sent: list[dict[str, Any]] = []

    def answer(self, *entries: dict[str, Any]) -> None:
        """Answer with these entries from now on."""
        self.status, self.body = 200, json.dumps({"Responses": entries}).encode()

    def refuse(self, code: str, status: int = 400) -> None:
        """Refuse whole requests from now on."""
        self.status, self.body = status, json.dumps({"__type": f"x#{code}", "message": "why"}).encode()

    def send(self, request: AWSRequest, **_: object) -> AWSResponse:
        """Take the place of botocore's transport."""
        assert request.body is not None
        self.sent.append(json.loads(request.body))
        return AWSResponse(request.url, self.status, {"content-type": "application/x-amz-json-1.0"}, self)

    def stream(self, *_: object, **__: object) -> Iterator[bytes]:
        """Return the body of the answer."""
        yield self.body


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    """Return a service that knows nobody."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "minutebook")
    return Service()


@pytest.fixture
def table(service: Service) -> DynamoDedupeTable:
    """Return the table behind that service."""
    client = make_claims_client("us-east-1", "http://127.0.0.1:9", PLAIN)
    client.meta.events.register("before-send.dynamodb", service.send)
    return DynamoDedupeTable(client, "claims")


def test_a_claim_is_one_insert_of_a_whole_item(service: Service, table: DynamoDedupeTable) -> None:
    """The item of a claim that is made alone; the values are no part of the statement."""
    service.answer(DONE, DONE, DONE)
    assert table.claim_new(BATCH, expires=77) == [CLAIMED] * 3
    (sent,) = service.sent
    assert list(sent) == ["Statements"]
    assert sent["Statements"][0] == {
        "Statement": "INSERT INTO \"claims\" VALUE {'id':?,'owner':?,'digest':?,'expires':?}",
        "Parameters": [{"S": "e:a"}, {"S": "stream/shard/1:0"}, {"S": "digest"}, {"N": "77"}],
    }


def test_a_batch_that_names_an_event_twice_is_not_sent(service: Service, table: DynamoDedupeTable) -> None:
    """DynamoDB would refuse the request as a whole, and may have applied a part of it."""
    with pytest.raises(ValueError, match="not a batch"):
        table.claim_new([*BATCH, BATCH[0]._replace(owner="other")], expires=77)
    assert service.sent == []


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("DuplicateItem", HELD),
        ("ThrottlingError", UNKNOWN),
        ("ProvisionedThroughputExceeded", UNKNOWN),
        ("RequestLimitExceeded", UNKNOWN),
        ("InternalServerError", UNKNOWN),
        ("TransactionConflict", UNKNOWN),
        ("AccessDenied", HELD),
        ("ResourceNotFound", HELD),
        ("ValidationError", HELD),
        ("ConditionalCheckFailed", HELD),
        ("ItemCollectionSizeLimitExceeded", HELD),
        ("ACodeThatNobodyKnows", HELD),
        ("", HELD),
    ],
)
def test_a_statement_that_failed_claims_nothing(
    service: Service, table: DynamoDedupeTable, code: str, answer: Answer
) -> None:
    """Within an answer whose status is 200, and beside statements that succeeded."""
    service.answer(DONE, error(code), DONE)
    assert table.claim_new(BATCH, expires=77) == [CLAIMED, answer, CLAIMED]


@pytest.mark.parametrize("entry", [{}, {"Error": {}}, {"Error": {}, "TableName": "claims"}, {"Item": {}}])
def test_an_entry_that_says_nothing_claims_nothing(
    service: Service, table: DynamoDedupeTable, entry: dict[str, Any]
) -> None:
    """A success names its table."""
    service.answer(entry, DONE, entry)
    assert table.claim_new(BATCH, expires=77) == [HELD, CLAIMED, HELD]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b'{"Responses":[]}',
        json.dumps({"Responses": [DONE, DONE]}).encode(),
        json.dumps({"Responses": [DONE] * 4}).encode(),
        json.dumps({"Responses": [DONE] * 3}).encode()[:-3],
        b"<html>a proxy</html>",
    ],
)
def test_an_answer_that_is_not_whole_is_none(service: Service, table: DynamoDedupeTable, body: bytes) -> None:
    """Which entry belongs to which statement is known only when there is one for each."""
    service.body = body
    with pytest.raises(OutcomeUnknown):
        table.claim_new(BATCH, expires=77)


@pytest.mark.parametrize(
    ("code", "status"),
    [("ThrottlingException", 400), ("RequestLimitExceeded", 400), ("InternalServerError", 500), ("Ex", 503)],
)
def test_a_request_that_passes_is_unknown(service: Service, table: DynamoDedupeTable, code: str, status: int) -> None:
    """It may have been applied, in part or as a whole; batches are sent on."""
    service.refuse(code, status)
    for _ in range(2):
        with pytest.raises(OutcomeUnknown):
            table.claim_new(BATCH, expires=77)
    assert len(service.sent) == 2


@pytest.mark.parametrize(
    "code",
    ["AccessDeniedException", "UnknownOperationException", "ValidationException", "UnrecognizedClientException"],
)
def test_a_refused_batch_is_sent_no_more(service: Service, table: DynamoDedupeTable, code: str) -> None:
    """Whoever upgrades without the new right goes on, one by one, and is told once."""
    service.refuse(code)
    with capture_logs() as logs:
        for _ in range(3):
            assert table.claim_new(BATCH, expires=77) == [HELD] * 3
    assert len(service.sent) == 1
    (told,) = logs
    assert (told["event"], told["log_level"], told["table"]) == ("claims_one_by_one", "warning", "claims")
    assert code in told["error"]
    assert "dynamodb:PartiQLInsert" in told["next_step"]


@pytest.mark.parametrize(("code", "requests"), [("AccessDenied", 1), ("ValidationError", 1), ("DuplicateItem", 3)])
def test_a_refused_statement_ends_the_batches_too(
    service: Service, table: DynamoDedupeTable, code: str, requests: int
) -> None:
    """DynamoDB may say it of each statement. A duplicate is no refusal."""
    service.answer(DONE, error(code), error("ThrottlingError"))
    with capture_logs() as logs:
        assert table.claim_new(BATCH, expires=77) == [CLAIMED, HELD, UNKNOWN]
        for _ in range(2):
            table.claim_new(BATCH, expires=77)
    assert len(service.sent) == requests
    assert len(logs) == (requests == 1)
