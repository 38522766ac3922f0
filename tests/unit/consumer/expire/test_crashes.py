"""`expire` that was cut short, or that meets another run: what is left, and how the next run ends it."""

from collections.abc import Sequence

import pytest

from minutebook.errors import OutcomeUnknown, StoreUnavailable
from minutebook.format.tombstone import tombstone_key
from tests.fakes.archive_scene import PREFIX
from tests.fakes.expire_scene import ExpireScene, day_of, old_day
from tests.fakes.memory_store import EndlessFault, Fault, PlannedFaults


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
