"""The fork server's warm-up: what it touches, what it needs, and what it leaves behind."""

import socket
from pathlib import Path

from demo.processes import descendants
from tests.integration.archive_site import Site
from tests.integration.fork_site import Forks, links


def test_the_warm_up_writes_nothing_to_the_archive(site: Site) -> None:
    """It opens a shard, with the markers of that, for botocore's hook alone; and of the archive it only reads."""
    with site.forks() as forks:
        assert forks.events.wait("rehearsed")["skipped"] is None
        forks.events.wait("fork_server_ready")
        assert forks.events.all("rehearsal_failed") == []
        assert_nothing_is_left(forks)
    assert site.objects() == {}


def test_the_warm_up_leaves_nothing_but_memory(site: Site) -> None:
    """No thread, no connection, no child, no line of a shard; a service that is not there is named in a line."""
    with site.forks(s3Endpoint="https://127.0.0.1:1") as forks:
        assert "127.0.0.1:1" in forks.events.wait("rehearsed")["skipped"]
        forks.events.wait("fork_server_ready")
        assert forks.events.all("rehearsal_failed") == []
        assert [event for event in forks.events.tail.splitlines() if "shard_opened" in event] == []
        assert_nothing_is_left(forks)


def test_the_warm_up_waits_for_no_service(site: Site) -> None:
    """A store that takes connections and never answers would hold every shard up for a minute."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with site.forks(s3Endpoint=endpoint) as forks:
            line = forks.events.wait("rehearsed")
            forks.events.wait("fork_server_ready")
            assert_nothing_is_left(forks)
    assert "GET raw/_application.json" in line["skipped"]
    assert 2 <= line["seconds"] < 60


def assert_nothing_is_left(forks: Forks) -> None:
    """Neither a thread nor a child nor a connection."""
    assert descendants(forks.server.pid) == []
    assert len(list(Path(f"/proc/{forks.server.pid}/task").iterdir())) == 1
    sockets = [link for link in links(forks.server.pid).values() if link.startswith("socket")]
    assert len(sockets) == 1, "the one that it listens on"
