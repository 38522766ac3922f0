"""The native codec, compiled from the sources as they are: what lies installed may be of others."""

import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from minutebook.codec import documents

COMPILER = shutil.which("gcc") or shutil.which("cc")
SOURCES = Path(__file__).parents[2] / "minutebook" / "codec" / "src"


def compiled_codec(folder: Path, *flags: str) -> ctypes.CDLL:
    """Compile it, with flags, into a folder and load it. `-DMINUTEBOOK_PORTABLE`: as for any machine."""
    made = folder / "codec.so"
    words = ["-std=c11", "-O2", "-fPIC", "-shared", *flags, *map(str, SOURCES.glob("*.c")), "-o", str(made)]
    subprocess.run([str(COMPILER), *words], check=True)
    return ctypes.CDLL(str(made))


@contextmanager
def compiled_documents(folder: Path) -> Iterator[None]:
    """Let payloads be read by the sources as they are."""
    library = compiled_codec(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "native_library", lambda: library)
        yield
