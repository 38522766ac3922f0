#!/usr/bin/env python3
"""Build the environment of the nightly job as one archive: `make nightly-env`.

    minutebook-nightly-VERSION-pyXY-PLATFORM.tar.gz
      lib/          the packages of requirements/iceberg.lock and Minutebook itself, with their own binaries
      bin/python    a script: the platform's own Python X.Y, with lib/ on its path

Platforms take it as a packed environment (`spark.archives=...#environment`, PYSPARK_PYTHON
`./environment/bin/python`). It may be for another kind of machine than this one and works wherever it is unpacked:
nothing is compiled, and it holds no path of this machine. It holds neither PySpark, which is the platform's, nor KCL.
The same packages and sources give the same bytes.
"""

import argparse
import gzip
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parents[1]
LEFT_OUT: Final = frozenset({"amazon-kclpy", "py4j", "pyspark"})
"""What the platform brings, or the nightly job never loads."""
_MACHINE_NOTES: Final = ("direct_url.json", "uv_cache.json", ".lock")
"""Files in which an installer notes where on this machine a package came from."""
SCRIPT: Final = """\
#!/bin/sh
# Runs the platform's Python {python} with the packages of this environment, wherever it was unpacked.
here=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd) || exit 127
base="${{NIGHTLY_PYTHON:-}}"
[ -n "$base" ] || base=$(command -v python{python}) || base=
case "$base" in "" | "$here"/*)
    for base in /usr/bin/python{python} /usr/local/bin/python{python} ""; do [ -x "$base" ] && break; done ;;
esac
if [ -z "$base" ]; then
    echo "minutebook: this environment needs Python {python}, and this machine has none" >&2
    echo "next step: build it for the Python that is there (make nightly-env PY=3.12), or set NIGHTLY_PYTHON" >&2
    exit 2
fi
PYTHONPATH="$here/lib${{PYTHONPATH:+:$PYTHONPATH}}"
export PYTHONPATH
exec "$base" "$@"
"""


def main() -> int:
    """Build the archive; print where it is."""
    parser = argparse.ArgumentParser(prog="make nightly-env", description=__doc__)
    parser.add_argument("--uv", required=True, help="uv's command")
    parser.add_argument(
        "--out", type=Path, required=True, help="a folder with Minutebook's wheel; the archive goes there"
    )
    parser.add_argument("--python", default="3.11", help="the platform's Python")
    parser.add_argument(
        "--platform", default="x86_64-manylinux_2_28", help="as uv names it; ARM: aarch64-manylinux_2_28"
    )
    options = parser.parse_args()
    wheels = sorted(options.out.glob("minutebook-*.whl"), key=lambda wheel: wheel.stat().st_mtime)
    if not wheels:
        sys.stderr.write(f"nightly-env: no wheel of Minutebook in {options.out}: run make dist\n")
        return 2
    version = wheels[-1].name.split("-")[1]
    short = options.python.replace(".", "")
    target = options.out / f"minutebook-nightly-{version}-py{short}-{options.platform.partition('-')[0]}.tar.gz"
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as built:
        folder = Path(name)
        wheel = fitting(wheels[-1], options.uv, options.platform, Path(built))
        build(folder, options.uv, wheel, options.python, options.platform)
        pack(folder, target)
    shutil.copyfile(CHECKOUT / "compaction" / "spark_submit.py", options.out / "spark_submit.py")
    sys.stdout.write(f"{target}\n{options.out / 'spark_submit.py'}\n")
    return 0


def fitting(wheel: Path, uv: str, platform: str, folder: Path) -> Path:
    """Return a wheel for that platform: this one; for another machine or an older glibc one without the codec."""
    machine = platform.partition("-")[0]
    if wheel.stem.endswith(("-any", f"_{machine}")) and _glibc(wheel.stem) <= (_glibc(platform) or (99,)):
        return wheel
    command = [uv, "build", "--quiet", "--wheel", "--out-dir", str(folder), "--require-hashes"]
    command += ["--build-constraints", str(CHECKOUT / "requirements" / "build.lock")]
    command += [str(wheel.with_name(f"{'-'.join(wheel.name.split('-')[:2])}.tar.gz"))]
    subprocess.run(command, check=True, env={**os.environ, "MINUTEBOOK_NATIVE": "0"})  # noqa: S603 - fixed words
    (pure,) = folder.glob("minutebook-*.whl")
    return pure


def _glibc(text: str) -> tuple[int, ...]:
    """Return the version of glibc in the name of a wheel or a platform; empty if it names none."""
    return tuple(int(part) for part in (re.findall(r"manylinux_(\d+)_(\d+)", text) or [()])[0])


def build(folder: Path, uv: str, wheel: Path, python: str, platform: str) -> None:
    """Fill a folder with the environment."""
    lock = folder / "packages.lock"
    lock.write_text(without((CHECKOUT / "requirements" / "iceberg.lock").read_text(), LEFT_OUT))
    install = [uv, "pip", "install", "--quiet", "--no-deps", "--target", str(folder / "lib")]
    install += ["--python", sys.executable, "--python-version", python, "--python-platform", platform]
    subprocess.run([*install, "--only-binary", ":all:", "--require-hashes", "--requirement", str(lock)], check=True)  # noqa: S603 - fixed words
    subprocess.run([*install, str(wheel)], check=True)  # noqa: S603 - same
    lock.unlink()
    clean(folder / "lib")
    (folder / "bin").mkdir()
    for name in ("python", "python3", f"python{python}"):
        script = folder / "bin" / name
        script.write_text(SCRIPT.format(python=python))
        script.chmod(0o755)


def clean(lib: Path) -> None:
    """Remove what an installer notes of this machine: files, scripts that name its Python, and their records."""
    for path in sorted(lib.rglob("*"), reverse=True):
        if path.name in _MACHINE_NOTES or path.name == "__pycache__":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.rmtree(lib / "bin", ignore_errors=True)
    for record in lib.glob("*.dist-info/RECORD"):
        lines = record.read_text().splitlines(keepends=True)
        record.write_text("".join(line for line in lines if (lib / line.partition(",")[0]).exists()))


def without(lock: str, names: frozenset[str]) -> str:
    """Return a lock without some packages."""
    blocks = re.split(r"\n(?=\S)", lock.strip())
    kept = [block for block in blocks if re.split(r"[=\[ ]", block, maxsplit=1)[0].lower() not in names]
    return "\n".join(kept) + "\n"


def pack(folder: Path, target: Path) -> None:
    """Write the folder as an archive: the same files give the same bytes."""
    with (
        target.open("wb") as handle,
        gzip.GzipFile(filename="", mode="wb", fileobj=handle, compresslevel=6, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in _sorted(folder):
            info = archive.gettarinfo(str(path), path.relative_to(folder).as_posix())
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            info.mtime = 0
            if path.is_file():
                with path.open("rb") as source:
                    archive.addfile(info, source)
            else:
                archive.addfile(info)


def _sorted(folder: Path) -> Iterator[Path]:
    yield from sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).as_posix())


if __name__ == "__main__":
    sys.exit(main())
