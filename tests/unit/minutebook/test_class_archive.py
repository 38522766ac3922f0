"""Where class archives lie, and when they count."""

import sys
from pathlib import Path

import pytest

from minutebook.class_archive import Making, archive_folder, use_options
from minutebook.errors import MinutebookError


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a Java that tells its version, in an installation of its own."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "installed"))
    return _java(tmp_path / "java", "17.0.15")


def _java(path: Path, version: str) -> Path:
    path.write_text(f"#!/bin/sh\necho 'openjdk version {version}' >&2\n")
    path.chmod(0o755)
    return path


def test_another_java_or_another_class_has_another_archive(java: Path, tmp_path: Path) -> None:
    """An archive is for what it was made from; the same again finds it."""
    folder = archive_folder("daemon", java, [b"a", b"b"])
    assert folder.parent == tmp_path / "installed" / "share" / "minutebook"
    assert archive_folder("daemon", java, [b"a", b"b"]) == folder
    others = [
        archive_folder("daemon", java, [b"ab"]),
        archive_folder("daemon", java, [b"a", b"c"]),
        archive_folder("daemon", _java(tmp_path / "newer", "21"), [b"a", b"b"]),
    ]
    assert len({folder, *others}) == 4


def test_a_missing_java_is_for_others_to_name(tmp_path: Path) -> None:
    """Whoever starts it says so better."""
    assert not archive_folder("daemon", tmp_path / "none", []).exists()


def test_an_archive_counts_once_it_is_whole(java: Path) -> None:
    """What a JVM has not finished, never wrote, or what was cut short since, is not used."""
    folder = archive_folder("daemon", java, [])
    folder.mkdir(parents=True)
    making = Making(folder)
    assert use_options(folder) == []
    with pytest.raises(MinutebookError, match="wrote no class archive"):
        making.keep(java)
    unfinished = Path(making.options[-1].partition("=")[2])
    unfinished.write_bytes(b"classes")
    assert use_options(folder) == []
    made = making.keep(java)
    assert use_options(folder)[-1] == f"-XX:SharedArchiveFile={made}"
    made.write_bytes(b"class")
    assert use_options(folder) == []


def test_an_archive_that_the_jvm_does_not_take_is_not_kept(java: Path, tmp_path: Path) -> None:
    """It is asked to compare the checksums; a crash is an answer, too."""
    folder = archive_folder("daemon", java, [])
    folder.mkdir(parents=True)
    making = Making(folder)
    unfinished = Path(making.options[-1].partition("=")[2])
    unfinished.write_bytes(b"classes")
    crashing = tmp_path / "crashing"
    crashing.write_text("#!/bin/sh\nkill -ABRT $$\n")
    crashing.chmod(0o755)
    with pytest.raises(MinutebookError, match="wrote no class archive"):
        making.keep(crashing)
    assert list(folder.iterdir()) == []


def test_an_archive_that_goes_away_in_that_moment_is_not_used(java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task starts while `prepare` exchanges it."""
    folder = archive_folder("daemon", java, [])
    monkeypatch.setattr(Path, "glob", lambda *_: [folder / "classes-7.jsa"])
    assert use_options(folder) == []
