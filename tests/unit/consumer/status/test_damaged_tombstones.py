"""A tombstone that cannot be read is said, and hides nothing else."""

import pytest

from minutebook.format.minute import minute_text
from minutebook.format.tombstone import FOLDER
from tests.fakes.archive_scene import PREFIX
from tests.fakes.status_scene import LEASE, NOW, StatusScene


@pytest.mark.parametrize("damage", [b"", b"gone", b'{"format": 9}'])
def test_a_tombstone_that_cannot_be_read_is_said(damage: bytes) -> None:
    """Beside the shard whose chain may need it, and as a problem of its own."""
    scene = StatusScene(LEASE)
    ends = scene.archive(NOW - 9, NOW - 8, NOW - 7, missing=[1])
    key = f"{PREFIX}{FOLDER}2026-11-21.json"
    scene.bucket.place(key, damage)
    report = scene.report()
    assert report.shards[0].tail == str(ends[2])
    assert [key in gap for gap in report.shards[0].gaps] == [True]
    assert any(key in problem.sentence for problem in report.problems)
    assert report.coverage is not None
    assert report.coverage.until == minute_text(NOW - 10).replace("Z", ":00.000Z")
