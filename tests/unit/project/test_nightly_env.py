"""The nightly job's packed environment: what is left out, what its `python` does, and that it is reproducible."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def program() -> ModuleType:
    """Return the program that `make nightly-env` runs."""
    spec = importlib.util.spec_from_file_location("nightly_env", CHECKOUT / "deploy" / "nightly_env.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_platforms_packages_are_left_out_of_the_lock(program: ModuleType) -> None:
    """And nothing else: every package that is left has its hashes. The stack's night commits to a table."""
    lock = (CHECKOUT / "requirements" / "iceberg.lock").read_text()
    kept = program.without(lock, program.LEFT_OUT)
    assert "pyiceberg==" in kept
    names, left = (re.findall(r"^([a-z0-9-]+)==", text, re.MULTILINE) for text in (lock, kept))
    assert set(names) - set(left) == program.LEFT_OUT
    assert all("--hash=sha256:" in block for block in re.split(r"\n(?=\S)", kept.strip()))


def test_its_python_runs_the_platforms_with_its_packages(program: ModuleType, tmp_path: Path) -> None:
    """Wherever it lies, also when its folder is on PATH; what PYTHONPATH held comes behind."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    home = tmp_path / "any where"
    (home / "bin").mkdir(parents=True)
    (home / "lib").mkdir()
    (home / "lib" / "packed.py").write_text("WHERE = 'here'\n")
    script = home / "bin" / "python"
    script.write_text(program.SCRIPT.format(python=version))
    script.chmod(0o755)
    code = "import os, packed; print(packed.WHERE, os.environ['PYTHONPATH'].split(':')[1:])"
    environment = {"PATH": f"{home}/bin:/usr/bin:/bin", "PYTHONPATH": "/spark", "NIGHTLY_PYTHON": sys.executable}
    done = subprocess.run(
        ["./bin/python", "-c", code], cwd=home, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "here ['/spark']\n"


def test_a_machine_without_that_python_gets_a_sentence(program: ModuleType, tmp_path: Path) -> None:
    """And what to do: nothing is started with another version, whose packages these are not."""
    script = tmp_path / "bin" / "python"
    script.parent.mkdir()
    script.write_text(program.SCRIPT.format(python="3.99"))
    script.chmod(0o755)
    done = subprocess.run([script], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False)
    assert (done.returncode, "needs Python 3.99" in done.stderr, "next step" in done.stderr) == (2, True, True)


def test_nothing_of_this_machine_is_kept(program: ModuleType, tmp_path: Path) -> None:
    """Neither where a wheel came from nor a script that starts this machine's Python, and no record of either."""
    info = tmp_path / "x-1.dist-info"
    for name in ("x.py", "bin/x", "__pycache__/x.pyc", "x-1.dist-info/direct_url.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(str(tmp_path))
    (tmp_path / "x.py").write_text("")
    (info / "RECORD").write_text(
        "x.py,sha256=a,0\nbin/x,sha256=b,9\nx-1.dist-info/direct_url.json,sha256=c,9\nx-1.dist-info/RECORD,,\n"
    )
    program.clean(tmp_path)
    kept = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert kept == {"x.py", "x-1.dist-info/RECORD"}
    assert (info / "RECORD").read_text() == "x.py,sha256=a,0\nx-1.dist-info/RECORD,,\n"


def test_the_same_files_are_the_same_bytes(program: ModuleType, tmp_path: Path) -> None:
    """Whoever wrote them, and whenever."""
    packed = []
    for number in range(2):
        folder = tmp_path / str(number)
        for name in sorted(("b", "a/c"), reverse=bool(number)):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(name)
            os.utime(folder / name, (number, number))
        program.pack(folder, tmp_path / f"{number}.tar.gz")
        packed.append((tmp_path / f"{number}.tar.gz").read_bytes())
    assert packed[0] == packed[1]


@pytest.mark.parametrize(
    ("tag", "fits"),
    [
        ("any", True),
        ("manylinux_2_17_x86_64", True),
        ("manylinux_2_28_x86_64", True),
        ("linux_x86_64", True),
        ("manylinux_2_38_x86_64", False),
        ("manylinux_2_17_aarch64", False),
    ],
)
def test_a_wheel_for_another_c_library_is_built_anew(
    program: ModuleType, tmp_path: Path, tag: str, *, fits: bool
) -> None:
    """Without the codec, which would not load there: an installer of the platform rejects it."""
    wheel = tmp_path / f"minutebook-0.1.0-py3-none-{tag}.whl"
    log, uv = tmp_path / "log", tmp_path / "uv"
    uv.write_text(f'#!/bin/sh\necho "$@" > {log}\ntouch {tmp_path}/built/minutebook-0.1.0-py3-none-any.whl\n')
    uv.chmod(0o755)
    (tmp_path / "built").mkdir()
    chosen = program.fitting(wheel, str(uv), "x86_64-manylinux_2_28", tmp_path / "built")
    assert (chosen == wheel, log.exists()) == (fits, not fits)
