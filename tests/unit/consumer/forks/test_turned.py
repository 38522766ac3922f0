"""Where the requests of clients go, during the rehearsal and behind it."""

import pytest
from botocore.awsrequest import AWSPreparedRequest

from archive.access import PLAIN
from archive.aws import make_s3_client
from consumer.forks.rehearsal import turned


def test_requests_are_turned_while_it_is_rehearsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not behind it, whatever ends it: a client that all processors have would find nobody there."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "nobody")
    client = make_s3_client("us-east-1", "https://store.example", PLAIN)

    def address() -> str:
        request = AWSPreparedRequest("GET", "https://store.example/bucket/key?x=1", {}, None, None)
        client.meta.events.emit("before-send.s3.GetObject", request=request)
        return str(request.url)

    rehearsed = []

    def rehearse() -> None:
        with turned([client], 4711):
            rehearsed.append(address())
            raise OSError("the stage is gone")

    with pytest.raises(OSError, match="gone"):
        rehearse()
    assert rehearsed == ["http://127.0.0.1:4711/bucket/key?x=1"]
    assert address() == "https://store.example/bucket/key?x=1"


def test_no_client_stays_turned_where_turning_the_next_one_fails() -> None:
    """A rehearsal that fails leaves the processors clients that reach the services."""
    client = make_s3_client("us-east-1", "https://store.example", PLAIN)
    request = AWSPreparedRequest("GET", "https://store.example/bucket/key?x=1", {}, None, None)
    with pytest.raises(AttributeError), turned([client, object()], 4711):
        raise AssertionError("it was never turned whole")
    client.meta.events.emit("before-send.s3.GetObject", request=request)
    assert request.url == "https://store.example/bucket/key?x=1"
