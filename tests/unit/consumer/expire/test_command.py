"""`expire`: what is deleted, what stays, what is written down before, and how a run that was cut short is ended."""

import json
from collections.abc import Sequence

import pytest

from consumer.archived.chain_ends import find_ends
from consumer.expire.command import expiry_age_ms, newest_day
from consumer.expire.published_day import read_judged_generation
from minutebook.errors import OutcomeUnknown, SafetyRefusal, SettingsError, StoreUnavailable
from minutebook.format.minute import MINUTE_MS
from minutebook.format.tombstone import ExpiredRun, tombstone_key
from tests.fakes.archive_scene import PREFIX
from tests.fakes.expire_scene import DAY, OUT, S0, S1, TODAY, ExpireScene, day_of, old_day
from tests.fakes.memory_store import EndlessFault, Fault, PlannedFaults
from tests.fakes.stream import DAY_MS


def test_a_clean_old_day_is_deleted() -> None:
    """What is newer stays."""
    scene, _, new = old_day()
    assert scene.expire()[0] == 0
    assert scene.raw() == [new]


def test_without_apply_nothing_changes() -> None:
    """The plan is shown."""
    scene, old, new = old_day()
    before = scene.bucket.keys()
    code, text = scene.expire(rate=None)
    assert (code, scene.bucket.keys()) == (0, before)
    assert str(day_of(40)) in text
    assert scene.raw() == [*old, new]


def test_the_tombstone_names_the_chains_ends() -> None:
    """Where the day's run began, what it followed, where it ended; and what was proven, up to the day's end."""
    scene, _, _ = old_day()
    scene.expire()
    found = scene.tombstone(40)
    begin_ms, until_ms = (TODAY - 40 * DAY) * MINUTE_MS, (TODAY - 30 * DAY - 1) * MINUTE_MS
    assert found.shards[S0].runs == [
        ExpiredRun(
            after="TRIM_HORIZON",
            first="1000:0",
            last="1025:2",
            segments=3,
            until_ms=begin_ms + MINUTE_MS,
            writer="w-1",
            from_ms=scene.begin_ms,
            arrival_min_ms=begin_ms,
        )
    ]
    assert found.shards[S0].proven == [(scene.begin_ms, until_ms)]
    assert (found.segments, found.generation, found.shards[S0].kept) == (3, "g1", [])
    published = read_judged_generation(scene.retrying, OUT, day_of(40))
    assert published is not None
    assert found.manifest == published.manifest != ""


def test_a_chain_that_steps_back_over_midnight_has_two_runs() -> None:
    """A segment of the next day lies between."""
    scene = ExpireScene()
    for days_ago, minute in ((40, 1438), (39, 0), (40, 1439), (38, 0)):
        scene.add(days_ago, minute)
    scene.publish(40)
    scene.expire(older_than="39d")
    runs = scene.tombstone(40).shards[S0].runs
    assert [(run.after, run.last) for run in runs] == [("TRIM_HORIZON", "1005:2"), ("1015:2", "1025:2")]


@pytest.mark.parametrize(("minute", "later"), [(1360, 540), (1360, 2), (1438, 0), (1438, 540)])
def test_a_day_is_expired_in_the_run_that_expires_the_day_after_it(minute: int, later: int) -> None:
    """What proves its end is gone by then: the tombstone of that day says since when its runs are proven."""
    scene = ExpireScene()
    scene.add(41, 100), scene.add(41, minute)
    if later:
        scene.publish(41)
    scene.add(40, later)
    scene.publish(41)
    scene.publish(40)
    new = scene.add(30)
    assert scene.expire()[0] == 0
    assert scene.raw() == [new]
    assert [run.after for run in scene.tombstone(40).shards[S0].runs] == ["1015:2"]


