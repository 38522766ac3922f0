"""`cat --follow`: segments as they are committed, each once, in the order of their shard, by few LISTs."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
import pytest

from minutebook.cat.following import Pace
from minutebook.cat.options import CatOptions
from minutebook.cat.request import LATE_MINUTES, CatRequest, checked_request
from minutebook.cut import Cut, encode_cut
from minutebook.errors import SafetyRefusal, SettingsError
from minutebook.format.minute import MINUTE_MS, iso_time
from minutebook.format.position import Position
from minutebook.owner import StreamOwner
from minutebook.store.objects import ListedObject
from tests.fakes.archive_scene import PREFIX
from tests.fakes.clock import ManualClock
from tests.unit.minutebook.cat.reading import NOON, S0, S1, Screen, Site, records

NOW_MS: Final = NOON * MINUTE_MS
Step = Callable[[], object]


class Script(Pace):
    """A pace whose waits take no time: each is a step of a test, and the last one ends it."""

    def __init__(self, *steps: Step) -> None:
        self.time = ManualClock(NOW_MS)
        self._over = threading.Event()
        super().__init__(self.time, self._over, lambda: None)
        self._steps = iter(steps)
        self.waits: list[float] = []

    def wait(self, seconds: float) -> None:
        """Take a step."""
        self.waits.append(seconds)
        self.time.advance(seconds)
        step = next(self._steps, None)
        if step is None:
            self._over.set()
        else:
            step()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Return an empty archive."""
    return Site(tmp_path / "archive")


def followed(site: Site, *steps: Step, minutes: float = LATE_MINUTES, **asked: object) -> str:
    """Follow from so many minutes ago through some steps; returns what was printed."""
    begin = (NOW_MS - int(minutes * MINUTE_MS)) / MINUTE_MS
    end = NOON + 5  # the clock's skew
    return site.cat((begin, end), pace=Script(*steps), follow=True, **asked)


def nothing() -> None:
    """Let a poll pass."""


def test_segments_are_shown_as_they_are_committed(site: Site) -> None:
    """First what is there, then each one once, however often it is listed."""
    site.scene.segment(S0, NOON - 3, records(NOON - 3, 1, "ab"))
    seen: list[bytes] = []
    screen = Screen()

    def commit(minute: int, first: int, payload: str) -> Step:
        def step() -> None:
            seen.append(screen.getvalue())
            site.scene.segment(S0, minute, records(minute, first, payload))

        return step

    printed = followed(
        site, commit(NOON - 2, 10, "c"), nothing, commit(NOON - 1, 20, "d"), nothing, nothing, screen=screen
    )
    assert printed == "a\nb\nc\nd\n"
    assert seen == [b"a\nb\n", b"a\nb\nc\n"]
    assert (site.code, site.told) == (0, [])


def test_without_a_beginning_only_new_segments_are_shown(site: Site) -> None:
    """Of whatever minute: a shard that lags commits old ones."""
    site.scene.segment(S0, NOON - 3, records(NOON - 3, 1, "ab"))
    late = followed(
        site,
        lambda: site.scene.segment(S0, NOON - 50, records(NOON - 50, 10, "c"), after=Position(2)),
        nothing,
        is_from_now=True,
    )
    assert late == "c\n"


def test_one_list_a_poll(site: Site) -> None:
    """Whatever the number of shards and hours; its prefix is what both ends of the window share."""
    for number in range(5):
        site.scene.segment(f"shardId-{number:012d}", NOON - 90 + number, records(NOON - 90 + number, 1, "a"))
    site.store.asked.clear()
    site.store.listed.clear()
    followed(site, nothing, nothing, nothing)

    assert site.store.listed == [f"{PREFIX}2026/11/20/1"] * 5
    assert site.store.asked["GET"] == 5 + 1


def test_segments_older_than_the_window_are_listed_once(site: Site) -> None:
    """By minutes and hours, as without --follow."""
    site.scene.segment(S0, NOON - 400, records(NOON - 400, 1, "a"))
    site.scene.segment(S0, NOON - 20, records(NOON - 20, 10, "b"))

    assert followed(site, nothing, minutes=420) == "a\nb\n"
    assert site.store.listed.count(f"{PREFIX}2026/11/20/1") == 3


def test_what_is_committed_later_than_the_window_is_not_shown(site: Site) -> None:
    """The last minute of it is; the window moves on with the clock."""
    edge = NOON - LATE_MINUTES

    def commit(minute: int, first: int, payload: str) -> Step:
        return lambda: site.scene.segment(S1, minute, records(minute, first, payload), after=Position(1))

    assert followed(site, commit(edge + 1, 10, "a"), commit(edge - 1, 5, "b"), nothing, is_from_now=True) == "a\n"


def test_the_window_does_not_move_over_what_was_never_listed(site: Site) -> None:
    """Somebody stopped the pager for three hours: what was committed meanwhile is shown."""

    def pause() -> None:
        script.time.advance(3 * 3600)
        site.scene.segment(S0, NOON - 110, records(NOON - 110, 10, "a"))

    script = Script(pause, nothing, nothing)
    assert site.cat((NOON - LATE_MINUTES, NOON + 5), pace=script, follow=True) == "a\n"


