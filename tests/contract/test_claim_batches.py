"""Claims in batches: one suite for the fake and for a real server."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest

from archive.access import PLAIN
from archive.clock import new_id
from archive.errors import FormatError, OutcomeUnknown, StoreRefused
from consumer.dedupe.insertion import Answer, Claim
from consumer.dedupe.table import DedupeTable, DynamoDedupeTable, Owner, make_claims_client
from demo.embedded import REGION, EmbeddedAws
from tests.contract.dedupe_tables import ClientFaults, ready
from tests.fakes.dedupe_table import MemoryDedupeTable

CLAIMED, HELD = Answer.CLAIMED, Answer.HELD


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
    table = ready(DynamoDedupeTable(client, name))
    yield Given(table, ClientFaults(client), lambda: client.delete_table(TableName=name))


def batch(owner: str, *ids: str) -> list[Claim]:
    """Return claims of one owner."""
    return [Claim(event_id, owner, f"digest of {owner}") for event_id in ids]


def owner_of(table: DedupeTable, event_id: str) -> str:
    """Ask as a stranger, when nothing has run out."""
    return table.claim(Claim(event_id, "a stranger", "d"), expires=2, now=1).position


@pytest.mark.parametrize("size", [1, 2, 24, 25])
def test_events_that_nobody_has_claimed_are_claimed(given: Given, size: int) -> None:
    """Each by itself, with owner, digest and expiry, as a claim that is made alone."""
    ids = [str(number) for number in range(size)]
    assert given.table.claim_new(batch("me", *ids), expires=100) == [CLAIMED] * size
    for event_id in ids:
        other = Claim(event_id, "other", "d")
        assert given.table.claim(other, expires=200, now=100) == Owner("me", "digest of me")
        assert given.table.claim(other, expires=200, now=101) == Owner("other", "d")


@pytest.mark.parametrize("ids", [[], [str(number) for number in range(26)], ["x", "y", "x"]])
def test_what_is_no_batch_is_not_sent(given: Given, ids: list[str]) -> None:
    """DynamoDB refuses a batch that names an item twice, and has applied a part of it by then."""
    with pytest.raises(ValueError, match="not a batch"):
        given.table.claim_new(batch("me", *ids), expires=100)
    for event_id in ids[:1]:
        assert owner_of(given.table, event_id) == "a stranger"


def test_each_claim_of_a_batch_is_decided_by_itself(given: Given) -> None:
    """What is there is HELD: another's, our own, one that has run out. The claim alone tells whose it is."""
    given.table.claim_new(batch("other", "theirs"), expires=100)
    given.table.claim_new(batch("me", "mine"), expires=100)
    given.table.claim_new(batch("other", "run out"), expires=10)
    claims = batch("me", "new", "theirs", "mine", "run out", "new too")
    assert given.table.claim_new(claims, expires=300) == [CLAIMED, HELD, HELD, HELD, CLAIMED]
    owners = [given.table.claim(claim, expires=300, now=11).position for claim in claims]
    assert owners == ["me", "other", "me", "me", "me"]


def test_a_batch_that_is_sent_again_changes_nothing(given: Given) -> None:
    """Its own claims are there by then."""
    claims = batch("me", "a", "b", "c")
    assert given.table.claim_new(claims, expires=100) == [CLAIMED] * 3
    assert given.table.claim_new(claims, expires=100) == [HELD] * 3
    assert given.table.claim_new(batch("other", "a", "b", "c"), expires=100) == [HELD] * 3
    assert [given.table.claim(claim, expires=100, now=1).position for claim in claims] == ["me"] * 3


def test_of_many_batches_at_once_one_wins_each_event(given: Given) -> None:
    """Nobody else is told CLAIMED, and everybody finds the same owner."""
    ids = [str(number) for number in range(25)]
    with ThreadPoolExecutor(8) as pool:
        told = list(
            pool.map(lambda n: given.table.claim_new(batch(f"w{n}", *ids[n:], *ids[:n]), expires=100), range(8))
        )
    for number, event_id in enumerate(ids):
        winners = [n for n in range(8) if told[n][(number - n) % 25] is CLAIMED]
        assert [f"w{n}" for n in winners] == [owner_of(given.table, event_id)]


@pytest.mark.parametrize("fault", ["lose_answers", "refuse_before"])
def test_no_answer_is_no_claim(given: Given, fault: str) -> None:
    """On either side of the call: asked again, the claims are ours or there, and never another's."""
    claims = batch("me", "a", "b")
    setattr(given.faults, fault, 1)
    with pytest.raises(OutcomeUnknown):
        given.table.claim_new(claims, expires=100)
    again = given.table.claim_new(claims, expires=100)
    assert again == [HELD if fault == "lose_answers" else CLAIMED] * 2
    assert given.table.claim_new(batch("other", "a", "b"), expires=100) == [HELD] * 2
    assert [given.table.claim(claim, expires=100, now=1).position for claim in claims] == ["me"] * 2


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
    assert given.table.claim_new(batch("me", event_id, *near), expires=100) == [CLAIMED] * 4
    assert owner_of(given.table, event_id) == "me"
    assert owner_of(given.table, "'" + event_id) == "a stranger"
    assert given.table.claim_new(batch("other", "'" + event_id, event_id), expires=100) == [HELD] * 2


def test_an_item_above_400_kb_holds_up_no_other(given: Given) -> None:
    """The batch says nothing of it; alone it is refused."""
    huge = Claim("huge", "o" * (400 << 10), "d")
    claims = [*batch("me", "a"), huge, *batch("me", "b")]
    assert given.table.claim_new(claims, expires=100) == [CLAIMED, HELD, CLAIMED]
    with pytest.raises(StoreRefused, match=r"size|long"):
        given.table.claim(huge, expires=100, now=1)


def test_a_table_that_is_gone_claims_nothing(given: Given) -> None:
    """Deleted under a running processor: the claim alone says so."""
    assert given.table.claim_new(batch("me", "a", "b"), expires=100) == [CLAIMED] * 2
    given.drop()
    assert given.table.claim_new(batch("me", "c", "d"), expires=100) == [HELD] * 2
    with pytest.raises(StoreRefused):
        given.table.claim(Claim("c", "me", "d"), expires=100, now=1)


def test_a_foreign_item_is_nobodys_claim(embedded_aws: EmbeddedAws) -> None:
    """One without an owner is not overwritten, and not believed."""
    client = make_claims_client(REGION, embedded_aws.dynamodb_endpoint, PLAIN)
    name = f"dedupe-{new_id()[:8]}"
    table = ready(DynamoDedupeTable(client, name))
    client.put_item(TableName=name, Item={"id": {"S": "e:x"}, "other": {"S": "1"}})
    assert table.claim_new(batch("me", "x", "y"), expires=100) == [HELD, CLAIMED]
    with pytest.raises(FormatError, match="owner"):
        table.claim(Claim("x", "me", "d"), expires=100, now=1)
