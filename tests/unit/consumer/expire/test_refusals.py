"""`expire`: the days that it leaves alone, and why."""

import pytest

from archive.errors import FormatError, SafetyRefusal
from tests.fakes.clock import START_MS
from tests.fakes.expire_scene import OUT, S1, ExpireScene, day_of, old_day


@pytest.mark.parametrize("verdict", ["defects", "unknown"])
def test_a_day_that_is_not_clean_is_refused(verdict: str) -> None:
    """Exit code 6 and the verdict."""
    scene, old, new = old_day(clean=False)
    scene.publish(40, verdict)
    code, text = scene.expire()
    assert (code, verdict in text, scene.raw()) == (6, True, [*old, new])


def test_a_day_that_is_not_published_is_refused() -> None:
    """With the command that publishes it."""
    scene, old, new = old_day(clean=False)
    code, text = scene.expire()
    assert (code, f"minutebook compact --date {day_of(40)}" in text, scene.raw()) == (6, True, [*old, new])


def test_an_object_newer_than_the_verdict_is_refused() -> None:
    """Nobody has audited or compacted it."""
    scene, old, new = old_day()
    late = scene.add(40, 9)
    code, text = scene.expire()
    assert (code, late in text, set(scene.raw())) == (6, True, {*old, new, late})


def test_an_object_that_changed_is_refused() -> None:
    """Same key, other bytes."""
    scene, old, _ = old_day()
    scene.bucket.place(old[0], b"other", scene.bucket.metadata(old[0]))
    assert scene.expire()[0] == 6


def test_an_object_that_is_gone_is_refused() -> None:
    """Somebody deletes beside us: no more is deleted before that is understood."""
    scene, old, _ = old_day()
    scene.bucket.delete(old[1])
    code, text = scene.expire()
    assert (code, "is gone" in text) == (6, True)


def test_a_foreign_object_is_refused() -> None:
    """It belongs to somebody."""
    scene, old, _ = old_day()
    scene.bucket.place(f"{old[0].rpartition('/')[0]}/notes.txt", b"")
    code, text = scene.expire()
    assert (code, "notes.txt" in text) == (6, True)


def test_a_segment_that_lies_about_itself_is_refused() -> None:
    """The tombstone would repeat the lie; nothing is deleted."""
    scene, old, new = old_day(clean=False)
    scene.bucket.place(old[1], b"", {**scene.bucket.metadata(old[1]), "shard": S1})
    scene.publish(40)
    code, text = scene.expire()
    assert (code, "another segment" in text, scene.raw()) == (6, True, [*old, new])


def test_a_refused_day_does_not_hold_up_the_others() -> None:
    """They are expired, and the exit code still says 6."""
    scene = ExpireScene()
    refused, expired, new = scene.add(41), scene.add(40), scene.add(30)
    scene.publish(40)
    assert scene.expire()[0] == 6
    assert scene.raw() == [refused, new]
    assert expired not in scene.raw()


def test_a_damaged_publication_is_an_error() -> None:
    """Its format is not guessed."""
    scene, _, _ = old_day()
    scene.bucket.place(f"{OUT}dt={day_of(40)}/_current.json", b"{}")
    with pytest.raises(FormatError, match="does not parse"):
        scene.expire()


def test_a_publication_without_its_inventory_is_an_error() -> None:
    """The verdict was given for something that is not known."""
    scene, _, _ = old_day()
    scene.bucket.delete(f"{OUT}dt={day_of(40)}/_manifest/g1.inventory.jsonl.gz")
    with pytest.raises(FormatError, match="missing"):
        scene.expire()


def test_another_streams_archive_is_refused() -> None:
    """Its retention says nothing about these objects."""
    scene, _, _ = old_day()
    scene.stream.recreate(START_MS)
    with pytest.raises(SafetyRefusal, match="earlier stream"):
        scene.expire()
