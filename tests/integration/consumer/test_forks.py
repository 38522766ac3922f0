"""Processors that are forked: what each has of its own, and who lives as long as whom."""

import os
import resource
import shutil
import signal
import socket
from pathlib import Path

import pytest

from consumer.forks import stub
from tests.fakes.daemon_double import Lease
from tests.fakes.loopback_tls import TlsFront
from tests.fakes.shard import FakeShard
from tests.integration.archive_site import Site
from tests.integration.consumer.test_processor_process import NOISE
from tests.integration.fork_site import Forks, links
from tests.integration.process_daemon import ProcessorEndedError
from tests.integration.supervised import has_gone
from tests.witness.waiting import wait_until


def test_a_forked_processor_archives(site: Site) -> None:
    """Everything, once; the stub ends with 0 when the input does, and the lines are a processor's."""
    site.put(5, 0)
    site.put(5, 1)
    with site.forks() as forks, forks.processor(site.lease) as processor:
        processor.start()
        processor.deliver()
        (forked,) = forks.processors()
        processor.request_shutdown()
        assert processor.close() == 0
        assert has_gone(forked.pid)
        assert processor.events.foreign_lines == []
        assert {line["pid"] for line in processor.events.all("processor_ended")} == {forked.pid}
        assert forks.events.all("rehearsal_failed") == []
    site.assert_exactly_once()


def test_a_stream_that_the_fork_server_was_not_told_of_is_archived(site: Site) -> None:
    """A stream of a fleet that could not be opened at the start, and can be now: the stub brings its file."""
    site.put(5)
    late = {stub.STREAM_VARIABLE: "late", stub.FILE_VARIABLE: str(site.properties())}
    with site.forks() as forks, forks.processor(site.lease, **late) as processor:
        processor.start()
        processor.deliver()
        processor.request_shutdown()
        assert processor.close() == 0
        assert {line["properties"] for line in processor.events.all("shard_opened")} == {"late"}
    site.assert_exactly_once()


def test_two_forked_processors_are_two_writers(site: Site) -> None:
    """Of one id, the loser of a slot would take the winner's segment for its own retried PUT, and lose the rest."""
    site.put(8, 0)
    with site.forks() as forks:
        with forks.processor(site.lease) as first, forks.processor(Lease(site.shard)) as second:
            for processor, count in ((first, 3), (second, 8)):
                processor.start()
                processor.deliver(count)
            first.request_shutdown()
            second.request_shutdown()
        lost = second.events.all("slot_lost")  # its log has been read to the end by now
        ours = [segment.metadata.writer for segment in site.segments()]
    assert len(ours) == len({writer.rpartition("-")[0] for writer in ours}) == 2
    assert len(lost) == 1
    site.assert_exactly_once()


def test_a_stray_print_of_a_forked_processor_does_not_reach_the_protocol(site: Site, tmp_path: Path) -> None:
    """As in a processor that was started by itself."""
    folder = tmp_path / "noise"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(NOISE)
    site.put(3)
    with site.forks(environment={"PYTHONPATH": str(folder)}) as forks, forks.processor(site.lease) as processor:
        processor.start()
        processor.deliver()
        processor.request_shutdown()
        assert processor.close() == 0
        assert len([line for line in processor.events.lines if "responseFor" in line]) >= 4
    site.assert_exactly_once()


def test_lines_tell_their_own_processor_alone(site: Site) -> None:
    """The supervisor goes by the pid: it says who is gone, and which shard has a reader."""
    with site.forks() as forks, forks.processor(site.lease) as first, forks.processor(Lease(FakeShard())) as second:
        for processor in (first, second):
            processor.start()
        pids = {process.pid for process in forks.processors()}
        told = [
            {line["pid"] for name in ("processor_started", "shard_opened") for line in processor.events.all(name)}
            for processor in (first, second)
        ]
        assert {pid for one in told for pid in one} == pids
        assert [len(one) for one in told] == [1, 1]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")
def test_the_processors_connect_by_what_the_fork_server_has_read(site: Site) -> None:
    """A certificate that nobody vouches for is refused in a forked processor, too: what is shared is not less."""
    with TlsFront(site.folder, site.s3_endpoint) as front:
        for environment, code in ((front.environment, 0), ({}, 5)):
            with (
                site.forks(environment=environment, s3Endpoint=front.endpoint, storeTimeoutSeconds=1) as forks,
                forks.processor(Lease(FakeShard())) as processor,
            ):
                if code:
                    with pytest.raises(ProcessorEndedError) as ended:
                        processor.start()
                    assert ended.value.code == code
                else:
                    processor.start()


