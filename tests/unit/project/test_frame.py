"""The frame: make's targets, the locks, the entry of CI."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from demo.bootstrap import install_part

CHECKOUT = Path(__file__).resolve().parents[3]
LOCKS = sorted((CHECKOUT / "requirements").glob("**/*lock*"))


def _make(*arguments: str, folder: Path = CHECKOUT) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ["make", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_make_alone_lists_every_target() -> None:
    """Each phony target is in the help, with a sentence."""
    phony = re.search(r"^\.PHONY: (.+)$", (CHECKOUT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    listed = re.findall(r"^  make (\S+) +\S", _make().stdout, re.MULTILINE)
    assert sorted(listed) == sorted(phony[1].split())


def test_a_machine_without_a_fitting_python_gets_one_sentence(tmp_path: Path) -> None:
    """What is needed and what to do, before make's own line; nothing is made."""
    shutil.copytree(CHECKOUT / "requirements", tmp_path / "requirements")
    shutil.copy(CHECKOUT / "Makefile", tmp_path)
    done = _make("setup", "PYTHON=", folder=tmp_path)
    sentence, own_line = done.stderr.splitlines()
    assert done.returncode == 2
    assert sentence.startswith("Minutebook needs Python 3.11, 3.12 or 3.13")
    assert own_line.startswith("make: ***")
    assert not (tmp_path / ".venv").exists()


def test_locks_pin_by_hash() -> None:
    """Every pinned package is followed by a hash."""
    for lock in (path for path in LOCKS if path.suffix == ".lock"):
        blocks = re.split(r"\n(?=\S)", lock.read_text().strip())
        assert blocks
        assert all("--hash=sha256:" in block for block in blocks), lock.name


def test_locks_name_no_address() -> None:
    """Packages come from wherever this machine's pip and npm get theirs."""
    assert LOCKS
    for lock in LOCKS:
        assert "://" not in lock.read_text(), lock.name


def test_ci_is_executable_and_calls_the_test_command() -> None:
    """What CI runs is what the README tells people to run."""
    script = CHECKOUT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert re.search(r"^make test\b", script.read_text(), re.MULTILINE)


@pytest.mark.parametrize("target", ["setup", "aws"])
def test_each_step_says_what_it_downloads(target: str, tmp_path: Path) -> None:
    """Before it does: minutes pass, and a log of CI shows lines, no spinner. The sum is that of the README."""
    for name in ("Makefile", "requirements"):
        (tmp_path / name).symlink_to(CHECKOUT / name)
    for name in ("pyproject.toml", "CHANGELOG.md", "hatch_build.py", "minutebook"):
        (tmp_path / name).symlink_to(CHECKOUT / name)
    printed = _make("--dry-run", target, folder=tmp_path).stdout
    steps = re.findall(r'^echo "setup: (.+)"$', printed, re.MULTILINE)
    sizes = [re.search(r"\((\d+) MB", step) for step in steps if step != "Minutebook itself"]
    assert len(steps) >= {"setup": 5, "aws": 2}[target]
    assert ("Spark" in printed) == (target == "setup"), "the tutorial brings its own"
    assert None not in sizes
    if target == "setup":
        told = re.search(r"downloads (\d+) MB", (CHECKOUT / "README.md").read_text())
        assert told is not None
        assert sum(int(size[1]) for size in sizes if size is not None) == int(told[1])
        assert f"(the first time {told[1]} MB, some minutes)" in _make().stdout


def test_a_part_of_the_demo_says_what_it_downloads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Once: a part that is there is not spoken of."""
    lock, made = tmp_path / "lock", list[Path]()
    lock.write_text("one==1")
    for _ in range(2):
        install_part("java", lock, made.append, tmp_path / "cache")
    assert made == [tmp_path / "cache" / "java"]
    assert re.fullmatch(r"setup: a Java runtime.* \(\d+ MB\)\n|setup: .*, \d+ MB\)\n", capsys.readouterr().out)
