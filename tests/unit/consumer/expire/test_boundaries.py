"""`expire` and boundaries: those of expired days go, and never what readers and publishers begin with."""

import pytest

from minutebook.completeness.objects import BoundaryObjects
from minutebook.completeness.query import read_completeness
from minutebook.errors import FormatError
from minutebook.format.boundaries import (
    CompleteMarker,
    NamedGap,
    RowsObject,
    ShardRow,
    Since,
    Withdrawal,
    encode_boundary,
    marker_key,
    rows_key,
    since_key,
    success_key,
    withdrawal_key,
)
from minutebook.format.minute import MINUTE_MS, iso_time
from tests.fakes.archive_scene import PREFIX
from tests.fakes.clock import START_MS
from tests.fakes.expire_scene import DAY, S0, TODAY, ExpireScene

HOUR_MS = 60 * MINUTE_MS
SINCE_MS = (TODAY - 90 * DAY) * MINUTE_MS


def at(days_ago: int, hour: int = 10) -> int:
    """Return an hour of a day in epoch milliseconds."""
    return (TODAY - days_ago * DAY) * MINUTE_MS + hour * HOUR_MS


def add_boundary(scene: ExpireScene, time_ms: int) -> list[str]:
    """Put rows, a marker and a finished hour; returns their keys."""
    rows = RowsObject(worker="w", run="run", rows={S0: [ShardRow(time_ms - HOUR_MS, time_ms, time_ms, None)]})
    marker = CompleteMarker(since=iso_time(SINCE_MS), boundary=iso_time(time_ms), shards={}, gaps=(), writer="run")
    written = {
        rows_key(PREFIX, time_ms, "run", time_ms + 1): encode_boundary(rows),
        marker_key(PREFIX, time_ms): encode_boundary(marker),
        success_key(PREFIX, time_ms - HOUR_MS): b"",
    }
    for key, body in written.items():
        scene.bucket.place(key, body)
    return list(written)


def withdraw(scene: ExpireScene, time_ms: int) -> str:
    """Put a withdrawal of a boundary; returns its key."""
    gap = NamedGap.of(S0, time_ms - HOUR_MS, time_ms, ["skipped"])
    withdrawal = Withdrawal(boundary=iso_time(time_ms), gaps=(gap,), why="a test")
    key = withdrawal_key(PREFIX, withdrawal)
    scene.bucket.place(key, encode_boundary(withdrawal))
    return key


@pytest.fixture
def scene() -> ExpireScene:
    """Return an archive with a day that can be expired, and a segment of a newer day."""
    found = ExpireScene()
    found.add(40)
    found.add(40, 1)
    found.add(30)
    found.publish(40)
    found.bucket.place(since_key(PREFIX), encode_boundary(Since(since=iso_time(SINCE_MS), writer="run")))
    return found


def test_the_boundaries_of_an_expired_day_go(scene: ExpireScene) -> None:
    """Rows, markers, withdrawals and finished hours of that day alone, and with the segments, not before."""
    old = [*add_boundary(scene, at(40)), *add_boundary(scene, at(40, 23)), withdraw(scene, at(40))]
    kept = [*add_boundary(scene, at(41)), *add_boundary(scene, at(30)), *add_boundary(scene, at(0))]
    anew = since_key(PREFIX, at(41))
    scene.bucket.place(anew, encode_boundary(Since(since=iso_time(at(40)), writer="run")))

    code, text = scene.expire()
    left = set(scene.bucket.keys(PREFIX))

    assert (code, "7 object(s) about boundaries were deleted" in text) == (0, True)
    assert (left & set(old), left >= {*kept, since_key(PREFIX), anew}) == (set(), True)


def test_without_apply_no_boundary_is_deleted(scene: ExpireScene) -> None:
    """What an earlier run left is shown."""
    add_boundary(scene, at(0))
    scene.expire()
    left = add_boundary(scene, at(40))

    assert "3 object(s) about boundaries would be deleted, too" in scene.expire(rate=None)[1]
    assert set(left) <= set(scene.bucket.keys(PREFIX))


