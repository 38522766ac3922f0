"""Who answers the requests of clients, during the warm-up and after it."""

import pytest
from botocore.awsrequest import AWSPreparedRequest
from botocore.exceptions import EndpointConnectionError

from consumer.forks.warm_up import answered
from minutebook.aws.access import PLAIN
from minutebook.aws.clients import make_s3_client
from minutebook.store.objects import PutOutcome
from minutebook.store.s3 import S3Store

NOBODY = "https://127.0.0.1:1"


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials, which are looked up before a request is answered."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "nobody")


def test_no_request_is_sent_during_the_warm_up() -> None:
    """A bucket that is empty, and takes what it is given."""
    client = make_s3_client("us-east-1", NOBODY, PLAIN)
    store = S3Store(client, "bucket")
    with answered([client]):
        assert store.put_if_absent("key", b"body", {}, "text/plain") is PutOutcome.CREATED
        assert store.get("key") is None
        assert list(store.list_objects("")) == []


def test_requests_are_sent_after_the_warm_up() -> None:
    """Whatever ends it: all processors have this client, and would archive into nothing."""
    client = make_s3_client("us-east-1", NOBODY, PLAIN)
    with pytest.raises(OSError, match="ends"), answered([client]):
        raise OSError("it ends")
    with pytest.raises(EndpointConnectionError):
        client.get_object(Bucket="bucket", Key="key")


def test_no_client_stays_answered_where_the_next_one_is_none() -> None:
    """A warm-up that fails leaves the processors clients that reach the services."""
    client = make_s3_client("us-east-1", NOBODY, PLAIN)
    request = AWSPreparedRequest("GET", f"{NOBODY}/bucket/key", {}, None, None)
    with pytest.raises(AttributeError), answered([client, object()]):
        raise AssertionError("no client answers")
    assert [answer for _, answer in client.meta.events.emit("before-send.s3.GetObject", request=request)] == [None]
