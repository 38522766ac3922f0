"""`expire` judges a day once more before its segments go, and keeps what was proven for the days around it."""

import msgspec
import pytest

from minutebook.coverage.intervals import Interval
from minutebook.coverage.verdict import State
from minutebook.format.coverage_markers import SkippedMarker, encode_coverage_marker, skipped_key
from minutebook.format.document import FORMAT
from minutebook.format.keys import application_key
from minutebook.format.markers import ApplicationRecord, decode_marker, encode_marker
from minutebook.format.metadata import Continuity
from minutebook.format.minute import MINUTE_MS
from minutebook.format.tombstone import tombstone_key
from minutebook.proof.evidence_set import ProofQuery
from minutebook.proof.reading import judge_archive
from tests.fakes.archive_scene import PREFIX
from tests.fakes.expire_scene import DAY, S0, TODAY, ExpireScene, day_of, old_day
from tests.fakes.stream import DAY_MS


def state_of(scene: ExpireScene, days_ago: int) -> State:
    """Judge a day by what is in the archive now."""
    begin_ms = (TODAY - days_ago * DAY) * MINUTE_MS
    query = ProofQuery(Interval(begin_ms, begin_ms + DAY_MS), scene.begin_ms, scene.clock.now_ms())
    return judge_archive(scene.retrying, PREFIX, query).verdict.state


@pytest.mark.parametrize("rate", [1000, None], ids=["apply", "dry run"])
def test_a_clean_day_that_is_not_proven_any_more_stays(rate: int | None) -> None:
    """A segment of it says that records were lost before it: the verdict is older than that, or never looked."""
    scene = ExpireScene()
    scene.add(40, 0)
    scene.begin(S0)
    doubtful = scene.segment(S0, TODAY - 40 * DAY + 1, continuity=Continuity.UNPROVEN, writer="w-2").key
    scene.add(30)
    scene.publish(40)
    code, text = scene.expire(rate=rate)
    assert code == 6
    assert "is not proven to be archived (reading resumed so late" in text
    assert doubtful in scene.raw()
    assert scene.bucket.keys(tombstone_key(PREFIX, day_of(40))) == []


def test_a_day_of_which_a_batch_was_skipped_stays() -> None:
    """The supervisor stored a marker after the day was published."""
    scene, old, _ = old_day()
    logged_ms = (TODAY - 40 * DAY + 2) * MINUTE_MS
    marker = SkippedMarker(
        format=FORMAT,
        shard=S0,
        logged_at_ms=logged_ms,
        message="x",
        writer="w",
        written_at="2026-10-12T00:02:00.000Z",
    )
    scene.bucket.place(skipped_key(PREFIX, S0, logged_ms, "w"), encode_coverage_marker(marker))
    code, text = scene.expire()
    assert (code, scene.raw()[: len(old)]) == (6, old)
    assert "KCL told of records that it skipped" in text


def test_the_days_around_an_expired_one_stay_proven() -> None:
    """The next segment stands on one that is gone, ten days before it: the tombstone says how far that reached."""
    scene, old, _ = old_day()
    before = [state_of(scene, days_ago) for days_ago in (41, 39, 35, 32)]
    assert scene.expire()[0] == 0
    assert not set(old) & set(scene.raw())
    after = [state_of(scene, days_ago) for days_ago in (41, 39, 35, 32)]
    assert before == after == [State.COVERED] * 4


def test_a_day_that_ended_before_the_archive_begins_stays() -> None:
    """Nobody archived it: nothing of it was ever judged, whatever was published."""
    scene, old, _ = old_day()
    key = application_key(PREFIX)
    record = decode_marker(scene.bucket.body(key), ApplicationRecord, key)
    begin_ms = (TODAY - 39 * DAY) * MINUTE_MS
    scene.bucket.place(key, encode_marker(msgspec.structs.replace(record, start_at_ms=begin_ms)))
    code, text = scene.expire()
    assert (code, scene.raw()[: len(old)]) == (6, old)
    assert "the archive begins after it" in text


def test_what_is_left_of_an_expired_day_goes_without_another_judgement() -> None:
    """It was judged before the tombstone was written; its segments are gone, and nothing could be proven now."""
    scene, old, _ = old_day()
    scene.deleter.before = stop
    with pytest.raises(KeyboardInterrupt):
        scene.expire()
    scene.deleter.before = None
    scene.bucket.delete(old[0])
    assert scene.expire()[0] == 0
    assert not set(old) & set(scene.raw())


def stop(_keys: object) -> None:
    """Be killed before a delete."""
    raise KeyboardInterrupt