def test_the_newest_marker_stays_however_old_it_is(scene: ExpireScene) -> None:
    """And what may not be in it yet: readers begin with it when nobody has published for long."""
    newest = [*add_boundary(scene, at(40)), withdraw(scene, at(40, 9)), withdraw(scene, at(40))]
    scene.expire()
    assert set(newest) <= set(scene.bucket.keys(PREFIX))

    known = read_completeness(BoundaryObjects(scene.retrying, PREFIX), START_MS)
    assert known is not None
    assert (known.until_ms, len(known.gaps)) == (at(40), 2)


def test_what_a_newer_marker_may_not_contain_stays(scene: ExpireScene) -> None:
    """Publishers look for withdrawals of the last 26 hours."""
    old = [withdraw(scene, at(40, 23)), *add_boundary(scene, at(40, 23))]
    add_boundary(scene, at(38, 0))
    scene.expire()
    assert set(old) <= set(scene.bucket.keys(PREFIX))

    add_boundary(scene, at(38, 3))
    scene.expire()
    assert not set(old) & set(scene.bucket.keys(PREFIX))


def test_rows_of_an_archive_without_a_marker_go(scene: ExpireScene) -> None:
    """A worker of an older version held all boundaries, and nobody reads rows of that time."""
    rows, *others = add_boundary(scene, at(40))
    for key in others:
        scene.bucket.delete(key)
    scene.expire()
    assert rows not in scene.bucket.keys(PREFIX)


def test_boundaries_of_a_refused_day_stay(scene: ExpireScene) -> None:
    """They speak of segments that are there."""
    add_boundary(scene, at(0))
    scene.add(35)
    scene.publish(35, "defects")
    kept = add_boundary(scene, at(35))
    assert scene.expire()[0] == 6
    assert set(kept) <= set(scene.bucket.keys(PREFIX))


def test_boundaries_of_a_day_without_segments_stay_without_tombstone(scene: ExpireScene) -> None:
    """Nobody has judged such a day."""
    add_boundary(scene, at(0))
    kept = add_boundary(scene, at(36))
    scene.expire()
    assert set(kept) <= set(scene.bucket.keys(PREFIX))


def test_boundaries_of_a_day_with_a_damaged_tombstone_stay(scene: ExpireScene) -> None:
    """Whether the day is expired is not known."""
    add_boundary(scene, at(0))
    scene.expire()
    kept = add_boundary(scene, at(40))
    (tombstone,) = scene.bucket.keys(f"{PREFIX}_expired/")
    scene.bucket.place(tombstone, b"{")
    scene.expire()
    assert set(kept) <= set(scene.bucket.keys(PREFIX))


def test_foreign_objects_among_boundaries_stay(scene: ExpireScene) -> None:
    """They are somebody's."""
    rows, marker, success = add_boundary(scene, at(40))
    add_boundary(scene, at(0))
    foreign = [
        f"{rows}.bak",
        f"{marker}.bak",
        f"{success}.bak",
        f"{PREFIX}_complete/notes.txt",
        f"{PREFIX}_until/x/y",
    ]
    for key in foreign:
        scene.bucket.place(key, b"")
    scene.expire()
    left = scene.bucket.keys(PREFIX)
    assert (set(foreign) <= set(left), {rows, marker, success} & set(left)) == (True, set())


def test_a_run_that_was_killed_among_boundaries_is_ended_by_the_next(scene: ExpireScene) -> None:
    """The segments are gone by then, and the tombstone stays."""
    add_boundary(scene, at(0))
    old = add_boundary(scene, at(40))

    def crash(keys: object) -> None:
        if old[0] in list(keys):  # type: ignore[call-overload]
            raise FormatError("crash")

    scene.deleter.before = crash
    with pytest.raises(FormatError, match="crash"):
        scene.expire()
    scene.deleter.before = None
    scene.expire()
    assert not set(old) & set(scene.bucket.keys(PREFIX))
