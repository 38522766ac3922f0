"""The native codec, compiled from the sources as they are: what lies installed may be of others."""

import ctypes
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

COMPILER = shutil.which("gcc") or shutil.which("cc")
SOURCES = Path(__file__).parents[2] / "minutebook" / "codec" / "src"


@cache
def compiled_codec(*flags: str) -> ctypes.CDLL:
    """Compile it with flags, once in a process, and load it. `-DMINUTEBOOK_PORTABLE`: as for any machine."""
    with TemporaryDirectory() as folder:
        made = Path(folder, "codec.so")
        words = ["-std=c11", "-O2", "-fPIC", "-shared", *flags, *map(str, SOURCES.glob("*.c")), "-o", str(made)]
        subprocess.run([str(COMPILER), *words], check=True)
        return ctypes.CDLL(str(made))
