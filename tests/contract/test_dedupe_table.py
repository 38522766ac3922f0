"""The dedupe table: one suite for the fake and for a real server."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from consumer.dedupe.claim_batches import EventClaim, Owner
from consumer.dedupe.table import (
    LONGEST_STATE_BYTES,
    DedupeTable,
    DynamoDedupeTable,
    ShardTail,
    make_claims_client,
    tail_item,
)
from consumer.dedupe.watermarks import Watermarks
from demo.embedded import REGION, EmbeddedAws
from minutebook.aws.access import PLAIN
from minutebook.clock import new_id
from minutebook.errors import FormatError, StoreRefused
from minutebook.format.position import Position
from tests.contract.dedupe_tables import ready
from tests.fakes.dedupe_table import ITEM_BYTES, MemoryDedupeTable


@pytest.fixture(params=["memory", "dynamodb"])
def table(request: pytest.FixtureRequest) -> Iterator[DedupeTable]:
    """Return an empty table of each kind."""
    if request.param == "memory":
        yield MemoryDedupeTable()
        return
    aws: EmbeddedAws = request.getfixturevalue("embedded_aws")
    yield ready(make_claims_client(REGION, aws.dynamodb_endpoint, PLAIN), f"dedupe-{new_id()[:8]}")


def test_the_first_claim_wins_and_keeps_winning(table: DedupeTable) -> None:
    """The owner is told to everybody who comes later, and to itself."""
    one, two = EventClaim("x", "one", "d1"), EventClaim("x", "two", "d2")
    assert table.claim(one, expires=100, now=1) == Owner("one", "d1")
    assert table.claim(two, expires=100, now=1) == Owner("one", "d1")
    assert table.claim(one, expires=100, now=2) == Owner("one", "d1")
    assert table.claim(two._replace(event_id="y"), expires=100, now=2) == Owner("two", "d2")


def test_a_claim_that_has_run_out_can_be_taken(table: DedupeTable) -> None:
    """The condition looks at the expiry itself: DynamoDB deletes late."""
    one, two = EventClaim("x", "one", "d1"), EventClaim("x", "two", "d2")
    assert table.claim(one, expires=10, now=1) == Owner("one", "d1")
    assert table.claim(two, expires=99, now=10) == Owner("one", "d1")
    assert table.claim(two, expires=99, now=11) == Owner("two", "d2")


def test_of_many_claims_at_once_one_wins(table: DedupeTable) -> None:
    """Everybody is told the same owner."""
    with ThreadPoolExecutor(16) as pool:
        for event in range(10):
            names = [f"{event}-{n}" for n in range(16)]
            owners = set(
                pool.map(
                    lambda name, event=event: table.claim(
                        EventClaim(f"e{event}", name, f"d{name}"), expires=100, now=1
                    ),
                    names,
                )
            )
            assert len(owners) == 1
            assert owners < {Owner(name, f"d{name}") for name in names}


def test_a_tail_is_read_back(table: DedupeTable) -> None:
    """Position and watermarks of one shard; another shard has none."""
    state = Watermarks()
    state.take("p", 7, ordered=False)
    table.write_tail("stream/shard", ShardTail(Position(5, 1), state, (29_000_000, Position(3))))
    row = table.read_tail("stream/shard")
    assert row is not None
    assert (row.position, row.slot) == (Position(5, 1), (29_000_000, Position(3)))
    assert row.watermarks is not None
    assert row.watermarks.encode() == state.encode()
    assert table.read_tail("stream/other") is None


@pytest.mark.parametrize("producers", [500, 1000])
def test_a_tail_is_written_whatever_its_state_takes(table: DedupeTable, producers: int) -> None:
    """An item ends at 400 KB: the tail comes back without its watermarks, or with all of them."""
    state = Watermarks()
    for producer in range(producers):
        for number in range(32):
            state.take(f"p{producer}", 10**7 + 2 * number, ordered=False)
    table.write_tail("stream/shard", ShardTail(Position(5), state, (29_000_000, Position(3))))
    row = table.read_tail("stream/shard")
    assert row is not None
    assert (row.position, row.slot) == (Position(5), (29_000_000, Position(3)))
    assert (row.watermarks is None) == (len(state.encode()) > LONGEST_STATE_BYTES)


class _LongPosition(Position):
    """A position whose text is longer than an item may be."""

    def __str__(self) -> str:
        return "5" * ITEM_BYTES


def test_an_item_above_400_kb_is_refused(table: DedupeTable) -> None:
    """Which is why: the row of a state that is too long would end every life of its shard."""
    with pytest.raises(StoreRefused, match="size has exceeded"):
        table.write_tail("stream/shard", ShardTail(_LongPosition(5), None))


@pytest.mark.parametrize("field", ["position", "watermarks", "first"])
def test_a_tail_that_cannot_be_read_is_none(embedded_aws: EmbeddedAws, field: str) -> None:
    """The row is a hint: the archive has what it says. So is one of a version that wrote less."""
    client = make_claims_client(REGION, embedded_aws.dynamodb_endpoint, PLAIN)
    name = f"dedupe-{new_id()[:8]}"
    table = ready(client, name)
    item = tail_item("stream/shard", ShardTail(Position(5), Watermarks(), (29_000_000, Position(3))))
    client.put_item(TableName=name, Item=item | {field: {"S": "rubbish"}})
    assert table.read_tail("stream/shard") is None
    old = {part: item[part] for part in ("id", "position", "watermarks")}
    client.put_item(TableName=name, Item=old)
    row = table.read_tail("stream/shard")
    assert row is not None
    assert (row.position, row.slot) == (Position(5), None)


def test_the_table_is_made_once_with_time_to_live(embedded_aws: EmbeddedAws) -> None:
    """On-demand billing, `expires` as time to live; asking again changes nothing."""
    client = make_claims_client(REGION, embedded_aws.dynamodb_endpoint, PLAIN)
    name = f"dedupe-{new_id()[:8]}"
    assert ready(client, name, sweeps=True).ensure()
    described = client.describe_table(TableName=name)["Table"]
    assert described["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    ttl = client.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    assert (ttl["TimeToLiveStatus"], ttl["AttributeName"]) == ("ENABLED", "expires")


def test_a_foreign_item_is_an_error_that_names_it(embedded_aws: EmbeddedAws) -> None:
    """An item without an owner is nobody's claim: it must not pass for one."""
    client = make_claims_client(REGION, embedded_aws.dynamodb_endpoint, PLAIN)
    name = f"dedupe-{new_id()[:8]}"
    table = ready(client, name)
    client.put_item(TableName=name, Item={"id": {"S": "e:x"}, "other": {"S": "1"}})
    with pytest.raises(FormatError, match="owner"):
        table.claim(EventClaim("x", "one", "d"), expires=100, now=1)


def test_a_claim_of_before_there_were_digests_has_none(embedded_aws: EmbeddedAws) -> None:
    """Its owner is told all the same."""
    client = make_claims_client(REGION, embedded_aws.dynamodb_endpoint, PLAIN)
    name = f"dedupe-{new_id()[:8]}"
    table = ready(client, name)
    client.put_item(TableName=name, Item={"id": {"S": "e:x"}, "owner": {"S": "old"}, "expires": {"N": "100"}})
    assert table.claim(EventClaim("x", "one", "d"), expires=200, now=1) == Owner("old", None)


def test_a_missing_table_is_refused_with_the_next_step(embedded_aws: EmbeddedAws) -> None:
    """A table that was deleted under a running processor is no outage to wait for."""
    client = make_claims_client(REGION, embedded_aws.dynamodb_endpoint, PLAIN)
    with pytest.raises(StoreRefused) as caught:
        DynamoDedupeTable(client, "nobody-made-this").claim(EventClaim("x", "one", "d"), expires=100, now=1)
    assert caught.value.next_step
