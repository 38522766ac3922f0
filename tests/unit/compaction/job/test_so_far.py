"""The last full hour that every shard covers, by names alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from compaction.job.so_far import NoCoveredHour, NoFullHour, part_end
from consumer.stream.port import StreamIdentity
from minutebook.format.day import Day
from minutebook.format.metadata import Continuity
from minutebook.format.minute import MINUTE_MS, iso_time
from minutebook.format.read_mark import MarkKind, ReadMark
from minutebook.owner import read_application
from minutebook.store.places import open_storage
from minutebook.store.storage import Address
from tests.corpus.auditing import job_context
from tests.corpus.model import BEGIN_MS, PREFIX, STREAM_ARN
from tests.fakes.archive_scene import ArchiveScene
from tests.fakes.clock import ManualClock
from tests.fakes.stream import DAY_MS

DAY: Final = Day.parse("2026-11-20")
ONE, TWO, CHILD = (f"shardId-{number:012d}" for number in range(3))
HOUR_MS: Final = 60 * MINUTE_MS


def at(hour: int, minute: float = 0) -> int:
    """Return a time of the day."""
    return int(DAY.begin_ms + hour * HOUR_MS + minute * MINUTE_MS)


class Site:
    """An archive of two shards that began long ago, with a segment each on the day before."""

    def __init__(self, folder: Path, *, begin_ms: int | None = None) -> None:
        self.folder = folder
        self.scene = ArchiveScene(open_storage(Address(None, str(folder))), PREFIX)
        self.scene.settle(StreamIdentity(STREAM_ARN, BEGIN_MS, DAY_MS), start_at_ms=begin_ms)
        self.scene.first(ONE, TWO)
        for shard in (ONE, TWO):
            self.scene.segment(shard, DAY.first_minute - 30)

    def end(self, now_ms: int, published_ms: int = 0) -> int | None:
        """Return the end of the part."""
        context = job_context(self.folder, clock=ManualClock(now_ms))
        return part_end(context, DAY, "covered", read_application(context.archive, PREFIX), published_ms)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Return a site whose first shard is read until 11:01."""
    site = Site(tmp_path)
    site.scene.read_on(ONE, at(11, 1))
    return site


def marked(site: Site, until_ms: int) -> None:
    """Let a mark reach."""
    site.scene.read_on(TWO, until_ms)


def written(site: Site, until_ms: int) -> None:
    """Let a segment reach: it covers up to a minute before its own."""
    site.scene.segment(TWO, until_ms // MINUTE_MS + 1)


@pytest.mark.parametrize("evidence", [marked, written])
@pytest.mark.parametrize(("until_ms", "hour"), [(at(11), 11), (at(11) - MINUTE_MS, 10), (at(9), 9), (at(1), 1)])
def test_every_shard_must_reach_the_hour(
    site: Site, evidence: Callable[[Site, int], None], until_ms: int, hour: int
) -> None:
    """By a read mark, or by a segment of a later minute."""
    evidence(site, until_ms)
    assert site.end(at(11, 25)) == at(hour)


def test_an_hour_must_be_over_for_twenty_minutes(site: Site) -> None:
    """Until then segments of it may be on their way."""
    marked(site, at(11))
    assert (site.end(at(11, 19.9)), site.end(at(11, 20)), site.end(at(12, 10))) == (at(10), at(11), at(11))


def test_a_mark_that_is_not_proven_reaches_nothing(site: Site) -> None:
    """It only begins a new interval; what an audit compared is no mark of a reader either."""
    marked(site, at(9))
    for kind, continuity in ((MarkKind.READ, Continuity.UNPROVEN), (MarkKind.STREAM, Continuity.PROVEN)):
        site.scene.mark(ReadMark(TWO, kind, continuity, at(9), at(11, 1), None, "w"))
    assert site.end(at(11, 25)) == at(9)


def ended(site: Site) -> None:
    """Its end is marked."""
    site.scene.end(TWO, None)


def end_proven(site: Site) -> None:
    """Its end is proven, and end.json comes in a moment."""
    site.scene.read_on(TWO, at(2), kind=MarkKind.END)


@pytest.mark.parametrize("end", [ended, end_proven])
def test_a_shard_that_ended_reaches_every_hour(site: Site, end: Callable[[Site], None]) -> None:
    """Nobody reads it any more."""
    end(site)
    assert site.end(at(11, 25)) == at(11)


@pytest.mark.parametrize(("minute", "hour"), [(0, 11), (-1, 10)])
def test_a_child_is_required_since_it_was_opened(tmp_path: Path, minute: int, hour: int) -> None:
    """Before that its hours are its parents'; it is marked with the next hour."""
    site = Site(tmp_path)
    for shard in (ONE, TWO):
        site.scene.read_on(shard, at(11, 1))
    site.scene.opened(CHILD, (0, 9), ONE, opened_at=iso_time(at(11, minute)))
    assert site.end(at(11, 25)) == at(hour)


def test_a_shard_without_any_evidence_covers_nothing(site: Site) -> None:
    """The error names it, and the next step."""
    with pytest.raises(NoCoveredHour, match=f"{TWO} reaches 2026-11-20T01:00") as caught:
        site.end(at(11, 25))
    assert (caught.value.exit_code, "--so-far TIME" in caught.value.next_step) == (4, True)


def test_no_hour_is_looked_for_before_what_is_published(site: Site) -> None:
    """It would not be published."""
    marked(site, at(9))
    assert site.end(at(11, 25), published_ms=at(8)) == at(9)
    with pytest.raises(NoCoveredHour):
        site.end(at(11, 25), published_ms=at(9))


@pytest.mark.parametrize("now_ms", [at(0, 5), at(1, 19)])
def test_early_in_the_day_there_is_no_full_hour(site: Site, now_ms: int) -> None:
    """A cron each hour must not fail for that."""
    with pytest.raises(NoFullHour) as caught:
        site.end(now_ms)
    assert caught.value.exit_code == 0


def test_the_first_hour_is_one_that_the_application_was_there_in(tmp_path: Path) -> None:
    """It began at half past ten."""
    site = Site(tmp_path, begin_ms=at(10, 30))
    with pytest.raises(NoFullHour):
        site.end(at(11, 10))
    for shard in (ONE, TWO):
        site.scene.read_on(shard, at(11, 1))
    assert site.end(at(11, 20)) == at(11)


@pytest.mark.parametrize(("now_ms", "end_ms"), [(at(24, 19), at(11)), (at(24, 20), None), (at(99), None)])
def test_a_settled_day_is_whole(site: Site, now_ms: int, end_ms: int | None) -> None:
    """However far its shards reach."""
    marked(site, at(11))
    assert site.end(now_ms) == end_ms
