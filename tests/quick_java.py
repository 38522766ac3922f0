"""The Java of tests: it compiles quickly instead of well, and has class archives of its own.

`tests.prepare` makes them. A JVM finds the archives of the Java that it is by what that says of its version, and one
with our option says that it is another: archives that the machine's own Java made are not used.
"""

import os
import shlex
from pathlib import Path

from demo.bootstrap import ensure_java


def quick_java(home: Path) -> dict[str, str]:
    """Make a Java home whose JVMs are those of tests, none of which lives for long; return who finds it where."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(str(ensure_java()))} -XX:TieredStopAtLevel=1 "$@"\n')
    program.chmod(0o755)
    return {"JAVA_HOME": str(home), "PATH": f"{program.parent}:{os.environ['PATH']}"}
