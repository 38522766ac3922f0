"""A library is used only with the sources that it was compiled from."""

import ctypes
import importlib.metadata
import platform
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.tags import platform_tags

from minutebook.codec.library import library_path, load, sources_digest

FOLDER = Path("minutebook") / "codec"
ROOT = Path(__file__).parents[4]
COMPILER = shutil.which("cc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler")


def build(folder: Path) -> None:
    """Compile as hatch_build.py does."""
    sources = [str(path) for path in (folder / "src").glob("*.c")]
    digest = f'-DMINUTEBOOK_SOURCES="{sources_digest(folder)}"'
    words = ["-std=c11", "-fPIC", "-shared", digest, *sources, "-o", str(library_path(folder))]
    subprocess.run([str(COMPILER), *words], check=True)


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """Return the folder of a codec that was just compiled."""
    folder = tmp_path / FOLDER
    shutil.copytree(ROOT / FOLDER, folder, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    build(folder)
    return folder


def test_a_library_of_its_sources_is_used(built: Path) -> None:
    """As after a build; and where sources were not shipped, nothing speaks against it."""
    assert load(built) is not None
    shutil.rmtree(built / "src")
    assert load(built) is not None


def test_other_threads_run_while_a_library_works(built: Path) -> None:
    """It waits for the daemon, too: with `PyDLL`, which keeps Python's lock, nothing would run until a line comes."""
    assert type(load(built)) is ctypes.CDLL


def test_a_library_of_other_sources_is_not_used(built: Path) -> None:
    """A checkout moved on without a build: structs of other fields would be written over Python's memory."""
    with (built / "src" / "write_lines.c").open("a") as source:
        source.write("/* more */\n")
    assert load(built) is None


def test_a_library_that_does_not_say_its_sources_is_not_used(built: Path) -> None:
    """Those of before did not; a function may be missing in them."""
    (built / "src" / "sources.c").unlink()
    build(built)
    assert load(built) is None


def build_hook(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return what hatch_build.py defines; hatchling is there while a package is built only."""
    interface = ModuleType("hatchling.builders.hooks.plugin.interface")
    setattr(interface, "BuildHookInterface", list)  # noqa: B010 - as hatchling does
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    for name in ("hatchling", "hatchling.builders", "hatchling.builders.hooks", "hatchling.builders.hooks.plugin"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    return runpy.run_path(str(ROOT / "hatch_build.py"))


def compile_with(script: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path | None:
    """Compile a copy of the sources below a folder by a compiler that is this script."""
    shutil.copytree(ROOT / FOLDER, folder / FOLDER, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    compiler = folder / "cc"
    compiler.write_text(f"#!/bin/sh\n{script}\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setenv("MINUTEBOOK_NATIVE", "1")
    library: Path | None = build_hook(monkeypatch)["compile_codec"](folder)
    return library


def test_a_build_that_is_killed_leaves_no_half_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To load one ends the process (SIGBUS): the compiler writes under a name that nobody loads."""
    script = 'for last; do :; done\nprintf half > "$last"\nls .. > ../seen'
    library = compile_with(script, tmp_path, monkeypatch)
    assert library is not None
    assert library.read_text() == "half"
    assert library.name not in (library.parent / "seen").read_text().split()
    assert [path.name for path in library.parent.glob("codec*")] == [library.name]


def test_a_compiler_that_fails_is_as_good_as_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Debian's gcc without libc6-dev: Minutebook installs, says why there is no codec, and works."""
    script = 'for last; do :; done\nprintf half > "$last"\necho "string.h: No such file" >&2\nexit 1'
    assert compile_with(script, tmp_path, monkeypatch) is None
    assert "string.h: No such file" in capfd.readouterr().err
    assert not list((tmp_path / FOLDER).glob("codec*"))


LIBC = " 0x01 (NEEDED)             Shared library: [libc.so.6]\n"


@pytest.mark.parametrize(
    ("told", "tag"),
    [
        (
            f"{LIBC}  0x10:   Name: GLIBC_2.2.5  Flags: none\n  0x20:   Name: GLIBC_2.14  Flags: none\n",
            "manylinux_2_17_m",
        ),
        (
            f"{LIBC}  0x10:   Name: GLIBC_2.4  Flags: none\n  0x20:   Name: GLIBC_2.38  Flags: none\n",
            "manylinux_2_38_m",
        ),
        (
            f"{LIBC}  0x10:   Name: GLIBC_2.4  Flags: none\n  0x20:   Name: GLIBC_ABI_DT_RELR  Flags: none\n",
            "manylinux_2_36_m",
        ),
        (f"{LIBC}  0x10:   Name: GLIBC_PRIVATE  Flags: none\n", "linux_m"),
        (
            f"{LIBC} 0x01 (NEEDED)   Shared library: [libgcc_s.so.1]\n  0x10:   Name: GLIBC_2.4  Flags: none\n",
            "linux_m",
        ),
        (" 0x01 (NEEDED)             Shared library: [libc.musl-x86_64.so.1]\n", "linux_m"),
        ("", "linux_m"),
    ],
    ids=["old", "new", "relative relocations", "private", "another library", "musl", "nothing"],
)
def test_a_wheel_names_the_c_library_that_it_needs(told: str, tag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest that will do. What we do not know of is promised for this machine alone."""
    assert build_hook(monkeypatch)["platform_of"](told, "linux_m") == tag


def test_the_wheel_of_the_readme_is_the_one_that_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name, with a compiler; and this machine takes it."""
    library = compile_with(f'exec {COMPILER} "$@"', tmp_path, monkeypatch)
    assert library is not None
    tag = build_hook(monkeypatch)["platform_tag"](library)
    built = f"minutebook-{importlib.metadata.version('minutebook')}-py3-none-{tag}.whl"
    assert f"dist/{built.replace(platform.machine(), 'x86_64')}" in (ROOT / "README.md").read_text()
    assert tag in platform_tags()
