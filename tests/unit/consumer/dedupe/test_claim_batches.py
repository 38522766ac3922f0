"""Batches of claims as botocore sends and reads them: what each answer means, and what none may come to mean."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.awsrequest import AWSRequest, AWSResponse
from structlog.testing import capture_logs

from consumer.dedupe.claim_batches import VERBS, Answer, EventClaim, Owner, StatementBatch, Undecided, Verb
from consumer.dedupe.table import DynamoDedupeTable, make_claims_client
from minutebook.aws.access import PLAIN
from minutebook.errors import OutcomeUnknown, StoreRefused

AGAIN, OTHERWISE = Undecided.AGAIN, Undecided.OTHERWISE
CLAIMS = [EventClaim(event_id, "stream/shard/1:0", "digest") for event_id in ("a", "b", "c")]
OURS = Owner("stream/shard/1:0", "digest")
DONE = {"TableName": "claims"}
TAKEN = {"INSERT": "DuplicateItem", "UPDATE": "ConditionalCheckFailed"}
each_verb = pytest.mark.parametrize("verb", VERBS)


def error(code: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - as the service sends it
    """Return the entry of a statement that failed."""
    return {"Error": {"Code": code, "Message": "why", **more}, "TableName": "claims"}


def ask(table: DynamoDedupeTable, verb: Verb = "INSERT", *, now: int = 1) -> list[Answer]:
    """Send a batch of three."""
    return list(table.claim_batch(StatementBatch(verb, CLAIMS, expires=77, now=now)))


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


@pytest.mark.parametrize(
    ("verb", "statement"),
    [
        (
            "INSERT",
            {
                "Statement": "INSERT INTO \"claims\" VALUE {'id':?,'owner':?,'digest':?,'expires':?}",
                "Parameters": [{"S": "e:a"}, {"S": "stream/shard/1:0"}, {"S": "digest"}, {"N": "77"}],
            },
        ),
        (
            "UPDATE",
            {
                "Statement": 'UPDATE "claims" SET "digest"=? SET "expires"=? WHERE "id"=? AND "owner"=?',
                "Parameters": [{"S": "digest"}, {"N": "77"}, {"S": "e:a"}, {"S": "stream/shard/1:0"}],
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            },
        ),
    ],
)
def test_a_claim_is_one_statement(
    service: Service, table: DynamoDedupeTable, verb: Verb, statement: dict[str, Any]
) -> None:
    """The item is that of a claim that is made alone; the values are no part of the text."""
    service.answer(DONE, DONE, DONE)
    assert ask(table, verb) == [OURS] * 3
    (sent,) = service.sent
    assert list(sent) == ["Statements"]
    assert sent["Statements"][0] == statement


@each_verb
def test_a_batch_that_names_an_event_twice_is_not_sent(
    service: Service, table: DynamoDedupeTable, verb: Verb
) -> None:
    """DynamoDB would refuse the request as a whole, and may have applied a part of it."""
    with pytest.raises(ValueError, match="not a batch"):
        table.claim_batch(StatementBatch(verb, [*CLAIMS, CLAIMS[0]._replace(owner="other")], expires=77, now=1))
    assert service.sent == []


@each_verb
@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("DuplicateItem", OTHERWISE),
        ("ConditionalCheckFailed", OTHERWISE),
        ("ThrottlingError", AGAIN),
        ("ProvisionedThroughputExceeded", AGAIN),
        ("RequestLimitExceeded", AGAIN),
        ("InternalServerError", AGAIN),
        ("TransactionConflict", AGAIN),
        ("AccessDenied", OTHERWISE),
        ("ResourceNotFound", OTHERWISE),
        ("ValidationError", OTHERWISE),
        ("ItemCollectionSizeLimitExceeded", OTHERWISE),
        ("ACodeThatNobodyKnows", OTHERWISE),
        ("", OTHERWISE),
    ],
)
def test_a_statement_that_failed_claims_nothing(
    service: Service, table: DynamoDedupeTable, verb: Verb, code: str, answer: Answer
) -> None:
    """Within an answer whose status is 200, and beside statements that succeeded."""
    service.answer(DONE, error(code), DONE)
    assert ask(table, verb) == [OURS, answer, OURS]


@pytest.mark.parametrize(
    ("item", "answer"),
    [
        ({"owner": {"S": "theirs"}, "digest": {"S": "d"}, "expires": {"N": "9"}}, Owner("theirs", "d")),
        ({"owner": {"S": "theirs"}, "expires": {"N": "9"}}, Owner("theirs", None)),
        ({"owner": {"S": "theirs"}, "digest": {"S": "d"}, "expires": {"N": "8"}}, OTHERWISE),
        ({"owner": {"S": "theirs"}, "digest": {"S": "d"}, "expires": {"S": "9"}}, OTHERWISE),
        ({"owner": {"S": "theirs"}, "digest": {"S": "d"}, "expires": {"N": "9.5"}}, OTHERWISE),
        ({"owner": {"S": "theirs"}, "digest": {"S": "d"}}, OTHERWISE),
        ({"owner": {"S": ""}, "expires": {"N": "9"}}, OTHERWISE),
        ({"owner": {"N": "1"}, "expires": {"N": "9"}}, OTHERWISE),
        ({"owner": {"S": "theirs"}, "digest": {"N": "1"}, "expires": {"N": "9"}}, OTHERWISE),
        ({"expires": {"N": "9"}}, OTHERWISE),
        ({"id": {"S": "e:c"}, "owner": {"S": "theirs"}, "expires": {"N": "9"}}, OTHERWISE),
        ({"id": {"S": "b"}, "owner": {"S": "theirs"}, "expires": {"N": "9"}}, OTHERWISE),
        ({}, OTHERWISE),
        (None, OTHERWISE),
    ],
)
def test_only_a_claim_that_runs_tells_its_owner(
    service: Service, table: DynamoDedupeTable, item: dict[str, Any] | None, answer: Answer
) -> None:
    """At 9 one that runs out with 8 may be taken over; what is no claim is named by the claim alone.

    Nor does the claim on another event: a record would be dropped for one that it has nothing to do with.
    """
    more = {} if item is None else {"Item": {"id": {"S": "e:b"}, **item}}
    service.answer(DONE, error("ConditionalCheckFailed", **more), error("DuplicateItem", **more))
    assert ask(table, "UPDATE", now=9) == [OURS, answer, OTHERWISE]


@each_verb
@pytest.mark.parametrize("entry", [{}, {"Error": {}}, {"Error": {}, "TableName": "claims"}, {"Item": {}}])
def test_an_entry_that_says_nothing_claims_nothing(
    service: Service, table: DynamoDedupeTable, verb: Verb, entry: dict[str, Any]
) -> None:
    """A success names its table."""
    service.answer(entry, DONE, entry)
    assert ask(table, verb) == [OTHERWISE, OURS, OTHERWISE]


@each_verb
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
def test_an_answer_that_is_not_whole_is_none(
    service: Service, table: DynamoDedupeTable, verb: Verb, body: bytes
) -> None:
    """Which entry belongs to which statement is known only when there is one for each."""
    service.body = body
    with pytest.raises(OutcomeUnknown):
        ask(table, verb)


@each_verb
@pytest.mark.parametrize(
    ("code", "status"),
    [("ThrottlingException", 400), ("RequestLimitExceeded", 400), ("InternalServerError", 500), ("Ex", 503)],
)
def test_a_request_that_passes_is_unknown(
    service: Service, table: DynamoDedupeTable, verb: Verb, code: str, status: int
) -> None:
    """It may have been applied, in part or as a whole; batches are sent on."""
    service.refuse(code, status)
    for _ in range(2):
        with pytest.raises(OutcomeUnknown):
            ask(table, verb)
    assert len(service.sent) == 2


@each_verb
@pytest.mark.parametrize(
    "code",
    ["AccessDeniedException", "UnknownOperationException", "ValidationException", "UnrecognizedClientException"],
)
def test_a_refused_batch_is_sent_no_more(service: Service, table: DynamoDedupeTable, verb: Verb, code: str) -> None:
    """Whoever upgrades without the new rights goes on, one by one, and is told once."""
    service.refuse(code)
    with capture_logs() as logs:
        for _ in range(3):
            assert ask(table, verb) == [OTHERWISE] * 3
    assert len(service.sent) == 1
    (told,) = logs
    assert (told["event"], told["log_level"], told["table"]) == ("claims_one_by_one", "warning", "claims")
    assert (told["statement"], code in told["error"]) == (verb, True)
    assert "dynamodb:PartiQLInsert" in told["next_step"]
    assert "dynamodb:PartiQLUpdate" in told["next_step"]


@each_verb
@pytest.mark.parametrize("code", ["AccessDenied", "ValidationError"])
def test_a_refused_statement_ends_the_batches_too(
    service: Service, table: DynamoDedupeTable, verb: Verb, code: str
) -> None:
    """DynamoDB may say it of each statement."""
    service.answer(DONE, error(code), error("ThrottlingError"))
    with capture_logs() as logs:
        assert ask(table, verb) == [OURS, OTHERWISE, AGAIN]
        for _ in range(2):
            assert ask(table, verb) == [OTHERWISE] * 3
    assert (len(service.sent), len(logs)) == (1, 1)


@each_verb
def test_a_table_that_is_gone_is_not_told_as_a_missing_right(
    service: Service, table: DynamoDedupeTable, verb: Verb
) -> None:
    """Restarted, the processor makes the table again."""
    with capture_logs() as logs:
        service.answer(*[error("ResourceNotFound")] * 3)
        assert ask(table, verb) == [OTHERWISE] * 3
        service.refuse("ResourceNotFoundException")
        with pytest.raises(StoreRefused) as caught:
            ask(table, verb)
    assert "restart" in caught.value.next_step
    assert logs == []


@each_verb
def test_an_event_that_is_taken_is_no_refusal(service: Service, table: DynamoDedupeTable, verb: Verb) -> None:
    """Nor is a statement that was throttled."""
    service.answer(DONE, error(TAKEN[verb]), error("ThrottlingError"))
    with capture_logs() as logs:
        for _ in range(2):
            assert ask(table, verb) == [OURS, OTHERWISE, AGAIN]
    assert (len(service.sent), logs) == (2, [])


def test_without_updates_there_are_still_inserts(service: Service, table: DynamoDedupeTable) -> None:
    """They are nearly all there is. Without inserts an update would find nothing of new events."""
    service.answer(error("AccessDenied"), DONE, DONE)
    ask(table, "UPDATE")
    service.answer(DONE, DONE, DONE)
    assert ask(table, "UPDATE") == [OTHERWISE] * 3
    assert ask(table, "INSERT") == [OURS] * 3
    service.refuse("AccessDeniedException")
    ask(table, "INSERT")
    assert len(service.sent) == 3
    ask(table, "UPDATE")
    assert len(service.sent) == 3
