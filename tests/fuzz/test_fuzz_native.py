"""The codec in C touches no byte that it was not given, and takes nothing that Python reads otherwise."""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.searching import IS_DEEP

ROOT = Path(__file__).parents[2]
CASES = 100_000 if IS_DEEP else 1_000
COMPILER = shutil.which("gcc")


@pytest.mark.skipif(COMPILER is None, reason="no gcc, whose sanitizers it takes")
@pytest.mark.parametrize("level", ["-O1", "-O3"] if IS_DEEP else ["-O3"])
def test_damaged_text_under_sanitizers(level: str, tmp_path: Path) -> None:
    """Compiled with AddressSanitizer and UndefinedBehaviorSanitizer, which end the program."""
    library = tmp_path / "codec.so"
    words = ["-std=c11", level, "-g", "-fPIC", "-shared", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    sources = [str(path) for path in (ROOT / "minutebook" / "codec" / "src").glob("*.c")]
    subprocess.run([str(COMPILER), *words, "-Wall", "-Wextra", "-Werror", *sources, "-o", str(library)], check=True)
    runtimes = [
        subprocess.run(
            [str(COMPILER), f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    seed = random.randrange(10**6) if CASES > 5_000 else 1
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.sanitized", str(library), str(CASES), str(seed)],
        cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": " ".join(runtimes), "ASAN_OPTIONS": "detect_leaks=0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"seed {seed}: {done.stderr[-3000:]}"
    taken = json.loads(done.stdout)
    assert min(taken.values()) > CASES // 20
