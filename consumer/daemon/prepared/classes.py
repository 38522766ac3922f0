"""The daemon's class path, and where its prepared classes lie.

HotSpot archives classes of jars only, so our own classes go into a jar beside the class archive.
"""

import os
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from consumer.preflight.java import find_shims
from minutebook.class_archive import archive_folder, use_options

MAIN_CLASS: Final = "software.amazon.kinesis.multilang.BoundedMultiLangDaemon"
"""KCL's MultiLangDaemon with a limit for an aggregate's deaggregated size; in `consumer/daemon/classes`."""
FLEET_CLASS: Final = "software.amazon.kinesis.multilang.FleetDaemon"
"""One daemon for several streams, with an ordinary Scheduler of KCL for each; in `consumer/daemon/classes`."""
FLEET_CLASSES: Final = (
    FLEET_CLASS,
    "software.amazon.kinesis.multilang.FleetStream",
    "software.amazon.kinesis.multilang.FleetStream$Processor",
    "minutebook.StreamOfThread",
)
LOADED_AHEAD: Final = "minutebook.LoadedAhead"
"""Loads classes, and runs the last one; in `consumer/daemon/classes`."""
_JAR: Final = "minutebook.jar"
_BEGIN: Final = (1980, 1, 1, 0, 0, 0)


class Classes(NamedTuple):
    """A JVM's options before the class path, and the parts of the class path in order."""

    options: tuple[str, ...]
    path: tuple[Path, ...]


def find_classes(java: Path, jars: Sequence[Path]) -> Classes:
    """Return the prepared classes of this installation, else the plain ones; ours last: real libraries win."""
    folder = prepared_folder(java, jars)
    options = use_options(folder)
    return Classes(tuple(options), (*jars, folder / _JAR if options else find_shims()))


def prepared_folder(java: Path, jars: Sequence[Path]) -> Path:
    """Return the folder of the prepared classes for this Java, these jars and our present classes."""
    names = os.pathsep.join(f"{jar}:{jar.stat().st_size}:{jar.stat().st_mtime_ns}" for jar in jars)
    return archive_folder("daemon", java, [names.encode(), *(path.read_bytes() for path in _class_files())])


def make_jar(folder: Path) -> Path:
    """Write our classes into a jar of the folder, with the same bytes each time.

    An equal jar is left untouched: HotSpot accepts a class archive only with the jar's modification time.
    """
    jar = folder / _JAR
    unfinished = folder / f"{_JAR}.{os.getpid()}"
    with zipfile.ZipFile(unfinished, "w") as archive:
        for path in _class_files():
            archive.writestr(zipfile.ZipInfo(path.relative_to(find_shims()).as_posix(), _BEGIN), path.read_bytes())
    if jar.is_file() and jar.read_bytes() == unfinished.read_bytes():
        unfinished.unlink()
    else:
        unfinished.replace(jar)
    return jar


def _class_files() -> Iterator[Path]:
    yield from sorted(find_shims().rglob("*.class"))