def test_an_expired_day_that_keeps_a_segment_costs_no_inventory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard's last segment stays for ever: after a year of reshards each run would read each day's."""
    scene = ExpireScene()
    for minute in range(2):
        scene.add(40, minute)
    scene.publish(40)
    assert scene.expire()[0] == 0
    assert len(scene.raw()) == 1
    asked = list[object]()
    monkeypatch.setattr("consumer.expire.command.read_judged_generation", lambda *given: asked.append(given))
    assert (scene.expire()[0], asked) == (0, [])


def test_the_last_segment_of_a_chain_stays() -> None:
    """`restore` goes on from it, however old it is."""
    scene = ExpireScene()
    old = [scene.add(40, minute) for minute in range(3)]
    scene.publish(40)
    assert scene.expire()[0] == 0
    assert scene.raw() == old[-1:]
    assert scene.tombstone(40).shards[S0].kept == old[-1:]


def test_each_shard_keeps_its_own_last_segment() -> None:
    """One is quiet, the other goes on."""
    scene = ExpireScene()
    scene.add(40)
    quiet = scene.add(40, shard_id=S1)
    scene.publish(40)
    new = scene.add(29)
    scene.expire()
    assert set(scene.raw()) == {quiet, new}


def test_a_shard_quiet_since_keeps_its_last_segment_over_older_days() -> None:
    """Newer days are looked at first: the older day's last segment is not the chain's."""
    scene = ExpireScene()
    scene.add(42)
    last = scene.add(41)
    scene.publish(42)
    scene.publish(41)
    scene.expire()
    assert scene.raw() == [last]


def test_the_chain_reads_whole_after_an_expiry() -> None:
    """What the next segment names lies in a tombstone: no hole for `restore` and `status`."""
    scene = ExpireScene()
    _, kept = scene.add(42), scene.add(42, 1)
    scene.publish(42)
    scene.expire(older_than="41d")
    for minute in range(2):
        scene.add(41, minute)
    scene.publish(41)
    new = scene.add(39)
    scene.expire(older_than="40d")
    end = find_ends(scene.retrying, PREFIX, {S0: 0}, TODAY, beyond_minutes=90 * DAY)[S0]
    assert (end.keys, end.holes) == ((kept, new), ())


def test_a_deleted_segment_without_tombstone_is_still_a_hole() -> None:
    """Only what was expired on purpose is excused."""
    scene, old, _ = old_day()
    scene.bucket.delete(old[1])
    end = find_ends(scene.retrying, PREFIX, {S0: 0}, TODAY, beyond_minutes=90 * DAY)[S0]
    assert len(end.holes) == 1


@pytest.mark.parametrize(
    ("retention_days", "older_than", "fine"), [(1, "2d", True), (1, "1d", False), (30, "30d", False)]
)
def test_what_the_stream_may_still_hold_is_refused(retention_days: int, older_than: str, fine: bool) -> None:  # noqa: FBT001 - cases
    """Retention and a day: within it a writer may contend for the slots that deleting opens."""
    scene = ExpireScene()
    scene.stream.retention_ms = retention_days * DAY_MS
    if fine:
        assert newest_day(scene.archive(), expiry_age_ms(older_than)) == day_of(int(older_than[:-1]) + 1)
    else:
        with pytest.raises(SafetyRefusal, match="keeps its records"):
            newest_day(scene.archive(), expiry_age_ms(older_than))


def test_only_whole_days_are_expired() -> None:
    """A day that ended less than 30 times 24 hours ago is not looked at, though it began before."""
    scene = ExpireScene()
    young, new = scene.add(30), scene.add(1)
    scene.publish(30)
    assert scene.expire()[0] == 0
    assert scene.raw() == [young, new]


def test_an_expired_day_is_silent() -> None:
    """With nothing left to do, even when its Parquet has been moved away since."""
    scene = ExpireScene()
    scene.add(40)
    scene.add(40, 1)
    scene.publish(40)
    scene.expire()
    scene.bucket.delete(f"{OUT}dt={day_of(40)}/_current.json")
    code, text = scene.expire()
    assert (code, "no day" in text) == (0, True)


def test_the_rate_is_bounded() -> None:
    """Batches of a second's worth, and the pause after each."""
    scene = ExpireScene()
    for minute in range(25):
        scene.add(40, minute)
    scene.add(30)
    scene.publish(40)
    scene.expire(rate=10)
    assert scene.deleter.requests == [10, 10, 5]
    assert sum(scene.clock.slept) == pytest.approx(2.5)


@pytest.mark.parametrize("text", ["30", "0d", "-1d", "1.5d", "30h", ""])
def test_an_age_is_in_days(text: str) -> None:
    """Days are what is published."""
    with pytest.raises(SettingsError, match="not an age"):
        expiry_age_ms(text)


def test_fields_that_are_not_needed_may_be_added_to_a_publication() -> None:
    """To the pointer, the manifest and each of its files: a later version may write them."""
    scene, old, _ = old_day(clean=False)
    for key, body in scene.publish(40).items():
        if key.endswith(".json"):
            said = {**json.loads(body), "mood": "good"}
            files = [{**file, "mood": "good"} for file in said.get("files", ())]
            scene.bucket.place(key, json.dumps({**said, "files": files} if files else said).encode())
    found = read_judged_generation(scene.retrying, OUT, day_of(40))
    assert found is not None
    assert sorted(found.inventory) == old


DAMAGE = [b"", b"gone", b'{"format": 9}', b'{"format": 1, "day": "2026']


