"""A tombstone that cannot be read stops no restore: what lies under it can be read from no stream any more."""

import pytest

from minutebook.format.tombstone import FOLDER
from tests.fakes.archive_scene import PREFIX
from tests.fakes.restore_scene import NOW, S0, RestoreScene

DAMAGE = [b"", b"gone", b'{"format": 9}']


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_shard_goes_on_after_its_tail_and_the_tombstone_is_named(damage: bytes) -> None:
    """A segment between two others is gone: it was expired, for all that can be told."""
    scene = RestoreScene(S0)
    ends = scene.begun(S0, [NOW - 9, NOW - 8, NOW - 7], missing=[1])
    key = f"{PREFIX}{FOLDER}2026-11-21.json"
    scene.bucket.place(key, damage)
    row = scene.plan()[S0]
    assert row.lease.checkpoint == ends[2]
    assert any(key in warning for warning in row.warnings)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_hole_on_other_days_is_a_hole(damage: bytes) -> None:
    """It is read again."""
    scene = RestoreScene(S0)
    ends = scene.begun(S0, [NOW - 9, NOW - 8, NOW - 7], missing=[1])
    scene.bucket.place(f"{PREFIX}{FOLDER}2026-10-01.json", damage)
    assert scene.checkpoints() == {S0: ends[0]}
