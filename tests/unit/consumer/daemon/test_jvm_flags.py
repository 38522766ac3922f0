"""Our flags of the daemon's JVM, and the user's own options, which win."""

import re

import pytest

from consumer.daemon.prepared.jvm_flags import USER_VARIABLES, jvm_flags

_ALL = [
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xms24m",
    "-XX:MinHeapFreeRatio=10",
    "-XX:MaxHeapFreeRatio=20",
]
_COLLECTOR, _COMPILER, _START, _RATIOS = _ALL[:1], _ALL[1:2], _ALL[2:3], _ALL[3:]


def test_a_daemon_of_nobodys_choosing_gets_all_flags() -> None:
    """But no bound of the heap: one of ours could be too small for a catch-up."""
    assert jvm_flags({"PATH": "/usr/bin"}) == _ALL
    assert not any(re.match("-Xmx|-XX:Max(Heap|RAM)(Size|Percentage)", flag) for flag in _ALL)


@pytest.mark.parametrize("variable", USER_VARIABLES)
@pytest.mark.parametrize(
    ("users", "left_out"),
    [
        ("-XX:+UseG1GC", _COLLECTOR),
        ("-XX:+UseParallelGC", _COLLECTOR),
        ("-XX:-UseSerialGC", _COLLECTOR),
        ("-XX:G1HeapRegionSize=4m", _COLLECTOR),
        ("-XX:+G1UseAdaptiveIHOP", _COLLECTOR),
        ("-XX:+AggressiveHeap", _COLLECTOR),
        ("-XX:TieredStopAtLevel=4", _COMPILER),
        ("-XX:-TieredCompilation", _COMPILER),
        ("-Xint", _COMPILER),
        ("-Xmx1g -Xms512m", _START),
        ("-XX:InitialRAMPercentage=10", _START),
        ("-Xmn256m", _START),
        ("-XX:MinHeapFreeRatio=40", _RATIOS),
        ("-XX:MaxHeapFreeRatio=70 -Dx=y", _RATIOS),
        ("-XX:+UseZGC -Xms1g -XX:MaxHeapFreeRatio=70", [*_COLLECTOR, *_START, *_RATIOS]),
        ("-Xmx1g", []),
        ("-XX:+UseGCOverheadLimit -XX:+UseDynamicNumberOfGCThreads -Dhttp.proxyHost=proxy.example.com", []),
        ("-XX:Flags=/etc/jvm.flags", _ALL),
        ("-XX:VMOptionsFile=/etc/jvm.options", _ALL),
        ("@/etc/jvm.options", _ALL),
    ],
)
def test_where_the_user_says_anything_our_flags_about_it_are_left_out(
    variable: str, users: str, left_out: list[str]
) -> None:
    """The command line comes after JAVA_TOOL_OPTIONS, and would win; what a file of options says is not read."""
    assert jvm_flags({variable: users}) == [flag for flag in _ALL if flag not in left_out]
