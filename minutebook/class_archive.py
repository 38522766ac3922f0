"""Class archives: the classes of a JVM of ours, parsed and checked ahead, so that it starts with half the CPU time.

They are HotSpot's own (AppCDS; a dynamic archive, written when a JVM ends). `minutebook prepare` makes them, once
for an installation, and every later start uses the one that was made for this Java, these jars and these classes.
A JVM that cannot use an archive after all (the installation was moved) starts without it, and as it always did. A
file that was cut short would crash it: the name holds the size, and a file of another size is not used.
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
"""It says on stdout, where log lines belong, which classes an archive cannot hold, and that it is not used."""


def archive_folder(name: str, java: Path, parts: Iterable[bytes]) -> Path:
    """Return where this installation keeps the archive of these parts on this Java; the folder may be missing."""
    digest = hashlib.sha256(_answer(java))
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return Path(sys.prefix, "share", "minutebook", f"{name}-{digest.hexdigest()[:16]}")


def use_options(folder: Path) -> list[str]:
    """Return the JVM's options that use the archive in a folder: none where there is none."""
    whole = [path for path in sorted(folder.glob("classes-*.jsa")) if path.name == _name(_size(path))]
    return [_QUIET, f"-XX:SharedArchiveFile={whole[0]}"] if whole else []


@contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Make a folder of an archive, and put something into it.

    Raises:
        MinutebookError: it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as exc:
        raise MinutebookError(
            f"{folder} cannot be written: {exc.strerror}",
            next_step="run it as the user who installs, at installation",
        ) from exc


class Making:
    """The archive that a JVM writes when it ends; it counts once `keep` was called."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._unfinished = folder / f"unfinished-{os.getpid()}.jsa"

    @property
    def options(self) -> list[str]:
        """The JVM's options."""
        return [_QUIET, f"-XX:ArchiveClassesAtExit={self._unfinished}"]

    def keep(self, java: Path) -> Path:
        """Let the JVM compare the archive with its checksums, and give it its name.

        Raises:
            MinutebookError: the JVM wrote none, or not a whole one.
        """
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
    """Return the size of a file; -1 where a `prepare` has removed it in this moment."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return -1


def _name(size: int) -> str:
    return f"classes-{size}.jsa"


def _answer(java: Path, *options: str) -> bytes:
    """Return what a Java says of its version; nothing where it fails, which whoever starts it says better."""
    try:
        answer = subprocess.run(  # noqa: S603 - the Java that is about to be started
            [java, *options, "-version"], capture_output=True, timeout=_ANSWER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return b"" if answer.returncode else answer.stderr + answer.stdout
