"""A processor process while S3 is away: it waits, sends the same bytes again, and gives up in time.

These tests kill their S3, so they have servers of their own.
"""

import socket
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from demo.embedded import EmbeddedAws
from tests.integration.archive_site import Site
from tests.integration.process_daemon import ProcessDaemon, ProcessorEndedError
from tests.witness.waiting import PATIENCE_SECONDS, wait_until


@pytest.fixture(scope="module")
def own_aws(embedded_aws: EmbeddedAws, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedAws]:
    """Return servers that only this module uses, but for Kinesis."""
    with EmbeddedAws(tmp_path_factory.mktemp("own-aws"), kinesis_port=embedded_aws.kinesis_port) as aws:
        yield aws


@pytest.fixture
def own_site(own_aws: EmbeddedAws, tmp_path: Path) -> Site:
    """Return a fresh bucket and stream there."""
    return Site(own_aws, tmp_path)


def test_an_outage_blocks_the_call_and_loses_nothing(own_aws: EmbeddedAws, own_site: Site) -> None:
    """`processRecords` is answered only when S3 is back and has the segment: the daemon keeps the lease meanwhile."""
    own_site.put(5, 0)
    own_site.put(5, 1)
    with own_site.processor() as processor:
        processor.start()
        own_aws.kill_s3()
        call = threading.Thread(target=processor.deliver)
        call.start()
        _hang_up(own_aws.s3_endpoint, attempts=3)
        assert call.is_alive()
        own_aws.restart_s3()
        call.join(PATIENCE_SECONDS)
        assert not call.is_alive()
        processor.request_shutdown()
        assert processor.close() == 0
    own_site.assert_exactly_once()


def test_an_outage_that_lasts_ends_with_5(own_aws: EmbeddedAws, own_site: Site) -> None:
    """After storeTimeoutSeconds: code 5, no checkpoint; the next start archives everything."""
    own_site.put(5, 0)
    own_site.put(5, 1)
    with own_site.processor(storeTimeoutSeconds=1) as processor:
        processor.start()
        own_aws.kill_s3()
        with pytest.raises(ProcessorEndedError) as ended:
            processor.deliver()
    assert (ended.value.code, own_site.lease.checkpoint) == (5, "TRIM_HORIZON")
    own_aws.restart_s3()
    own_site.archive_the_rest()
    own_site.assert_exactly_once()


def test_kills_of_s3_under_load_lose_nothing(own_aws: EmbeddedAws, own_site: Site) -> None:
    """Some PUTs are applied and their answers lost with the server: the same bytes are sent again.

    The embedded S3, killed between an object's body and its metadata, keeps a torn one: the processor must stop
    there, and goes on once that is moved away.
    """
    for minute in range(3):
        own_site.put(150, minute)
    ended: list[ProcessorEndedError] = []
    with own_site.processor(maxSegmentBytes=300) as processor:
        processor.start()
        call = threading.Thread(target=_deliver_all, args=[processor, ended])
        call.start()
        for _ in range(3):
            mark = processor.events.mark()
            wait_until(partial(_has_moved, processor, mark, ended), "a segment is committed")
            own_aws.kill_s3()
            own_aws.restart_s3()
        call.join(PATIENCE_SECONDS)
        assert not call.is_alive()
        if not ended:
            processor.request_shutdown()
            assert processor.close() == 0
    if ended:
        _remove_torn(own_site, processor)
        own_site.archive_the_rest()
    own_site.assert_exactly_once()


def _has_moved(processor: ProcessDaemon, mark: int, ended: list[ProcessorEndedError]) -> bool:
    return bool(ended or processor.events.all("segment_committed", since=mark))


def _remove_torn(site: Site, processor: ProcessDaemon) -> None:
    """Do as `next_step` says with the object that stopped the processor, which must be torn."""
    (failure,) = processor.events.all("processor_failed")
    assert (failure["kind"], failure["exit_code"]) == ("ForeignObject", 1)
    key = str(failure["error"]).partition(" ")[0]
    assert site.s3.head_object(Bucket=site.name, Key=key)["Metadata"] == {}
    site.s3.delete_object(Bucket=site.name, Key=key)


def _hang_up(endpoint: str, *, attempts: int) -> None:
    """Stand in for the server: accept so many connections and close each without an answer."""
    host, port = endpoint.removeprefix("http://").split(":")
    with socket.create_server((host, int(port)), reuse_port=False) as listener:
        listener.settimeout(PATIENCE_SECONDS)
        for _ in range(attempts):
            connection, _ = listener.accept()
            connection.close()


def _deliver_all(processor: ProcessDaemon, ended: list[ProcessorEndedError]) -> None:
    try:
        while processor.waiting():
            processor.deliver(20)
    except ProcessorEndedError as exc:
        ended.append(exc)
