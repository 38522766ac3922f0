"""Claims in batches: one suite for the fake and for a real server."""

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest
from structlog.testing import capture_logs

from consumer.dedupe.claim_batches import VERBS, Answer, EventClaim, Owner, StatementBatch, Undecided, Verb
from consumer.dedupe.table import DedupeTable, make_claims_client
from demo.embedded import REGION, EmbeddedAws
from minutebook.aws.access import PLAIN
from minutebook.clock import new_id
from minutebook.errors import FormatError, OutcomeUnknown, StoreRefused
from tests.contract.dedupe_tables import ClientFaults, ready
from tests.fakes.dedupe_table import MemoryDedupeTable
from tests.fakes.denying_dynamodb import deny

OTHERWISE = Undecided.OTHERWISE


class Given(NamedTuple):
    """A table that is empty, and how its requests are made to fail."""

    table: DedupeTable
    faults: MemoryDedupeTable | ClientFaults
    drop: Callable[[], object]


@pytest.fixture(params=["memory", "dynamodb"])
def given(request: pytest.FixtureRequest) -> Iterator[Given]:
    """Return a table of each kind."""
    if request.param == "memory":
        memory = MemoryDedupeTable()
        yield Given(memory, memory, memory.drop)
        return
    aws: EmbeddedAws = request.getfixturevalue("embedded_aws")
    client = make_claims_client(REGION, aws.dynamodb_endpoint, PLAIN)
    name = f"dedupe-{new_id()[:8]}"
    table = ready(client, name)
    yield Given(table, ClientFaults(client), lambda: client.delete_table(TableName=name))


def claims_of(owner: str, *ids: str) -> list[EventClaim]:
    """Return claims of one owner."""
    return [EventClaim(event_id, owner, f"digest of {owner}") for event_id in ids]


def ask(
    given: Given, verb: Verb, claims: Sequence[EventClaim], *, expires: int = 100, now: int = 1
) -> list[str | None]:
    """Make claims in one request; returns the owners that are told, None for what is to be asked otherwise."""
    answers: Sequence[Answer] = given.table.claim_batch(StatementBatch(verb, claims, expires, now))
    assert {answer for answer in answers if isinstance(answer, Undecided)} <= {OTHERWISE}
    for answer in answers:
        assert not isinstance(answer, Owner) or answer.digest == f"digest of {answer.position}"
    return [answer.position if isinstance(answer, Owner) else None for answer in answers]


def insert(given: Given, owner: str, *ids: str, expires: int = 100) -> list[str | None]:
    """Claim what nobody has claimed."""
    return ask(given, "INSERT", claims_of(owner, *ids), expires=expires)


def update(given: Given, owner: str, *ids: str, expires: int = 100, now: int = 1) -> list[str | None]:
    """Claim what is ours, and be told whose the others are."""
    return ask(given, "UPDATE", claims_of(owner, *ids), expires=expires, now=now)


def owner_of(given: Given, event_id: str) -> str:
    """Ask as a stranger, when nothing has run out."""
    return given.table.claim(EventClaim(event_id, "a stranger", "d"), expires=2, now=1).position


@pytest.mark.parametrize("size", [1, 2, 24, 25])
def test_events_that_nobody_has_claimed_are_claimed(given: Given, size: int) -> None:
    """Each by itself, with owner, digest and expiry, as a claim that is made alone."""
    ids = [str(number) for number in range(size)]
    assert insert(given, "me", *ids) == ["me"] * size
    for event_id in ids:
        other = EventClaim(event_id, "other", "d")
        assert given.table.claim(other, expires=200, now=100) == Owner("me", "digest of me")
        assert given.table.claim(other, expires=200, now=101) == Owner("other", "d")


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("ids", [[], [str(number) for number in range(26)], ["x", "y", "x"]])
def test_what_is_no_batch_is_not_sent(given: Given, verb: Verb, ids: list[str]) -> None:
    """DynamoDB refuses a batch that names an item twice, and has applied a part of it by then."""
    with pytest.raises(ValueError, match="not a batch"):
        given.table.claim_batch(StatementBatch(verb, claims_of("me", *ids), expires=100, now=1))
    for event_id in ids[:1]:
        assert owner_of(given, event_id) == "a stranger"


