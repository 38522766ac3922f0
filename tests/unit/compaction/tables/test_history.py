"""Which snapshots a table's current one was made from, and which of them may expire."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from compaction.tables.history import branch_of, expirable


def _snapshot(number: int, parent: int | None, *, day: str = "d", by: str = "follow") -> Any:  # noqa: ANN401 - pyiceberg's
    said = {"minutebook.day": day, "minutebook.by": by}
    return SimpleNamespace(
        snapshot_id=number * 10,
        parent_snapshot_id=None if parent is None else parent * 10,
        sequence_number=number,
        timestamp_ms=number * 1000,
        summary=SimpleNamespace(additional_properties=said),
    )


def _table(snapshots: Sequence[Any], log: Sequence[int]) -> Any:  # noqa: ANN401 - pyiceberg's
    by_id = {each.snapshot_id: each for each in snapshots}
    current = by_id[log[-1] * 10]
    return SimpleNamespace(
        snapshots=list(snapshots),
        snapshot_log=[SimpleNamespace(snapshot_id=number * 10) for number in log],
        refs={"main": SimpleNamespace(snapshot_id=current.snapshot_id)},
        current_snapshot=lambda: current,
        snapshot_by_id=by_id.get,
    )


def _branch(table: Any) -> list[int]:  # noqa: ANN401 - pyiceberg's
    return [snapshot.sequence_number for snapshot in branch_of(table)]


def test_parents_lead_back() -> None:
    """Not to what a rollback has left."""
    snapshots = [_snapshot(1, None), _snapshot(2, 1), _snapshot(3, 2), _snapshot(4, 1)]
    assert _branch(_table(snapshots, [1, 2, 3, 1, 4])) == [4, 1]


def test_where_a_parent_has_expired_the_next_lower_number_does() -> None:
    """Whether its number was taken away, as pyiceberg does, or not."""
    for parent in (None, 2):
        snapshots = [_snapshot(1, None), _snapshot(3, parent), _snapshot(4, 3)]
        assert _branch(_table(snapshots, [1, 3, 4])) == [4, 3, 1]


def test_what_a_rollback_has_left_is_no_parent() -> None:
    """By the log of what was current."""
    snapshots = [_snapshot(1, None), _snapshot(2, 1), _snapshot(3, 2), _snapshot(5, None)]
    assert _branch(_table(snapshots, [1, 2, 3, 1, 5])) == [5, 1]


def test_what_a_rollback_has_left_stays_left_when_snapshots_expire() -> None:
    """Whether those that it was set back to would take their lines of the log along, or their child its parent."""
    snapshots = [
        _snapshot(1, None, day="a", by="night"),
        _snapshot(2, 1),
        _snapshot(3, 2),
        _snapshot(4, 3, day="a", by="night"),
        *(_snapshot(number, 3 if number == 5 else number - 1) for number in (5, 6, 7)),
    ]
    table = _table(snapshots, [1, 2, 3, 4, 3, 5, 6, 7])
    assert expirable(table, 10_000) == [20, 60]
    left = [each for each in snapshots if each.snapshot_id not in {20, 60}]
    left[1].parent_snapshot_id = left[-1].parent_snapshot_id = None  # as pyiceberg does
    assert _branch(_table(left, [7])) == [7, 5, 3, 1]


def test_only_follows_own_old_snapshots_expire_and_no_days_newest() -> None:
    """Nor what a branch or a tag names."""
    snapshots = [
        _snapshot(1, None, day="a"),
        _snapshot(2, 1, day="a"),
        _snapshot(3, 2, day="b", by="night"),
        _snapshot(4, 3, day="b"),
        _snapshot(5, 4, day="b"),
        _snapshot(6, 5, day="b"),
        _snapshot(7, 6, day="b"),
    ]
    table = _table(snapshots, [1, 2, 3, 4, 5, 6, 7])
    table.refs["tag"] = SimpleNamespace(snapshot_id=40)
    assert expirable(table, 10_000) == [10, 50, 60]
    assert expirable(table, 6_000) == [10, 50]
