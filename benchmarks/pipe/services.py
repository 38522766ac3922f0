"""The server that takes the PUTs, and the settings with which a process finds it."""

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

_PATIENCE_SECONDS = 20.0


class Server(NamedTuple):
    """Its address, and what a client's environment needs to ask it."""

    address: str
    environment: dict[str, str]

    def properties(self, folder: Path) -> Path:
        """Write the properties of a processor that archives to it."""
        path = folder / "bench.properties"
        path.write_text(
            "streamName = bench\napplicationName = bench\nregionName = us-east-1\nminutebook.bucket = bench\n"
            f"minutebook.s3Endpoint = {self.address}\n"
        )
        return path


@contextmanager
def s3_server(folder: Path, *, tls: bool) -> Iterator[Server]:
    """Start it, and stop it in the end. `tls`: with a certificate of its own, made by openssl."""
    environment = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "PYTHONUTF8": "1"}
    command = [sys.executable, "-m", "benchmarks.pipe.s3_server", str(folder / "port")]
    (folder / "port").unlink(missing_ok=True)
    if tls:
        certificate = folder / "certificate.pem"
        _make_certificate(certificate)
        command.append(str(certificate))
        environment["AWS_CA_BUNDLE"] = str(certificate)
    process = subprocess.Popen(command, stdin=subprocess.PIPE)  # noqa: S603 - our own
    try:
        port = read_port(folder / "port")
        yield Server(f"{'https' if tls else 'http'}://127.0.0.1:{port}", environment)
    finally:
        process.communicate()


def read_port(file: Path) -> str:
    """Return the port that a server wrote into a file once it listened."""
    deadline = time.monotonic() + _PATIENCE_SECONDS  # noqa: TID251 - real processes take real time
    while time.monotonic() < deadline:  # noqa: TID251
        if file.exists() and (text := file.read_text()):
            return text
        time.sleep(0.05)  # noqa: TID251
    raise TimeoutError("the server did not start")


def _make_certificate(path: Path) -> None:
    made = subprocess.run(  # noqa: S603 - a fixed argument list
        [
            shutil.which("openssl") or "openssl",
            *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "/dev/stdout"),
        ],
        capture_output=True,
        check=True,
    )
    path.write_bytes(made.stdout)
