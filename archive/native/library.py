"""The compiled library, where there is one for this machine."""

import ctypes
import os
import platform
from functools import cache
from pathlib import Path
from typing import Final

SWITCH: Final = "MINUTEBOOK_NATIVE"
"""Environment variable: `0` builds, and runs, without the library."""


@cache
def native_library() -> ctypes.CDLL | None:
    """Return the library; None where it was not built for this machine, does not load, or is not wanted."""
    path = Path(__file__).with_name(f"codec-{platform.machine()}.so")
    if os.environ.get(SWITCH) == "0" or not path.exists():
        return None
    try:
        return ctypes.CDLL(str(path))
    except OSError:  # another C library than it was built for: slower, not wrong
        return None


def codec_name() -> str:
    """Return which of the two is used: `native` or `python`."""
    return "python" if native_library() is None else "native"
