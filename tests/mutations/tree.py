"""A copy of the product and its tests, in which one mutation at a time is applied."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
CODE: Final = ("consumer", "compaction", "minutebook", "demo", "tests")
_PARTS: Final = (*CODE, "pyproject.toml", "properties", "requirements")
_CACHE: Final = ".cache"
"""Where the embedded servers are installed: not of the product, so the copy has the same."""


class Tree:
    """The copy. `run` starts Python modules in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for part in _PARTS:
            source = ROOT / part
            if source.is_dir():
                shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__", ".*"))
            else:
                shutil.copy2(source, folder / part)
        (folder / _CACHE).symlink_to(ROOT / _CACHE)

    @contextmanager
    def broken_by(self, texts: Mapping[str, str]) -> Iterator[None]:
        """Replace the text of some files, and take that back in the end."""
        originals = {path: (self._folder / path).read_text() for path in texts}
        try:
            for path, text in texts.items():
                (self._folder / path).write_text(text)
            yield
        finally:
            for path, text in originals.items():
                (self._folder / path).write_text(text)

    def run(self, module: str, *arguments: str, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
        """Run a module of Python, and return what it wrote."""
        # No bytecode: a mutation of equal size within one second would be served from the cache.
        command = [sys.executable, "-B", "-m", module, *arguments]
        environment = {**os.environ, "TESTS_SEARCH": "first"}
        return subprocess.run(
            command, cwd=self._folder, env=environment, capture_output=True, text=True, check=False, timeout=timeout
        )
