"""Which shards there are."""

import pytest

from minutebook.coverage.frontier import find_frontier
from minutebook.coverage.topology import (
    ShardRow,
    ShardSources,
    Topology,
    first_rows,
    hash_range_of,
    marked_rows,
    uncovered_ranges,
)
from minutebook.errors import FormatError
from minutebook.format.aggregate import LAST_HASH_KEY, HashRange
from minutebook.format.coverage_markers import FirstShard, FirstShards, OpenedMarker
from minutebook.format.markers import EndMarker, StartMarker
from tests.unit.minutebook.coverage.scene import row


@pytest.mark.parametrize(
    ("sources", "first"),
    [
        (ShardSources(), []),
        (ShardSources(first=(row("a"), row("b"))), ["a", "b"]),
        (ShardSources(first=(row("a", "older"), row("b", "older"))), ["a", "b"]),
        (ShardSources(first=(row("a"), row("b", "a"), row("c", "b"))), ["a"]),
        (ShardSources(first=(row("a"),), marked=(row("b", "a"), row("x")), listed=(row("y"),)), ["a"]),
        (ShardSources(marked=(row("b", "a"),), listed=(row("c", "b"), row("d", "x"))), ["b", "d"]),
        (ShardSources(leased=(row("a"),)), []),
        (ShardSources(first=(row("a"), row("b")), listed=(row("b", "a"),)), ["a"]),
    ],
)
def test_first_shards_are_those_without_a_known_parent(sources: ShardSources, first: list[str]) -> None:
    """Of first.json, or of ListShards and the markers where there is none; parents that nobody knows are none."""
    assert Topology(sources).first_shards == first


@pytest.mark.parametrize(
    "sources",
    [
        ShardSources(listed=(row("a"), row("b", "a"))),
        ShardSources(marked=(row("b", "a"),)),
        ShardSources(leased=(row("b", "a"),)),
        ShardSources(marked=(ShardRow("a", children=frozenset({"b"})),)),
        ShardSources(leased=(ShardRow("a", children=frozenset({"b"})),)),
        ShardSources(first=(row("a"), row("b", "a"))),
    ],
)
def test_every_source_tells_of_children(sources: ShardSources) -> None:
    """By the child's parents or the parent's children."""
    topology = Topology(sources)
    assert (topology.children("a"), topology.parents("b")) == (["b"], {"a"})


@pytest.mark.parametrize(
    ("sources", "over", "is_open"),
    [
        (ShardSources(), None, False),
        (ShardSources(listed=(row("a"),)), False, True),
        (ShardSources(listed=(row("a"),), closed=frozenset({"a"})), True, False),
        (ShardSources(listed=()), True, False),
        (ShardSources(ended=frozenset({"a"})), True, False),
        (ShardSources(listed=(row("a"),), ended=frozenset({"a"})), True, True),
    ],
)
def test_a_shard_is_over_when_it_ended_or_is_not_listed(
    *, sources: ShardSources, over: bool | None, is_open: bool
) -> None:
    """Without ListShards and end.json nothing tells."""
    topology = Topology(sources)
    assert (topology.is_over("a"), topology.is_listed_open("a")) == (over, is_open)


def test_ancestors_are_all_that_lie_before() -> None:
    """Through however many rows."""
    topology = Topology(ShardSources(marked=(row("c", "b"), row("b", "a", "z"), row("d", "x"))))
    assert topology.ancestors(["c"]) == {"a", "b", "z"}


@pytest.mark.parametrize(
    ("rows", "circles", "parents", "children"),
    [
        ((row("c", "b"), row("b", "a")), [], {"b"}, []),
        ((row("c", "b", "c"),), [{"c"}], {"b"}, []),
        ((row("c", "b"), row("b", "a"), row("a", "c"), row("d", "c")), [{"a", "b", "c"}], set(), ["d"]),
        ((row("c", "d", "p"), row("d", "c", "p"), row("x", "x")), [{"c", "d"}, {"x"}], {"p"}, []),
    ],
)
def test_rows_that_close_a_circle_are_not_believed(
    rows: tuple[ShardRow, ...], circles: list[set[str]], parents: set[str], children: list[str]
) -> None:
    """What leads into it and out of it stands."""
    topology = Topology(ShardSources(marked=rows))
    assert (topology.circles, topology.parents("c"), topology.children("c")) == (circles, parents, children)