def test_a_forked_processor_has_its_own_pipes_alone(site: Site) -> None:
    """Neither another shard's, whose end nobody would then notice, nor the server's socket, nor its connections."""
    with site.forks() as forks, forks.processor(site.lease) as first, forks.processor(Lease(FakeShard())):
        one, other = (links(process.pid) for process in forks.wait_for(2))
        wait_until(lambda: "processor_started" in first.events.tail, "it lives")
        assert not {link for link in one.values() if link.startswith("pipe")} & set(other.values())
        for found in (one, other):
            assert len({link for link in found.values() if link.startswith("pipe")}) == 3
            assert not [link for link in found.values() if link.startswith("socket")]


def test_a_forked_processor_takes_turns_with_the_others(site: Site) -> None:
    """A lock of flock(2) is of the open file, which a fork would share: each has opened the file by itself."""
    with site.forks() as forks, forks.processor(site.lease), forks.processor(Lease(FakeShard())):
        pids = [process.pid for process in forks.wait_for(2)]
        wait_until(lambda: all(any(".properties" in link for link in links(pid).values()) for pid in pids), "both")
        assert not any(".properties" in link for link in links(forks.server.pid).values())


def test_a_shard_can_be_opened_when_everybody_is_told_to_stop(site: Site) -> None:
    """Its stub is served: who started the fork server was told, too, and stops the daemon in order."""
    with site.forks() as forks:
        forks.events.wait("fork_server_ready")
        os.kill(forks.server.pid, signal.SIGTERM)
        with forks.processor(site.lease) as processor:
            processor.start()
            processor.request_shutdown()
            assert processor.close() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_do_not_cut_it_short(site: Site, number: signal.Signals) -> None:
    """Neither the stub's nor the processor's: the daemon alone decides about the end."""
    site.put(3)
    with site.forks() as forks, forks.processor(site.lease) as processor:
        processor.start()
        (forked,) = forks.processors()
        processor.signal(number)
        os.kill(forked.pid, number)
        processor.deliver()
        processor.request_shutdown()
        assert processor.close() == 0
    site.assert_exactly_once()


def test_a_killed_processor_ends_its_stub_and_nobody_else(site: Site) -> None:
    """With 128 and the signal's number, as a shell says it; the other shard goes on."""
    site.put(3)
    with site.forks() as forks, forks.processor(Lease(FakeShard())) as other:
        other.start()
        (before,) = forks.processors()
        with forks.processor(site.lease) as processor:
            processor.start()
            (forked,) = (process for process in forks.processors() if process.pid != before.pid)
            os.kill(forked.pid, signal.SIGKILL)
            assert processor.wait() == 128 + signal.SIGKILL
        other.tick()
        assert forks.processors() == [before]
    site.archive_the_rest()
    site.assert_exactly_once()


def test_a_killed_stub_ends_its_processor(site: Site) -> None:
    """Nobody listens to it any more: it would be a zombie writer."""
    site.put(3)
    with site.forks() as forks, forks.processor(site.lease) as processor:
        processor.start()
        (forked,) = forks.processors()
        processor.kill()
        assert has_gone(forked.pid)
    site.archive_the_rest()
    site.assert_exactly_once()


def test_processors_die_with_the_fork_server(site: Site) -> None:
    """By the kernel: a SIGKILL leaves the server no time; and the stubs end, so that the daemon does."""
    site.put(3)
    with site.forks() as forks, forks.processor(site.lease) as processor:
        processor.start()
        (forked,) = forks.processors()
        os.kill(forks.server.pid, signal.SIGKILL)
        assert has_gone(forked.pid)
        with pytest.raises(ProcessorEndedError) as ended:
            processor.deliver()
    assert ended.value.code == 70
    site.archive_the_rest()
    site.assert_exactly_once()


