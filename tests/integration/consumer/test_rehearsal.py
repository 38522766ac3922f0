"""The fork server's rehearsal: what it touches, what it needs, and what it leaves behind."""

from pathlib import Path

from demo.processes import descendants
from tests.integration.archive_site import Site
from tests.integration.fork_site import links


def test_the_rehearsal_touches_no_archive(site: Site) -> None:
    """It commits segments and markers: on its own stage alone."""
    with site.forks() as forks:
        forks.events.wait("rehearsed")
        assert forks.events.all("rehearsal_failed") == []
    assert site.objects() == {}


SMALL_PIPES = """
import fcntl, os

make = os.pipe

def pipe():
    ends = make()
    fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, 8192)
    return ends

os.pipe = pipe
"""


def test_the_rehearsal_needs_no_room_in_a_pipe(site: Site, tmp_path: Path) -> None:
    """Where one user has a thousand pipes, Linux makes new ones 8 KiB small: it would wait for itself for ever."""
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SMALL_PIPES)
    with site.forks(environment={"PYTHONPATH": str(folder)}) as forks:
        forks.events.wait("fork_server_ready")
        assert forks.events.all("rehearsal_failed") == []


def test_the_rehearsal_leaves_nothing_but_memory(site: Site) -> None:
    """No thread, no connection, no child, no line; with an address of TLS as of AWS, nobody is asked meanwhile."""
    with site.forks(s3Endpoint="https://127.0.0.1:1") as forks:
        forks.events.wait("fork_server_ready")
        assert forks.events.all("rehearsal_failed") == []
        assert [event for event in forks.events.tail.splitlines() if "segment_committed" in event] == []
        assert descendants(forks.server.pid) == []
        assert len(list(Path(f"/proc/{forks.server.pid}/task").iterdir())) == 1
        sockets = [link for link in links(forks.server.pid).values() if link.startswith("socket")]
    assert len(sockets) == 1, "the one that it listens on"
