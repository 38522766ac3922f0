"""Compare the daemon's jars with those that this version was tested with.

Installing amazon_kclpy downloads them from any configured mirror and verifies nothing. `kcl-jars.sha256` lists the
digests (`sha256sum *.jar`) for one version of KCL.
"""

import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

from consumer.preflight.check import Check
from consumer.preflight.java import kcl_version
from minutebook.wording import some_of

_NAME: Final = "java"
_REINSTALL: Final = "pip install --force-reinstall --no-cache-dir amazon_kclpy downloads them again"
_NAMED: Final = 5


def known_digests() -> Mapping[str, str]:
    """Return file name -> SHA-256 of the tested jars."""
    rows = (line.split() for line in files("consumer.preflight").joinpath("kcl-jars.sha256").read_text().splitlines())
    return {name: digest for digest, name in rows}


def check_jar_digests(jars: Sequence[Path], tested: Mapping[str, str]) -> Check:
    """Compare every jar. Another version of KCL gives "unknown", not a failure."""
    version = kcl_version(tuple(jars))
    known = kcl_version(tuple(Path(name) for name in tested))
    if version != known:
        return Check.unknown(
            _NAME,
            f"KCL {version} is not the one that this version was tested with, {known}: its jars are not compared",
            next_step=f"pip install amazon_kclpy=={known}",
        )
    present = {jar.name: _sha256(jar) for jar in jars}
    missing = sorted(tested.keys() - present.keys())
    if missing:
        return Check.failed(_NAME, f"jars are missing: {some_of(missing, _NAMED)}", next_step=_REINSTALL, exit_code=2)
    changed = sorted(name for name, digest in tested.items() if present[name] != digest)
    if changed:
        return Check.failed(
            _NAME,
            f"jars differ from those that KCL {known} was tested with (SHA-256): {some_of(changed, _NAMED)}",
            next_step=f"find out where they came from (KCL_MVN_REPO_SEARCH_URL, a proxy, a pip cache); {_REINSTALL}",
            exit_code=2,
        )
    added = sorted(present.keys() - tested.keys())
    if added:
        return Check.warn(
            _NAME,
            f"jars that do not belong to KCL {known}: {some_of(added, _NAMED)}",
            next_step="remove them, unless you put them there",
        )
    return Check.ok(_NAME, f"KCL {version}, {len(present)} jars, each with its SHA-256")


def _sha256(jar: Path) -> str:
    with jar.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
