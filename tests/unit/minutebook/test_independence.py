"""What people import stands by itself: no command line, no consumer, no nightly job, and no file of theirs."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from minutebook.format.day import Day
from minutebook.store.places import StorePrefix
from minutebook.store.storage import Address
from tests.corpus.shelf import Shelf

CHECKOUT: Final = Path(__file__).parents[3]
DAY: Final = Day.parse("2026-11-20")
_IMPORTS: Final = """
import sys
sys.path.insert(0, sys.argv[1])
import minutebook.reader.arrow, minutebook.cat.command
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""
_SCRIPT: Final = """
import sys
from minutebook.reader import read
print(read(sys.argv[1], sys.argv[2], sys.argv[2]).to_table().num_rows)
"""


def test_reader_and_cat_import_nothing_of_either_side() -> None:
    """Nor the command line's parser: what they import is what an environment must have."""
    code = [sys.executable, "-I", "-c", _IMPORTS, str(CHECKOUT)]
    imported = subprocess.run(code, capture_output=True, text=True, check=True).stdout.split()
    assert "minutebook" in imported
    assert not {"consumer", "compaction", "typer"} & set(imported)


@pytest.mark.parametrize("name", ["archive", "compaction", "consumer", "job"])
def test_a_file_beside_a_users_script_is_not_taken_for_ours(tmp_path: Path, name: str) -> None:
    """Python looks beside the script first: whatever lies there, the day is read."""
    published, home = tmp_path / "published", tmp_path / "home"
    home.mkdir()
    rows = Shelf(StorePrefix(Address(None, str(published)), "")).publish(DAY, "a")
    (home / f"{name}.py").write_text("raise RuntimeError('not ours')\n")
    script = home / "report.py"
    script.write_text(_SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script), str(published), str(DAY)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
    )
    assert (done.returncode, done.stdout) == (0, f"{len(rows)}\n"), done.stderr
