"""The real JVM with our flags on its command line and the user's options in its environment."""

import os
import re
import subprocess

import pytest

from consumer.daemon.prepared.jvm_flags import USER_VARIABLES, jvm_flags
from consumer.preflight.java import find_java


@pytest.mark.parametrize(
    ("users", "expected"),
    [
        ("-XX:+UseG1GC", {"UseG1GC": "true", "UseSerialGC": "false", "TieredStopAtLevel": "1"}),
        ("-XX:-TieredCompilation", {"TieredCompilation": "false", "UseSerialGC": "true"}),
        ("-XX:MinHeapFreeRatio=40", {"MinHeapFreeRatio": "40", "MaxHeapFreeRatio": "70"}),
        ("-Xms96m -Xmx256m", {"InitialHeapSize": str(96 << 20), "MaxHeapSize": str(256 << 20)}),
        ("-Xmx256m", {"InitialHeapSize": str(24 << 20), "MaxHeapSize": str(256 << 20)}),
    ],
)
@pytest.mark.parametrize("variable", USER_VARIABLES)
def test_a_jvm_with_both_starts_and_does_what_the_user_says(
    variable: str, users: str, expected: dict[str, str]
) -> None:
    """Two collectors, or a least share of free heap above the greatest, would keep it from starting."""
    environ = {variable: users}
    java = find_java(os.environ).program
    done = subprocess.run(
        [java, *jvm_flags(environ), "-XX:+PrintFlagsFinal", "-version"],
        env=environ,
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    final = dict(re.findall(r"^ *\S+ (\w+) +:?= (\S+)", done.stdout, re.MULTILINE))
    assert {name: final[name] for name in expected} == expected
