"""Load the compiled library. `hatch_build.py` runs this file too, so it imports only the standard library."""

import ctypes
import hashlib
import os
import platform
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

SWITCH: Final = "MINUTEBOOK_NATIVE"
"""Environment variable: `0` builds and runs without the library."""
_DIGEST_BYTES: Final = 65
"""The size of `minutebook_sources` in sources.c, with its NUL."""


def sources_digest(folder: Path) -> str:
    """Return the digest of the C sources below the folder of `minutebook.codec`; empty if there are none."""
    sources = sorted(path for path in (folder / "src").glob("*") if path.suffix in {".c", ".h"})
    if not sources:
        return ""
    digest = hashlib.sha256()
    for path in sources:
        text = path.read_bytes()
        digest.update(f"{path.name} {len(text)}\n".encode() + text)
    return digest.hexdigest()


def library_path(folder: Path) -> Path:
    """Return the path of this machine's library in the folder of `minutebook.codec`."""
    return folder / f"codec-{platform.machine()}.so"


def load(folder: Path) -> ctypes.CDLL | None:
    """Return the library in the folder; None if it does not load, or was compiled from other sources.

    The sources of a checkout may change without a new build; then the structs that C and Python share may differ.
    """
    path = library_path(folder)
    if not path.exists():
        return None
    try:
        library = ctypes.CDLL(str(path))
        compiled = (ctypes.c_char * _DIGEST_BYTES).in_dll(library, "minutebook_sources").value.decode()
    except (OSError, ValueError):  # built for another libc, or by an old version: Python is slower, not wrong
        return None
    return library if compiled and sources_digest(folder) in {"", compiled} else None


@cache
def native_library() -> ctypes.CDLL | None:
    """Return the library; None if it was not built for this machine, does not load, or is switched off."""
    return None if os.environ.get(SWITCH) == "0" else load(Path(__file__).parent)


def bind(library: ctypes.CDLL, name: str, *more: Any) -> Callable[..., int]:  # noqa: ANN401 - ctypes is untyped
    """Return a function: text, its size, the prefix of its lines, its size, and arguments of types `more` -> int."""
    function = library[name]
    function.restype = ctypes.c_int64
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t, *more]
    return function


def codec_name() -> str:
    """Return which codec is used: `native` or `python`."""
    return "python" if native_library() is None else "native"
