"""The native codec, compiled from the sources as they are: what lies installed may be of others."""

import ctypes
import shutil
import subprocess
from pathlib import Path

COMPILER = shutil.which("gcc") or shutil.which("cc")
SOURCES = Path(__file__).parents[2] / "archive" / "native" / "src"


def compiled_codec(folder: Path, *flags: str) -> ctypes.CDLL:
    """Compile it, with flags, into a folder and load it. `-DMINUTEBOOK_PORTABLE`: as for any machine."""
    made = folder / "codec.so"
    words = ["-std=c11", "-O2", "-fPIC", "-shared", *flags, *map(str, SOURCES.glob("*.c")), "-o", str(made)]
    subprocess.run([str(COMPILER), *words], check=True)
    return ctypes.CDLL(str(made))