@pytest.mark.parametrize("rate", [1000, None], ids=["apply", "dry run"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_day_whose_tombstone_cannot_be_read_stays(damage: bytes, rate: int | None) -> None:
    """Which segments had to stay stands in it: without it none may go. It is said which object that is."""
    scene, old, new = old_day()
    key = tombstone_key(PREFIX, day_of(40))
    scene.bucket.place(key, damage)
    code, text = scene.expire(rate=rate)
    assert (code, scene.raw()) == (6, [*old, new])
    assert key in "".join(text.split())


@pytest.mark.parametrize("damage", DAMAGE)
def test_other_days_are_expired_all_the_same(damage: bytes) -> None:
    """Both the day before and the day behind it hold all that they stand on."""
    scene = ExpireScene()
    days = {days_ago: [scene.add(days_ago, minute) for minute in range(2)] for days_ago in (42, 41, 40)}
    scene.add(30)
    for days_ago in days:
        scene.publish(days_ago)
    scene.bucket.place(tombstone_key(PREFIX, day_of(41)), damage)
    code, _ = scene.expire()
    assert code == 6
    assert set(scene.raw()) & {key for keys in days.values() for key in keys} == set(days[41])


@pytest.mark.parametrize("damage", DAMAGE)
def test_nothing_goes_beside_a_day_whose_tombstone_cannot_be_read(damage: bytes) -> None:
    """Nobody can tell whether the segments that are gone were to go."""
    scene, old, _ = old_day()
    assert scene.expire()[0] == 0
    key = f"{PREFIX}_watermarks/{old[0].removeprefix(PREFIX).removesuffix('.jsonl.gz')}-w.json"
    scene.bucket.place(key, b"{}")
    scene.bucket.place(tombstone_key(PREFIX, day_of(40)), damage)
    scene.expire()
    assert scene.bucket.keys(f"{PREFIX}_watermarks/") == [key]


def crash(_: Sequence[str]) -> None:
    """Stop here, as a SIGKILL does."""
    raise KeyboardInterrupt


def test_a_crash_after_the_tombstone_is_resumed() -> None:
    """The next run deletes the same objects, by the tombstone that is there."""
    scene, old, new = old_day()
    scene.deleter.before = crash
    with pytest.raises(KeyboardInterrupt):
        scene.expire()
    stone = scene.tombstone(40)
    assert scene.raw() == [*old, new]
    scene.deleter.before = None
    assert scene.expire()[0] == 0
    assert (scene.raw(), scene.tombstone(40)) == ([new], stone)


def test_a_crash_between_two_batches_is_resumed() -> None:
    """The rest is deleted, and nothing that had to stay."""
    scene, _, new = old_day()
    scene.deleter.after = crash
    with pytest.raises(KeyboardInterrupt):
        scene.expire(rate=2)
    scene.deleter.after = None
    assert len(scene.raw()) == 2
    assert scene.expire(rate=2)[0] == 0
    assert scene.raw() == [new]


def test_a_crash_never_costs_the_last_segment_of_a_chain() -> None:
    """What stays is written down before the first delete, so the second run keeps the same."""
    scene = ExpireScene()
    old = [scene.add(40, minute) for minute in range(5)]
    scene.publish(40)
    scene.deleter.after = crash
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            scene.expire(rate=2)
    scene.deleter.after = None
    scene.expire(rate=2)
    assert scene.raw() == old[-1:]


def test_a_crash_before_the_tombstone_deletes_nothing() -> None:
    """The store refuses the PUT for good."""
    scene, old, new = old_day()
    scene.store.faults = EndlessFault(Fault.THROTTLED, verbs=["PUT"])
    with pytest.raises(StoreUnavailable):
        scene.expire()
    assert (scene.raw(), scene.deleter.requests) == ([*old, new], [])


def test_a_tombstone_whose_answer_was_lost_is_ours() -> None:
    """The PUT is sent again, meets itself, and the day goes on."""
    scene, _, new = old_day()
    scene.store.faults = PlannedFaults(Fault.ANSWER_LOST)
    assert scene.expire()[0] == 0
    assert scene.raw() == [new]


def test_another_run_that_keeps_other_segments_is_not_overrun() -> None:
    """It wrote its tombstone first: by ours, a segment that it keeps would go."""
    scene, old, new = old_day()
    rival = ExpireScene()
    for minute in range(3):
        rival.add(40, minute)
    rival.publish(40)
    rival.expire()
    key = tombstone_key(PREFIX, day_of(40))

    def bury_first(verb: str, asked: str) -> None:
        if (verb, asked) == ("PUT", key):
            scene.bucket.place(key, rival.bucket.body(key))

    scene.store.before = bury_first
    code, text = scene.expire()
    assert (code, "another run" in text, scene.raw()) == (6, True, [*old, new])


def test_a_delete_whose_answer_was_lost_is_sent_again() -> None:
    """A key that is gone counts as deleted."""
    scene, _, new = old_day()
    failures = iter([True])

    def lose(_: Sequence[str]) -> None:
        if next(failures, False):
            raise OutcomeUnknown("time-out")

    scene.deleter.after = lose
    assert scene.expire()[0] == 0
    assert scene.raw() == [new]


def test_an_object_that_came_after_the_tombstone_is_refused() -> None:
    """It was never published."""
    scene, _, _ = old_day()
    scene.expire()
    late = scene.add(40, 9)
    code, text = scene.expire()
    assert (code, late in text, late in scene.raw()) == (6, True, True)


def test_a_day_published_anew_after_its_tombstone_is_refused() -> None:
    """Another generation of an expired day can only be wrong."""
    scene, _, _ = old_day()
    scene.deleter.before = crash
    with pytest.raises(KeyboardInterrupt):
        scene.expire()
    scene.deleter.before = None
    scene.publish(40, generation="g2")
    code, text = scene.expire()
    assert (code, "anew" in text) == (6, True)
