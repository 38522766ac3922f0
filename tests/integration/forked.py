"""Commands of `minutebook` as processes that import nothing anew: a server with its modules forks each of them."""

import faulthandler
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from minutebook import cli
from tests.witness.waiting import PATIENCE_SECONDS

_FORKING: Final = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(
    [
        "minutebook",
        "consumer.daemon.consume",
        "consumer.preflight.doctor",
        "consumer.status.command",
        "consumer.restore.command",
        "consumer.expire.command",
        "compaction.commands.audit_and_compact",
        "tests.integration.warm_botocore",
    ]
)


def run_forked(
    words: Sequence[str], *, environment: Mapping[str, str], folder: Path
) -> subprocess.CompletedProcess[str]:
    """Run `minutebook WORDS...` in a folder; returns its exit code and what it wrote.

    Raises:
        TimeoutExpired: it did not end.
    """
    out, err = folder / "stdout", folder / "stderr"
    process = _FORKING.Process(target=_play, args=(list(words), dict(environment), folder, out, err))
    process.start()
    process.join(PATIENCE_SECONDS)
    if process.exitcode is None:
        process.kill()
        process.join()
        raise subprocess.TimeoutExpired(list(words), PATIENCE_SECONDS)
    return subprocess.CompletedProcess(list(words), process.exitcode, out.read_text(), err.read_text())


def _play(words: list[str], environment: dict[str, str], folder: Path, out: Path, err: Path) -> None:
    for path, descriptor in ((out, 1), (err, 2)):
        written = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(written, descriptor)
        os.close(written)
    faulthandler.enable(2)  # a fault of a library is a stack then, and no mere -11
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["minutebook", *words]
    cli.main()