def test_an_insert_says_nothing_of_what_is_there(given: Given) -> None:
    """Another's claim, our own, one that has run out: none is touched."""
    insert(given, "other", "theirs")
    insert(given, "me", "mine")
    insert(given, "other", "run out", expires=10)
    ids = ("new", "theirs", "mine", "run out", "new too")
    assert insert(given, "me", *ids, expires=300) == ["me", None, None, None, "me"]
    owners = [given.table.claim(claim, expires=300, now=11).position for claim in claims_of("me", *ids)]
    assert owners == ["me", "other", "me", "me", "me"]


@pytest.mark.parametrize("now", [10, 11])
def test_an_update_tells_whose_it_is(given: Given, now: int) -> None:
    """Ours, another's; nothing of an event that nobody has, nor of a claim that has run out: at 11 that of 10 has."""
    insert(given, "other", "theirs")
    insert(given, "me", "mine")
    insert(given, "other", "runs out", expires=10)
    insert(given, "me", "ours runs out", expires=10)
    ids = ("theirs", "nobody's", "mine", "runs out", "ours runs out")
    told = update(given, "me", *ids, expires=300, now=now)
    assert told == ["other", None, "me", "other" if now == 10 else None, "me"]
    assert owner_of(given, "nobody's") == "a stranger"
    assert owner_of(given, "runs out") == "other"


def test_an_update_renews_our_claim(given: Given) -> None:
    """As the claim alone does; another's keeps its own end."""
    insert(given, "me", "x", expires=10)
    insert(given, "other", "y", expires=10)
    assert update(given, "me", "x", "y", expires=300, now=5) == ["me", "other"]
    stranger = EventClaim("x", "stranger", "d")
    assert given.table.claim(stranger, expires=400, now=300).position == "me"
    assert given.table.claim(stranger, expires=400, now=301).position == "stranger"
    assert given.table.claim(stranger._replace(event_id="y"), expires=400, now=11).position == "stranger"


@pytest.mark.parametrize("verb", VERBS)
def test_a_batch_that_is_sent_again_changes_nothing(given: Given, verb: Verb) -> None:
    """Its own claims are there by then."""
    assert insert(given, "me", "a", "b", "c") == ["me"] * 3
    for _ in range(2):
        assert ask(given, verb, claims_of("me", "a", "b", "c")) == [None if verb == "INSERT" else "me"] * 3
    assert ask(given, verb, claims_of("other", "a", "b", "c")) == [None if verb == "INSERT" else "me"] * 3
    assert [owner_of(given, event_id) for event_id in "abc"] == ["me"] * 3


def test_of_many_batches_at_once_one_wins_each_event(given: Given) -> None:
    """Nobody else is told that it is his, and everybody finds the same owner."""
    ids = [str(number) for number in range(25)]
    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(lambda n: insert(given, f"w{n}", *ids[n:], *ids[:n]), range(8)))
        again = list(pool.map(lambda n: update(given, f"w{n}", *ids), range(8)))
    for number, event_id in enumerate(ids):
        winners = [f"w{n}" for n in range(8) if told[n][(number - n) % 25] is not None]
        assert winners == [owner_of(given, event_id)]
        assert {owners[number] for owners in again} == {*winners}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("fault", ["lose_answers", "refuse_before"])
def test_no_answer_is_no_claim(given: Given, fault: str, verb: Verb) -> None:
    """On either side of the call: asked again, the claims are ours or there, and never another's."""
    claims = claims_of("me", "a", "b")
    if verb == "UPDATE":
        insert(given, "me", "a", "b", expires=10)
    setattr(given.faults, fault, 1)
    with pytest.raises(OutcomeUnknown):
        ask(given, verb, claims)
    is_there = fault == "lose_answers" and verb == "INSERT"
    assert ask(given, verb, claims) == [None if is_there else "me"] * 2
    assert insert(given, "other", "a", "b") == [None] * 2
    assert update(given, "other", "a", "b", now=11) == ["me"] * 2


@pytest.mark.parametrize(
    "event_id",
    [
        "it's \"; DROP ?",
        "a\0b",
        "\U0001f600 é",
        json.dumps("\udc00\ud800\0é"),
        "x" * 512,
        "sha256:" + "0" * 64,
    ],
    ids=["quotes", "NUL", "emoji", "as payloads have it", "512 bytes", "hashed"],
)
def test_any_id_can_be_claimed(given: Given, event_id: str) -> None:
    """None is another's, and a batch knows what a claim alone has written, and the other way round."""
    near = [event_id + " ", event_id + "?", event_id[:-1]]
    assert insert(given, "me", event_id, *near) == ["me"] * 4
    assert owner_of(given, event_id) == "me"
    assert owner_of(given, "'" + event_id) == "a stranger"
    assert insert(given, "other", "'" + event_id, event_id) == [None] * 2
    assert update(given, "other", event_id, *near) == ["me"] * 4


