"""`minutebook prepare` on the real daemon: it makes an archive that the next JVM uses, and asks no service."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from consumer.daemon.prepared.classes import FLEET_CLASS, MAIN_CLASS, Classes, find_classes, make_jar
from consumer.daemon.prepared.jvm_flags import jvm_flags
from consumer.daemon.prepared.prepare import prepare_daemon
from consumer.preflight.java import find_jars, find_java, find_shims
from minutebook.clock import SystemClock
from minutebook.errors import MinutebookError

pytestmark = pytest.mark.usefixtures("aws_environment")
_FROM_ARCHIVE = f"{MAIN_CLASS} source: shared objects file (top)"


def _loaded(
    classes: Classes, tmp_path: Path, flags: Sequence[str] = tuple(jvm_flags({})), main: str = MAIN_CLASS
) -> tuple[str, str]:
    """Start a main class without arguments; return what it says, and which classes came from where."""
    log, java = tmp_path / "loaded", find_java(os.environ).program
    path = os.pathsep.join(map(str, [*classes.path, tmp_path]))
    command = [java, *flags, *classes.options, f"-Xlog:class+load:file={log}", "-cp", path, main]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    return said.stdout + said.stderr, log.read_text()


def test_the_next_jvm_uses_the_archive_and_says_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours and KCL's classes come from it, also where the user chose another collector or compiler than ours.

    Without it, or where it was cut short, all runs as before.
    """
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "installed"))
    java, jars = find_java(os.environ).program, find_jars()
    assert find_classes(java, jars) == Classes((), (*jars, find_shims()))
    plain, _ = _loaded(find_classes(java, jars), tmp_path)

    made = prepare_daemon(os.environ, SystemClock())
    classes = find_classes(java, jars)
    assert classes.path == (*jars, made.parent / "minutebook.jar")
    make_jar(made.parent)  # as another `prepare` does, which then may fail
    said, loaded = _loaded(classes, tmp_path)
    assert said == plain
    assert _FROM_ARCHIVE in loaded
    _, of_fleet = _loaded(classes, tmp_path, main=FLEET_CLASS)
    assert f"{FLEET_CLASS} source: shared objects file (top)" in of_fleet
    for users in ("-XX:+UseG1GC", "-XX:+UseParallelGC", "-XX:TieredStopAtLevel=4"):
        assert _FROM_ARCHIVE in _loaded(classes, tmp_path, [users])[1], users

    made.chmod(0o600)
    made.write_bytes(made.read_bytes()[:1_000_000])
    said, loaded = _loaded(find_classes(java, jars), tmp_path)
    assert said == plain
    assert _FROM_ARCHIVE not in loaded


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an image that is read-only: prepare belongs into its build."""
    (tmp_path / "share").write_text("a file where a folder belongs")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with pytest.raises(MinutebookError, match="cannot be written"):
        prepare_daemon(os.environ, SystemClock())
