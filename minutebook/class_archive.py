"""Class archives of HotSpot (AppCDS): with the classes loaded ahead, a JVM starts with half the CPU time.

`minutebook prepare` makes one per installation, Java, set of jars and set of classes; the JVM writes it when it ends.
A JVM that cannot use an archive, for example in an installation that was moved, starts without it. A truncated
archive would crash the JVM: the file's name holds its size, and a file of another size is not used.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from minutebook.errors import MinutebookError

_ANSWER_SECONDS: Final = 20
_QUIET: Final = "-Xlog:cds=off,cds+dynamic=off,class+path=off"
"""Otherwise the JVM writes its warnings about class archives to stdout, among the log lines."""


def archive_folder(name: str, java: Path, parts: Iterable[bytes]) -> Path:
    """Return the folder of the archive for this Java and these parts; it may not exist yet."""
    digest = hashlib.sha256(_answer(java))
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return Path(sys.prefix, "share", "minutebook", f"{name}-{digest.hexdigest()[:16]}")


def use_options(folder: Path) -> list[str]:
    """Return the JVM's options that use the archive in a folder; empty if there is no complete one."""
    complete = [path for path in sorted(folder.glob("classes-*.jsa")) if path.name == _name(_size(path))]
    return [_QUIET, f"-XX:SharedArchiveFile={complete[0]}"] if complete else []


@contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Create an archive's folder; raises MinutebookError if the block cannot write into it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as exc:
        raise MinutebookError(
            f"{folder} cannot be written: {exc.strerror}",
            next_step="run it as the user who installs, at installation",
        ) from exc


class Making:
    """The archive that a JVM writes when it ends; `keep` verifies it and gives it its name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._unfinished = folder / f"unfinished-{os.getpid()}.jsa"

    @property
    def options(self) -> list[str]:
        """The options of the JVM that writes the archive."""
        return [_QUIET, f"-XX:ArchiveClassesAtExit={self._unfinished}"]

    def keep(self, java: Path) -> Path:
        """Verify the archive's checksums and rename it; raises MinutebookError if it is missing or incomplete."""
        verified = self._unfinished.is_file() and _answer(
            java, "-XX:+VerifySharedSpaces", f"-XX:SharedArchiveFile={self._unfinished}"
        )
        if not verified:
            self._unfinished.unlink(missing_ok=True)
            raise MinutebookError(
                f"the JVM wrote no class archive into {self._folder}",
                next_step="use a HotSpot JVM of version 17 or later, and a disk with 300 MB; "
                "everything runs without the archive, too",
            )
        for older in self._folder.glob("classes-*.jsa"):
            older.unlink(missing_ok=True)  # another `prepare` may do the same
        return self._unfinished.replace(self._folder / _name(self._unfinished.stat().st_size))


def _size(path: Path) -> int:
    """Return the size of a file; -1 if another `prepare` has just removed it."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return -1


def _name(size: int) -> str:
    return f"classes-{size}.jsa"


def _answer(java: Path, *options: str) -> bytes:
    """Return the output of `java -version`, or b"" if it fails; the start of the JVM reports the error."""
    try:
        answer = subprocess.run(  # noqa: S603 - the Java that is about to be started
            [java, *options, "-version"], capture_output=True, timeout=_ANSWER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return b"" if answer.returncode else answer.stderr + answer.stdout