@pytest.mark.parametrize("verb", VERBS)
def test_an_item_above_400_kb_holds_up_no_other(given: Given, verb: Verb) -> None:
    """The batch says nothing of it; alone it is refused."""
    huge = EventClaim("huge", "me", "d" * (400 << 10))
    ids = ("a", "huge", "b") if verb == "UPDATE" else ()
    assert not ids or insert(given, "me", *ids) == ["me"] * 3
    claims = [*claims_of("me", "a"), huge, *claims_of("me", "b")]
    assert ask(given, verb, claims) == ["me", None, "me"]
    with pytest.raises(StoreRefused, match=r"size|long"):
        given.table.claim(huge, expires=100, now=1)


@pytest.mark.parametrize("verb", VERBS)
def test_a_table_that_is_gone_claims_nothing(given: Given, verb: Verb) -> None:
    """Deleted under a running processor: the claim alone says so."""
    assert insert(given, "me", "a", "b") == ["me"] * 2
    given.drop()
    assert ask(given, verb, claims_of("me", "a", "c")) == [None] * 2
    with pytest.raises(StoreRefused):
        given.table.claim(EventClaim("c", "me", "d"), expires=100, now=1)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"owner": {"N": "1"}},
        {"owner": {"S": "other"}, "digest": {"N": "1"}, "expires": {"N": "100"}},
    ],
)
def test_a_foreign_item_is_nobodys_claim(embedded_aws: EmbeddedAws, more: dict[str, Any]) -> None:
    """It is not overwritten, and not believed; the claim alone names it."""
    client = make_claims_client(REGION, embedded_aws.dynamodb_endpoint, PLAIN)
    name = f"dedupe-{new_id()[:8]}"
    given = Given(ready(client, name), ClientFaults(client), lambda: None)
    client.put_item(TableName=name, Item={"id": {"S": "e:x"}, "other": {"S": "1"}, **more})
    assert insert(given, "me", "x", "y") == [None, "me"]
    assert update(given, "me", "x", "y") == [None, "me"]
    with pytest.raises(FormatError, match=r"owner|digest"):
        given.table.claim(EventClaim("x", "me", "d"), expires=100, now=1)


@pytest.mark.parametrize("expires", [{"S": "100"}, {"NULL": True}, None])
def test_a_claim_without_an_end_is_decided_alone(embedded_aws: EmbeddedAws, expires: dict[str, Any] | None) -> None:
    """The condition finds that it has not run out; in a batch nobody says so."""
    client = make_claims_client(REGION, embedded_aws.dynamodb_endpoint, PLAIN)
    name = f"dedupe-{new_id()[:8]}"
    given = Given(ready(client, name), ClientFaults(client), lambda: None)
    item = {"id": {"S": "e:x"}, "owner": {"S": "other"}} | ({} if expires is None else {"expires": expires})
    client.put_item(TableName=name, Item=item)
    assert update(given, "me", "x") == [None]
    assert given.table.claim(EventClaim("x", "me", "d"), expires=100, now=1) == Owner("other", None)


def test_a_role_without_the_rights_claims_one_by_one(embedded_aws: EmbeddedAws) -> None:
    """AWS says so of the request; each claim is made by the request that every version has sent."""
    asked: list[str] = []
    with deny(
        embedded_aws.dynamodb_endpoint, "BatchExecuteStatement", tell=lambda act, _: asked.append(act)
    ) as endpoint:
        client = make_claims_client(REGION, endpoint, PLAIN)
        given = Given(ready(client, f"dedupe-{new_id()[:8]}"), ClientFaults(client), lambda: None)
        with capture_logs() as logs:
            for verb in VERBS:
                assert ask(given, verb, claims_of("me", "a", "b")) == [None, None]
        assert [given.table.claim(claim, expires=9, now=1).position for claim in claims_of("me", "a", "b")] == [
            "me"
        ] * 2
        client.close()
    assert asked.count("BatchExecuteStatement") == 1
    assert [line["event"] for line in logs] == ["claims_one_by_one"]
