"""Bad input: a clear last line, its exit code, and nothing lost.

The last line of every failed processor is `processor_failed`, which the supervisor reads: it carries the exit code
and the next step.
"""

import json
from typing import Any

import pytest

from minutebook.format.keys import segment_key
from minutebook.format.minute import minute_of
from tests.fakes.lax_s3 import LaxBucket, Refusal, serve, short_lived
from tests.integration.archive_site import PREFIX, Site
from tests.integration.process_daemon import ProcessDaemon, ProcessorEndedError
from tests.witness.events import Event

_SHARD = "shardId-000000000000"


def _ends(processor: ProcessDaemon) -> tuple[int, Event]:
    """Return the exit code and the last log event, which must be the last line of all."""
    code = processor.wait()
    last = json.loads(processor.events.lines[-1])
    assert last["event"] == "processor_failed"
    assert last["next_step"]
    assert last["exit_code"] == code
    return code, last


def _refused_at_start(site: Site, **ours: Any) -> tuple[int, Event]:  # noqa: ANN401 - any setting
    with site.processor(**ours) as processor:
        with pytest.raises(ProcessorEndedError):
            processor.start()
        return _ends(processor)


def test_a_stream_that_does_not_exist(site: Site) -> None:
    """Code 2, and the stream is named."""
    code, last = _refused_at_start(site, streamName="no-such-stream")
    assert code == 2
    assert "no-such-stream" in last["error"]


def test_a_bucket_that_does_not_exist(site: Site) -> None:
    """Code 2, S3's own word for it, and what to do."""
    code, last = _refused_at_start(site, bucket="no-such-bucket-here")
    assert code == 2
    assert "NoSuchBucket" in last["error"]
    assert "minutebook.bucket" in last["next_step"]


def test_a_store_without_conditional_writes(site: Site) -> None:
    """Code 2, the header by its name, and what to do; nothing is written."""
    refusal = Refusal(501, "NotImplemented", "not implemented", "<Header>If-None-Match</Header>")
    bucket = LaxBucket(refuse=lambda request: refusal if "if-none-match" in request.headers else None)
    with serve(bucket) as endpoint:
        code, last = _refused_at_start(site, bucket="archive", s3Endpoint=endpoint)
    assert code == 2
    assert "this store has no conditional writes: it refuses If-None-Match" in last["error"]
    assert "exact" in last["next_step"]
    assert bucket.objects == {}


def test_an_end_point_of_credentials_that_fails(site: Site) -> None:
    """Code 5, and the next step names the credentials: the first were good for five minutes, no others came."""
    answers = iter([Refusal(200, body=short_lived())])
    source = LaxBucket(refuse=lambda _request: next(answers, Refusal(400, body="{}")))
    with serve(source) as endpoint:
        environment = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{endpoint}/role", "AWS_EC2_METADATA_DISABLED": "true"}
        with site.processor(without_keys=environment, storeTimeoutSeconds=3) as processor:
            with pytest.raises(ProcessorEndedError):
                processor.start()
            code, last = _ends(processor)
    assert code == 5
    assert "credentials" in last["error"].lower()
    assert "look at the credentials of this process, not at the service" in last["next_step"]


def test_a_stream_made_again_under_its_name(site: Site) -> None:
    """Code 6, also without `consume` in front: shard ids repeat, the old ranges would swallow new records."""
    site.put(3)
    site.archive_the_rest()
    site.remake_stream()
    code, last = _refused_at_start(site)
    assert code == 6
    assert "use a new prefix" in last["next_step"]


def test_a_checkpoint_of_another_application(site: Site) -> None:
    """Code 6: the archive knows nothing of the shard that KCL wants to resume."""
    site.put(3)
    site.lease.checkpoint = site.shard.everything[0].position
    code, last = _refused_at_start(site)
    assert code == 6
    assert "adoptCheckpoint" in last["next_step"]


def test_a_foreign_object_at_the_slot(site: Site) -> None:
    """Code 1, the key in the error; the object is not touched, and nothing is lost when it is moved away."""
    records = site.put(3)
    key = segment_key(PREFIX, _SHARD, minute_of(records[0].arrival_ms), records[0].position)
    with site.processor() as processor:
        processor.start()
        processor.deliver()
        site.s3.put_object(Bucket=site.name, Key=key, Body=b"somebody else's")
        with pytest.raises(ProcessorEndedError):
            processor.request_shutdown()
        code, last = _ends(processor)
    assert code == 1
    assert key in last["error"]
    assert site.s3.get_object(Bucket=site.name, Key=key)["Body"].read() == b"somebody else's"
    assert site.lease.checkpoint == "TRIM_HORIZON"
    site.s3.delete_object(Bucket=site.name, Key=key)
    site.archive_the_rest()
    site.assert_exactly_once()


def _record(site: Site, **changes: Any) -> bytes:  # noqa: ANN401 - any field of a record
    """Return a batch of one record like the shard's last one, changed."""
    last = site.shard.everything[-1]
    record = {
        "action": "record",
        "data": "e30=",
        "partitionKey": "p",
        "sequenceNumber": str(last.position.sequence + 1),
        "subSequenceNumber": 0,
        "approximateArrivalTimestamp": last.arrival_ms,
        **changes,
    }
    return _line({"action": "processRecords", "records": [record], "millisBehindLatest": 0})


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda _: b"{broken\n", "malformed protocol line"),
        (lambda _: b'{"action":"processRecords","rec', "in the middle of a message"),
        (lambda _: _line({"action": "checkpoint", "error": None}), "was not requested"),
        (lambda site: _record(site, sequenceNumber=str(site.shard.everything[0].position.sequence)), "after"),
        (lambda site: _record(site, approximateArrivalTimestamp=site.minutes[2] // 1000), "counted seconds"),
    ],
    ids=["no JSON", "half a line", "unasked answer", "record out of order", "stamp in seconds"],
)
def test_a_bad_line_ends_the_process(site: Site, make: Any, words: str) -> None:  # noqa: ANN401 - a lambda
    """Code 1, the error says what was wrong, nothing is answered; a fresh process archives everything."""
    site.put(4)
    with site.processor(maxSegmentBytes=100) as processor:
        processor.start()
        processor.deliver()
        line = make(site)
        with pytest.raises(ProcessorEndedError):
            processor.send(line, then_close=not line.endswith(b"\n"))
        code, last = _ends(processor)
    assert code == 1
    assert words in last["error"]
    site.archive_the_rest()
    site.assert_exactly_once()