def ranges(*pairs: tuple[int, int]) -> list[HashRange]:
    """Return ranges."""
    return [HashRange(*pair) for pair in pairs]


@pytest.mark.parametrize(
    ("parts", "left"),
    [
        ([], [(2, 8)]),
        ([(2, 8)], []),
        ([(0, 9)], []),
        ([(2, 4), (5, 8)], []),
        ([(6, 8), (2, 4)], [(5, 5)]),
        ([(0, 1), (9, 9), (4, 5), (3, 4)], [(2, 2), (6, 8)]),
        ([(2, 8), (3, 4)], []),
    ],
)
def test_what_the_children_leave_open(parts: list[tuple[int, int]], left: list[tuple[int, int]]) -> None:
    """Of the keys from 2 to 8."""
    assert list(uncovered_ranges(HashRange(2, 8), ranges(*parts))) == ranges(*left)


def test_hash_keys_are_read_as_list_shards_writes_them() -> None:
    """A marker may have been written without them."""
    assert hash_range_of("0", str(LAST_HASH_KEY)) == HashRange(0, LAST_HASH_KEY)
    assert hash_range_of("", "") is None


@pytest.mark.parametrize(
    ("first", "last"),
    [("", "1"), ("2", "1"), ("0", str(LAST_HASH_KEY + 1)), ("-1", "1"), ("\u0661", "2"), ("9" * 5000, "9")],
)
def test_what_is_no_range_is_an_error(first: str, last: str) -> None:
    """Backwards, too large, signed, other digits."""
    with pytest.raises(FormatError):
        hash_range_of(first, last)


def test_markers_tell_of_ranges_parents_and_children() -> None:
    """And ids that have no marker are known all the same."""
    start = StartMarker(
        format=1,
        shard="a",
        sentinel="TRIM_HORIZON",
        first="1:0",
        starting_hash_key="0",
        ending_hash_key="9",
        parents=["p"],
        writer="w",
        written_at="",
    )
    opened = OpenedMarker(
        format=1,
        shard="b",
        sentinel="TRIM_HORIZON",
        starting_hash_key="",
        ending_hash_key="",
        parents=["a"],
        writer="w",
        opened_at="",
    )
    end = EndMarker(format=1, shard="a", last=None, children=["b"], proof="read", writer="w", written_at="")
    assert set(marked_rows(["c"], {"a": start}, {"b": opened}, {"a": end})) == {
        row("c"),
        ShardRow("a", HashRange(0, 9), frozenset({"p"})),
        row("b", "a"),
        ShardRow("a", children=frozenset({"b"})),
    }


def test_first_json_tells_of_ranges_and_parents() -> None:
    """As ListShards gave them."""
    shard = FirstShard(shard="a", starting_hash_key="0", ending_hash_key="9", parents=["p"])
    marker = FirstShards(format=1, shards=[shard], writer="w", written_at="")
    assert first_rows(marker) == (ShardRow("a", HashRange(0, 9), frozenset({"p"})),)


def test_a_stream_that_is_split_and_merged_for_years_is_as_soon_known() -> None:
    """There are two ways through each split and merge, so a thousand of them have more than there are atoms.

    Nobody has read any of these shards; a walk of each way, or in the call stack of one, would not end.
    """
    rows, newest = [row("s0000")], "s0000"
    for number in range(1, 1_001):
        halves = (f"a{number:04d}", f"b{number:04d}")
        rows += [row(half, newest) for half in halves]
        newest = f"s{number:04d}"
        rows.append(row(newest, *halves))
    topology = Topology(ShardSources(first=(rows[0],), marked=tuple(rows[1:]), listed=(row(newest),)))
    assert topology.circles == []
    found = find_frontier(topology, {}, begin_ms=0, end_ms=1_000)
    assert {"s0000", "a0001", "b0001"} <= found.shards.keys()
