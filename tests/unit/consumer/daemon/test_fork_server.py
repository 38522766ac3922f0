"""Where the fork server's socket lies."""

from pathlib import Path

import pytest

from consumer.daemon.fork_server import open_door, socket_of
from consumer.forks.stub import connect


@pytest.mark.parametrize("worker", ["w", "w" * 64, "w" * 65, "a-pod-of-kubernetes" * 13, "w" * 247])
def test_a_worker_of_any_name_has_a_socket(tmp_path: Path, worker: str) -> None:
    """An address holds 107 bytes; a worker id as long as a file's name may be was no reason to refuse the start."""
    path = socket_of(tmp_path, worker)
    with open_door(path) as door:
        connect(str(path)).close()
        door.settimeout(1)
        door.accept()[0].close()


def test_two_workers_have_two_sockets(tmp_path: Path) -> None:
    """Also where their long names differ at the end alone."""
    assert len({socket_of(tmp_path, "w" * 80 + end) for end in ("", "1", "2")}) == 3
