"""A day whose hours are published, made once: each test has a copy of it."""

import shutil
from pathlib import Path

import pytest

from tests.unit.compaction.hours.scene import Hours


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a day all of whose hours are published."""
    folder = tmp_path_factory.mktemp("hours")
    Hours(folder).publish_hours()
    return folder


@pytest.fixture
def desk(made: Path, tmp_path: Path) -> Hours:
    """Return a day all of whose hours are published."""
    shutil.copytree(made, tmp_path / "hours")
    return Hours(tmp_path / "hours")
