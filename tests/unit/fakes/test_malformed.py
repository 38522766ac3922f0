"""The generator of malformed aggregates: what its kinds really do, by our reader of aggregates."""

import random
from collections import defaultdict

import pytest

from minutebook.format.aggregate import LAST_HASH_KEY, DeliveredAggregate, Fault, HashRange, deaggregate
from tests.fakes.malformed import BOMBS, KINDS, Aim, Deck, Drawn, key_in

_HOME = HashRange(LAST_HASH_KEY // 4, LAST_HASH_KEY // 2)
_AIM = Aim(key_in(_HOME), key_in(HashRange(0, LAST_HASH_KEY // 8)), _HOME)
_MOST_BYTES = 1 << 20
"""What Kinesis takes."""


def _draw(seed: int, count: int) -> list[Drawn]:
    deck = Deck(random.Random(seed))
    return [deck.draw(_AIM) for _ in range(count)]


@pytest.fixture(scope="module")
def drawn() -> dict[str, list[tuple[bytes, DeliveredAggregate]]]:
    """Draw some thousands, as a run does."""
    found: dict[str, list[tuple[bytes, DeliveredAggregate]]] = defaultdict(list)
    for kind, data in _draw(seed=1, count=2_000):
        found[kind].append((data, deaggregate(_AIM.key, data, _HOME)))
    return found


def test_a_seed_draws_the_same_again() -> None:
    """A run can be repeated."""
    first, second, other = (_draw(seed=seed, count=300) for seed in (7, 7, 8))
    assert first == second != other


def test_every_kind_is_drawn_and_fits_into_a_record(drawn: dict[str, list[tuple[bytes, DeliveredAggregate]]]) -> None:
    """And few payloads are drawn twice."""
    assert set(drawn) == {*KINDS, *BOMBS}
    assert all(len(data) <= _MOST_BYTES for found in drawn.values() for data, _ in found)
    assert len({data for found in drawn.values() for data, _ in found}) > 1_500


@pytest.mark.parametrize(
    "kind",
    ["first record malformed", "index outside its table", "index beyond 2^32", "hash key that is no number"],
)
def test_what_is_malformed_for_kcl(drawn: dict[str, list[tuple[bytes, DeliveredAggregate]]], kind: str) -> None:
    """At least some of a kind run into the place where KCL gives up."""
    assert {delivery.fault for _, delivery in drawn[kind]} >= {Fault.MALFORMED}


@pytest.mark.parametrize("kind", ["hash key outside the shard", "another shard's key"])
def test_what_belongs_to_another_shard(drawn: dict[str, list[tuple[bytes, DeliveredAggregate]]], kind: str) -> None:
    """Nothing of it is delivered."""
    assert {(delivery.fault, len(delivery.delivered)) for _, delivery in drawn[kind]} == {(Fault.OUTSIDE_SHARD, 0)}


@pytest.mark.parametrize("kind", ["wrong checksum", "cut off"])
def test_what_is_no_aggregate_is_a_plain_record(
    drawn: dict[str, list[tuple[bytes, DeliveredAggregate]]], kind: str
) -> None:
    """It is delivered as it is."""
    assert all([user.data for user in delivery.delivered] == [data] for data, delivery in drawn[kind])


@pytest.mark.parametrize("kind", ["groups", "unknown fields", "tags twice", "changed bytes, then sealed"])
def test_what_is_odd_is_now_delivered_in_parts_and_now_whole(
    drawn: dict[str, list[tuple[bytes, DeliveredAggregate]]], kind: str
) -> None:
    """Whether protobuf takes it or not decides: both are drawn."""
    whole = {[user.data for user in delivery.delivered] == [data] for data, delivery in drawn[kind]}
    assert whole == {True, False}


def test_no_record_is_nothing(drawn: dict[str, list[tuple[bytes, DeliveredAggregate]]]) -> None:
    """Neither delivered nor withheld."""
    assert all(not delivery.delivered and not delivery.withheld for _, delivery in drawn["no record"])


def test_a_bomb_is_delivered_in_parts_below_the_bound_and_whole_above(
    drawn: dict[str, list[tuple[bytes, DeliveredAggregate]]],
) -> None:
    """What KCL alone would make of the large ones does not fit into a small container."""
    small, large = (drawn[kind] for kind in ("key bomb", "key bomb beyond the bound"))
    assert all(len(delivery.delivered) >= 250 for _, delivery in small)
    assert all([user.data for user in delivery.delivered] == [data] for data, delivery in large)