def test_a_fork_server_whose_parent_is_gone_waits_for_its_processors(site: Site) -> None:
    """The daemon still lets them commit. Nobody new is admitted."""
    site.put(3)
    with site.forks() as forks, forks.processor(site.lease) as processor:
        processor.start()
        processor.deliver()
        forks.parent.communicate()
        with forks.processor(Lease(FakeShard())) as late:
            assert late.wait() == 1
            (line,) = late.events.all("processor_failed")
        processor.request_shutdown()
        assert processor.close() == 0
        wait_until(forks.server.has_ended, "the fork server has ended")
        assert forks.reap() == 0
    assert (line["exit_code"], "cannot be reached" in line["error"], bool(line["next_step"])) == (1, True, True)
    site.assert_exactly_once()


def test_an_error_of_a_forked_processor_is_told_as_ever(site: Site) -> None:
    """Its last line, and its exit code through the stub."""
    lease = Lease(site.shard, start="LATEST")
    with site.forks() as forks, forks.processor(lease) as processor:
        with pytest.raises(ProcessorEndedError) as ended:
            processor.start()
        (line,) = processor.events.all("processor_failed")
    assert (ended.value.code, line["exit_code"], line["kind"]) == (2, 2, "SettingsError")


def test_settings_that_a_processor_refuses_end_the_fork_server(site: Site) -> None:
    """With a processor's last line and exit code."""
    with site.forks(lingerSeconds="soon") as forks:
        wait_until(forks.server.has_ended, "it has ended")
        assert forks.reap() == 2
        (line,) = forks.events.all("processor_failed")
    assert line["exit_code"] == 2


def test_it_works_in_a_deep_folder(site: Site) -> None:
    """The address of a socket holds 107 bytes."""
    deep = site.folder / ("d" * 120)
    deep.mkdir()
    with Forks(deep, site.properties(), site.environment()) as forks, forks.processor(site.lease) as processor:
        processor.start()
        processor.tick()


def test_a_lack_of_memory_ends_one_processor(site: Site) -> None:
    """Loudly, with a last line; the others go on."""
    site.put(3)
    with site.forks() as forks, forks.processor(Lease(FakeShard())) as other:
        other.start()
        (before,) = forks.processors()
        with forks.processor(site.lease) as processor:
            processor.start()
            (forked,) = (process for process in forks.processors() if process.pid != before.pid)
            limit_memory(forked.pid, 4 << 20)
            site.put(20_000, 1, size=1000)
            with pytest.raises(ProcessorEndedError) as ended:
                processor.deliver()
            lines = processor.events.all("processor_failed")
        other.tick()
    assert ended.value.code != 0
    assert [line["kind"] for line in lines] == ["MemoryError"]
    site.archive_the_rest()
    site.assert_exactly_once()


@pytest.mark.parametrize("message", [b"x", b""])
def test_whoever_is_no_stub_leaves_no_descriptor(site: Site, message: bytes) -> None:
    """What it sent along is closed, too: else a thousand such callers would leave no room for a stub."""
    with site.forks() as forks:
        forks.events.wait("fork_server_ready")
        before = links(forks.server.pid)
        with socket.socket(fileno=stub.connect(bytes(forks.socket)).detach()) as caller:
            if message:
                socket.send_fds(caller, [message], [0, 1, 2])
            caller.shutdown(socket.SHUT_WR)
            assert caller.recv(1) == b""
        wait_until(lambda: links(forks.server.pid) == before, "it has let go of all")
        assert forks.processors() == []


@pytest.mark.parametrize("room", [0, 2])
def test_a_lack_of_descriptors_is_told(site: Site, room: int) -> None:
    """A stub for which there is no room waits, or ends with 1; it never gets a processor without its pipes."""
    with site.forks() as forks:
        forks.events.wait("fork_server_ready")
        pid = forks.server.pid
        most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        taken = links(pid)
        free = [number for number in range(max(taken) + 9) if number not in taken]
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (free[room], most[1]))
        with forks.processor(site.lease) as processor:
            failed = forks.events.wait("fork_failed")
            resource.prlimit(pid, resource.RLIMIT_NOFILE, most)
            if room:
                assert processor.wait() == 1
            else:
                processor.start()
    assert (failed["level"], bool(failed["next_step"])) == ("error", True)


def limit_memory(pid: int, more: int) -> None:
    """Let a process take so many bytes more than it has."""
    size = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * os.sysconf("SC_PAGESIZE")
    resource.prlimit(pid, resource.RLIMIT_AS, (size + more, size + more))
