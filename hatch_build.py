"""Compiles the codec of `minutebook/codec` when the package is built, where there is a C compiler.

Without one, or with MINUTEBOOK_NATIVE=0, the package is pure Python and does the same work in more time
(docs/decisions/0041-a-native-codec.md). Hatchling calls this for wheels and for editable installations.
"""

import os
import platform
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FLAGS: Final = (
    "-std=c11",
    "-O3",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-fstack-protector-strong",
    "-Wall",
    "-Wextra",
    "-Wl,-z,relro,-z,now",
    "-Wl,--build-id=none",
)
"""One library for every processor of a kind, and the same bytes from the same compiler."""

OLDEST_GLIBC: Final = (2, 17)
"""That of manylinux2014, which every Linux with Python 3.11 has."""
_RELATIVE_RELOCATIONS: Final = "GLIBC_ABI_DT_RELR"
"""No symbol: it asks for a dynamic linker that reads packed relocations, glibc's from 2.36 on."""


def compile_codec(root: Path) -> Path | None:
    """Compile the codec below a checkout; returns the library, None where it cannot be built here."""
    folder = root / "minutebook" / "codec"
    codec = runpy.run_path(str(folder / "library.py"))  # what it looks for, and by which digest
    library: Path = codec["library_path"](folder)
    library.unlink(missing_ok=True)
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or platform.system() != "Linux" or os.environ.get(codec["SWITCH"]) == "0":
        return None
    sources = sorted(path.name for path in (folder / "src").glob("*.c"))
    made = library.with_suffix(".part")  # whoever loads half a library is ended by SIGBUS
    digest = f'-DMINUTEBOOK_SOURCES="{codec["sources_digest"](folder)}"'
    command = [compiler, *FLAGS, digest, *sources, "-o", str(made)]
    built = subprocess.run(command, cwd=folder / "src", capture_output=True, text=True, check=False)  # noqa: S603 - a compiler, and names of ours
    if built.returncode != 0:
        # A compiler without the C library's headers is no reason not to install: `doctor` warns of what is missing.
        made.unlink(missing_ok=True)
        sys.stderr.write(f"minutebook: {compiler} could not compile minutebook/codec:\n{built.stderr}\n")
        return None
    made.replace(library)
    return library


def platform_tag(library: Path) -> str:
    """Return the platform of a wheel with a library; this machine's alone without readelf, which compilers bring."""
    plain = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    readelf = shutil.which("readelf")
    if readelf is None:
        return plain
    words = [readelf, "--wide", "--dynamic", "--version-info", str(library)]
    environment = {**os.environ, "LC_ALL": "C"}
    told = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - a file of ours
    return platform_of(told.stdout, plain)


def platform_of(told: str, plain: str) -> str:
    """Return the tag of PEP 600 for what readelf tells of a library: the oldest glibc that has all that it asks for.

    `plain` is the tag of this machine alone: it says nothing of a C library, and no index takes it. It stays where
    the library asks for another than glibc, as one that was compiled with musl does, or for what we do not know.
    """
    needed, names = re.findall(r"\(NEEDED\)\s.*\[(.+)\]", told), set(re.findall(r"Name: (\S+)", told))
    versions = [re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", name) for name in names - {_RELATIVE_RELOCATIONS}]
    if needed != ["libc.so.6"] or None in versions:
        return plain
    asked = [(int(version[1]), int(version[2])) for version in versions if version is not None]
    asked += [(2, 36)] if _RELATIVE_RELOCATIONS in names else []
    major, minor = max([OLDEST_GLIBC, *asked])
    return plain.replace("linux_", f"manylinux_{major}_{minor}_", 1)


class NativeCodec(BuildHookInterface[Any]):
    """Adds the library to the wheel, and says in its tag which machines it is for, and the glibc that they need."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the files are collected."""
        library = compile_codec(Path(self.root))
        if library is None:
            self.app.display_warning("minutebook: built without its native codec (no C compiler, or not wanted)")
            return
        build_data["artifacts"].append(f"/{library.relative_to(self.root)}")
        if version != "editable":
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform_tag(library)}"
