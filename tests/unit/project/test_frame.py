"""The frame: make's targets, the locks, the entry of CI."""

import os
import re
import shutil
import subprocess
from pathlib import Path

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
