"""Bento, a peer: the same stream into a gzip file of JSON lines, at least once (`bento.yaml`)."""

import gzip
import os
import subprocess
from pathlib import Path
from typing import Any, Final

from benchmarks.processes import cpu_seconds
from demo.embedded import EmbeddedAws
from minutebook.clock import SystemClock

_CLOCK: Final = SystemClock()
_FILE: Final = Path(__file__).with_name("bento.yaml")
_QUIET_SECONDS: Final = 12
"""More than a batch may wait: once nothing new was written for so long, all is."""
_MOST_SECONDS: Final = 600


def run(program: Path, aws: EmbeddedAws, folder: Path, kinesis: str, *, megabytes: float) -> dict[str, Any]:
    """Archive the stream once; `records` are the lines that were written."""
    name = f"bento{_CLOCK.now_ms()}"
    written = folder / f"{name}.jsonl.gz"
    environment = {
        **aws.environment,
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "BENCH_NAME": name,
        "BENCH_FILE": str(written),
        "AWS_ENDPOINT_URL_KINESIS": kinesis,
        "AWS_ENDPOINT_URL_DYNAMODB": aws.dynamodb_endpoint,
    }
    began = _CLOCK.monotonic()
    log = folder / f"{name}.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(  # noqa: S603 - the program that the caller names
            [str(program), "-c", str(_FILE)], env=environment, stdout=sink, stderr=sink, start_new_session=True
        )
    try:
        size, changed = 0, began
        while size == 0 or _CLOCK.monotonic() - changed < _QUIET_SECONDS:
            _CLOCK.sleep(0.5)
            if process.poll() is not None or _CLOCK.monotonic() - began > _MOST_SECONDS:
                raise AssertionError(f"it ended, or does not: {log.read_text()[-2000:]}")
            found = written.stat().st_size if written.exists() else 0
            if found != size:
                size, changed = found, _CLOCK.monotonic()
        cpu = cpu_seconds(process.pid)
        status = Path(f"/proc/{process.pid}/status").read_text()
    finally:
        process.kill()
        process.wait()
    lines = gzip.decompress(written.read_bytes()).count(b"\n")
    peak = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    return {"megabytes": megabytes, "cpu": cpu, "seconds": changed - began, "records": lines, "peak_mib": peak}
