"""Flags of the daemon's JVM: it is idle for most of its life, and should be small then. Pure.

The serial collector needs no threads and tables of its own, and with the free ratios gives back at a full collection
what the heap has above its need; the first compiler alone keeps no profiles of methods. There is no `-Xmx`: in a
catch-up a heap of our choosing could be too small (docs/decisions/0048-the-idle-daemon.md).

A user sets options in the environment. The JVM reads them in this order, and the later one wins:

    JAVA_TOOL_OPTIONS, then JDK_JAVA_OPTIONS, then the command line, then _JAVA_OPTIONS

so a flag of ours would beat the user's, and a JVM with two collectors does not start. Where the user says anything
about a subject, our flags on that subject are left out.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

USER_VARIABLES: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
_FILE_OF_OPTIONS: Final = re.compile(r"(?:^|\s)@|-XX:(?:Flags|VMOptionsFile)=")
"""What it says is not read here, and may be about anything."""


class _Subject(NamedTuple):
    """Flags of ours, and the user's options that are about the same."""

    flags: tuple[str, ...]
    users: re.Pattern[str]


_SUBJECTS: Final = (
    _Subject(("-XX:+UseSerialGC",), re.compile(r"-XX:[+-]?(?:Use\w*GC\b|AggressiveHeap|G1)")),
    _Subject(
        ("-XX:TieredStopAtLevel=1",),
        re.compile(r"-Xint|-Xcomp|-XX:(?:[+-]?TieredCompilation\b|TieredStopAtLevel|CompilationMode|[+-]UseJVMCI)"),
    ),
    _Subject(("-Xms24m",), re.compile(r"-Xm[ns]|-XX:(?:Initial(?:HeapSize|RAMPercentage)|MinHeapSize|NewSize)")),
    # A pair: the JVM refuses a least share above the greatest.
    _Subject(("-XX:MinHeapFreeRatio=10", "-XX:MaxHeapFreeRatio=20"), re.compile(r"-XX:M(?:in|ax)HeapFreeRatio")),
)


def jvm_flags(environ: Mapping[str, str]) -> list[str]:
    """Return our flags for the command line, without those on which the user's environment has a say."""
    users = " ".join(environ.get(name, "") for name in USER_VARIABLES)
    if _FILE_OF_OPTIONS.search(users):
        return []
    return [flag for subject in _SUBJECTS if not subject.users.search(users) for flag in subject.flags]
