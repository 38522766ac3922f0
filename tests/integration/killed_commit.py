"""A commit of a day to an Iceberg table in a process of its own that SIGKILL ends at a step: for tests of crashes."""

import json
import signal
import subprocess
import sys
from pathlib import Path

from archive.store.places import StorePrefix
from archive.store.storage import Address
from tests.fakes.failing_catalog import Kill
from tests.integration.lake import DAY, Lake

_ROOT = Path(__file__).parents[2]


def killed_commit(lake: Lake, at: int) -> bool:
    """Commit the day, and kill the process in front of the step of that number; False: it was done before."""
    given = {"root": lake.shelf.place.address.root, "properties": lake.properties, "name": lake.name, "at": at}
    done = subprocess.run(
        [sys.executable, "-m", __name__, json.dumps(given)], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode not in {0, -signal.SIGKILL}:
        raise RuntimeError(done.stderr)
    return done.returncode != 0


def main(text: str) -> int:
    """Commit."""
    given = json.loads(text)
    lake = Lake(StorePrefix(Address(None, given["root"]), "tables/"), given["properties"], given["name"])
    return 0 if lake.commit(DAY, Kill(given["at"])) == "committed" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
