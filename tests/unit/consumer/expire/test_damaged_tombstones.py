"""A tombstone that cannot be read holds its own day up, and names itself; the other days are expired."""

import pytest

from minutebook.format.tombstone import tombstone_key
from tests.fakes.archive_scene import PREFIX
from tests.fakes.expire_scene import ExpireScene, day_of, old_day

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