def test_a_segment_waits_until_all_before_it_are_listed(site: Site) -> None:
    """A LIST of several pages misses what is committed behind the page of its minute: the next one has it."""
    answer = site.store.list_objects

    def torn(prefix: str) -> Iterator[ListedObject]:
        rows = list(answer(prefix))
        if len(rows) == 2:
            site.store.list_objects = answer  # type: ignore[method-assign]
            return iter(rows[1:])  # the first one came behind its page, and before the second
        return iter(rows)

    def commit_both() -> None:
        site.scene.segment(S0, NOON - 2, records(NOON - 2, 1, "a"))
        site.scene.segment(S0, NOON - 1, records(NOON - 1, 10, "b"))
        site.store.list_objects = torn  # type: ignore[method-assign]

    assert followed(site, commit_both, nothing, nothing) == "a\nb\n"
    assert site.told == []


def test_within_a_shard_positions_ascend_also_where_stamps_step_back(site: Site) -> None:
    """The minutes of two segments of a chain may be in the other order."""

    def commit() -> None:
        site.scene.segment(S0, NOON - 1, records(NOON - 1, 1, "a"))
        site.scene.segment(S0, NOON - 2, records(NOON - 2, 10, "b"))

    assert followed(site, commit, nothing) == "a\nb\n"


def test_a_segment_behind_a_later_one_is_shown_and_told(site: Site) -> None:
    """A zombie, in an archive that was written by hand."""
    printed = followed(
        site,
        lambda: site.scene.segment(S0, NOON - 1, records(NOON - 1, 10, "b")),
        nothing,
        lambda: site.scene.segment(S0, NOON - 2, records(NOON - 2, 1, "a"), after=Position(1)),
        nothing,
    )
    assert (printed, site.code) == ("b\na\n", 3)
    assert "its records come late" in site.told[0]


def test_it_composes_with_a_shard_a_key_and_a_limit(site: Site) -> None:
    """And a limit is an end."""

    def commit() -> None:
        site.scene.segment(S0, NOON - 1, records(NOON - 1, 1, "abc"))
        site.scene.segment(S1, NOON - 1, records(NOON - 1, 1, "xyz", key="k"))

    assert followed(site, commit, nothing, shard=S1) == "x\ny\nz\n"
    assert followed(site, nothing, partition_key="k") == "x\ny\nz\n"
    assert followed(site, nothing, limit=2) == "a\nb\n"


def test_behind_a_cut_it_goes_on_where_the_cut_ends(site: Site, tmp_path: Path) -> None:
    """By positions."""
    site.scene.segment(S0, NOON - 1, records(NOON - 1, 1, "abc"))
    at = iso_time((NOON - 1) * MINUTE_MS)
    cut = Cut(stream_arn="a", stream_created_ms=1, at=at, through=at, shards={S0: "2:0"})
    path = tmp_path / "cut.json"
    path.write_bytes(encode_cut(cut))
    asked = request(after=path)

    assert (asked.after, asked.is_from_now, asked.followed_from) == (cut, False, NOON - 1)
    assert followed(site, nothing, after=cut) == "c\n"


def test_parquet_is_whole_when_it_ends(site: Site, tmp_path: Path) -> None:
    """The file gets its name then."""
    out = tmp_path / "some.parquet"
    site.scene.segment(S0, NOON - 1, records(NOON - 1, 1, "ab"))
    followed(site, lambda: out.exists() and pytest.fail("too early"), form="parquet", out=out)
    assert pq.read_table(out)["data"].to_pylist() == ["a", "b"]


def test_an_object_that_is_no_segment_is_told_once(site: Site) -> None:
    """However often it is listed."""
    key = f"{PREFIX}2026/11/20/11/59/readme.txt"
    followed(site, lambda: site.store.put_if_absent(key, b"x", {}, "text/plain"), nothing, nothing)
    assert (site.told, site.code) == ([f"{key}: among the segments, and none by its name"], 3)


def test_another_streams_archive_is_refused_at_once(site: Site) -> None:
    """Not with its first record, which may be long in coming."""
    with pytest.raises(SafetyRefusal):
        followed(site, owner=StreamOwner("another", "us-east-1"))


def test_a_slow_list_makes_polls_rare(site: Site) -> None:
    """Of an archive with thousands of shards most of the time is not spent in LISTs."""
    answer = site.store.list_objects

    def slow(prefix: str) -> Iterator[ListedObject]:
        script.time.advance(4)
        return answer(prefix)

    script = Script(nothing)
    site.store.list_objects = slow  # type: ignore[method-assign]
    site.cat((NOON - LATE_MINUTES, NOON + 5), pace=script, follow=True)
    assert script.waits == [20, 20]


def request(**asked: object) -> CatRequest:
    """Check a request that follows."""
    return checked_request(CatOptions(follow=True, **asked), NOW_MS, lambda: 0)  # type: ignore[arg-type]  # of the options


def test_without_a_time_it_begins_now() -> None:
    """And lists the window alone."""
    asked = request()
    assert (asked.is_from_now, asked.minutes, asked.followed_from) == (
        True,
        range(NOON - 120, NOON - 120),
        NOON - 120,
    )
    asked = request(from_="2026-11-20T09:00Z")
    assert (asked.is_from_now, asked.minutes) == (False, range(NOON - 180, NOON - 120))


@pytest.mark.parametrize("asked", [{"to": "2026-11-21T00:00Z"}, {"before": Path("cut.json")}])
def test_an_end_is_refused(asked: dict[str, object]) -> None:
    """Exit code 2."""
    with pytest.raises(SettingsError, match="--follow has no end") as caught:
        request(**asked)
    assert caught.value.exit_code == 2
