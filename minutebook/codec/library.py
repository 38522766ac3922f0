"""The compiled library, where there is one for this machine. `hatch_build.py` runs this: it imports no package."""

import ctypes
import hashlib
import os
import platform
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

SWITCH: Final = "MINUTEBOOK_NATIVE"
"""Environment variable: `0` builds, and runs, without the library."""


_DIGEST_BYTES: Final = 65
"""`minutebook_sources` of sources.c, its closing NUL too."""


def sources_digest(folder: Path) -> str:
    """Return the digest of the sources below that folder of `minutebook.codec`; empty where there are none."""
    sources = sorted(path for path in (folder / "src").glob("*") if path.suffix in {".c", ".h"})
    if not sources:
        return ""
    found = hashlib.sha256()
    for path in sources:
        text = path.read_bytes()
        found.update(f"{path.name} {len(text)}\n".encode() + text)
    return found.hexdigest()


def library_path(folder: Path) -> Path:
    """Return where the library for this kind of machine lies in the folder of `minutebook.codec`."""
    return folder / f"codec-{platform.machine()}.so"


def load(folder: Path) -> ctypes.CDLL | None:
    """Return the library in that folder; None where it is none for this machine, or of other sources.

    A checkout moves on without its library: the structs that both sides share may not be the same any more.
    """
    path = library_path(folder)
    if not path.exists():
        return None
    try:
        library = ctypes.CDLL(str(path))
        compiled = (ctypes.c_char * _DIGEST_BYTES).in_dll(library, "minutebook_sources").value.decode()
    except (OSError, ValueError):  # another C library than it was built for, or an old one: slower, not wrong
        return None
    return library if compiled and sources_digest(folder) in {"", compiled} else None


@cache
def native_library() -> ctypes.CDLL | None:
    """Return the library; None where it was not built for this machine, does not load, or is not wanted."""
    return None if os.environ.get(SWITCH) == "0" else load(Path(__file__).parent)


def bind(library: ctypes.CDLL, name: str, *more: Any) -> Callable[..., int]:  # noqa: ANN401 - ctypes' types have none
    """Return a function: text, its size, the prefix of its lines, its size, and what else it takes -> a number."""
    function = library[name]
    function.restype = ctypes.c_int64
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t, *more]
    return function


def codec_name() -> str:
    """Return which of the two is used: `native` or `python`."""
    return "python" if native_library() is None else "native"
