"""Commands of `minutebook`, each in a process of its own, as an operator types them."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from minutebook.errors import MinutebookError

_INHERITED = ("PATH", "HOME", "LANG", "TMPDIR")


def run_minutebook(
    words: Sequence[str], environment: Mapping[str, str], seconds: float
) -> subprocess.CompletedProcess[str]:
    """Run `minutebook WORDS...` with these variables, and of our own only those that a program needs.

    Raises:
        MinutebookError: it did not end in time; it was killed then.
    """
    program = str(Path(sys.executable).with_name("minutebook"))
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    try:
        return subprocess.run(
            [program, *words],
            env={**inherited, **environment},
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired as exc:
        raise MinutebookError(f"minutebook {words[0]} did not end within {seconds:g} s") from exc
