"""Commits of a day to an Iceberg table in processes that SIGKILL ends at a step: for tests of crashes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from minutebook.store.places import StorePrefix
from minutebook.store.storage import Address
from tests.fakes.failing_catalog import Kill
from tests.integration.lake import DAY, Lake

_ROOT = Path(__file__).parents[2]


class KilledCommits:
    """A process that has loaded all that a commit needs, and forks each of them."""

    def __init__(self, orders: IO[str], codes: IO[str]) -> None:
        self._orders = orders
        self._codes = codes

    def kill(self, lake: Lake, at: int) -> bool:
        """Commit the day, and kill the process in front of the step of that number; False: it was done before."""
        given = {"root": lake.shelf.place.address.root, "properties": lake.properties, "name": lake.name, "at": at}
        self._orders.write(json.dumps(given) + "\n")
        self._orders.flush()
        code = int(self._codes.readline())
        if code not in {0, -signal.SIGKILL}:
            raise RuntimeError(f"the commit ended with {code}; its traceback is on stderr")
        return code != 0


@contextmanager
def killed_commits() -> Iterator[KilledCommits]:
    """Start the process; it ends with the block."""
    command = [sys.executable, "-m", __name__]
    with subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield KilledCommits(process.stdin, process.stdout)


def main() -> None:
    """Commit as each line tells, in a child; answer with how it ended. No thread is there that a child would miss."""
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            os.dup2(2, 1)  # what it logs is no answer
            sys.exit(commit(line))
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def commit(text: str) -> int:
    """Commit."""
    given = json.loads(text)
    lake = Lake(StorePrefix(Address(None, given["root"]), "tables/"), given["properties"], given["name"])
    return 0 if lake.commit(DAY, Kill(given["at"])) == "committed" else 1


if __name__ == "__main__":
    main()
