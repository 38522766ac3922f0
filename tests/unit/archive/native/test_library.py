"""A library is there whole, or not at all."""

import runpy
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path("archive") / "native"
ROOT = Path(__file__).parents[4]


def test_a_build_that_is_killed_leaves_no_half_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To load one ends the process (SIGBUS): the compiler writes under a name that nobody loads."""
    shutil.copytree(ROOT / FOLDER, tmp_path / FOLDER, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\nfor last; do :; done\nprintf half > "$last"\nls .. > ../seen\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setenv("MINUTEBOOK_NATIVE", "1")
    interface = ModuleType("hatchling.builders.hooks.plugin.interface")
    setattr(interface, "BuildHookInterface", list)  # noqa: B010 - hatchling is there while a package is built only
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    for name in ("hatchling", "hatchling.builders", "hatchling.builders.hooks", "hatchling.builders.hooks.plugin"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    library = runpy.run_path(str(ROOT / "hatch_build.py"))["compile_codec"](tmp_path)
    assert library.read_text() == "half"
    assert library.name not in (library.parent / "seen").read_text().split()
    assert [path.name for path in library.parent.glob("codec*")] == [library.name]
