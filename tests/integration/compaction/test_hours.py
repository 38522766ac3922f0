"""Hours on a real S3 server: what the night asks for when it takes them over, and with which rights."""

from typing import Any

from demo.embedded import REGION, EmbeddedAws
from minutebook.aws.clients import aws_session
from minutebook.store.places import open_storage
from minutebook.store.storage import Address
from tests.corpus.desk import DAY, Desk
from tests.corpus.model import PREFIX, Corpus, Shape
from tests.witness.policies import Names, bucket_policy, command_policy, is_allowed
from tests.witness.requests import hearing

_MINUTES = (-700, 0, 59, 60, 600, 1439, 1441)


def test_the_night_sends_no_get_of_a_segment_that_an_hour_has_read(embedded_aws: EmbeddedAws, bucket: str) -> None:
    """S3 copies the files, with the rights that compact has; what is read is pointers, facts and footers."""
    desk = Desk(Address(bucket, "", REGION, embedded_aws.s3_endpoint), Corpus(DAY, shape=Shape(minutes=_MINUTES)))
    desk.out = desk.out._replace(prefix=f"{PREFIX}_parquet/")
    for hour in (0, 1, 10, 23):
        assert desk.compact(hour=hour).verdict == "clean"
    asked: list[tuple[str, str]] = []

    def note(event_name: str, params: dict[str, Any], **_: object) -> None:
        asked.append((event_name.rpartition(".")[2], params.get("Key", "")))

    events = aws_session().events
    with hearing(Names(bucket=bucket, prefix=PREFIX)) as heard:
        events.register("provide-client-params.s3.*", note, unique_id="asked")
        try:
            done = desk.compact()
        finally:
            events.unregister("provide-client-params.s3.*", unique_id="asked")
    read = [
        key for verb, key in asked if verb == "GetObject" and ".jsonl" in key and not key.startswith(f"{PREFIX}_")
    ]
    copied = [key for verb, key in asked if verb == "CopyObject"]
    rows = desk.published_rows()
    assert done.manifest is not None
    assert (done.verdict, read, len(copied)) == ("clean", [], len(done.manifest.files))
    assert len(rows) == len(set(rows)) == desk.corpus.records
    caller = {"aws:PrincipalArn": f"arn:aws:iam::{heard.names.account}:role/compact"}
    policies = [*command_policy("compact", heard.names), *bucket_policy(heard.names)]
    asked_for = [one for one in heard.requests if one.context and f"{PREFIX}_read/" not in one.resource]
    wanted = [one._replace(context={**one.context, **caller}) for one in asked_for]
    assert [one for one in wanted if not is_allowed(policies, one)] == []


def test_only_the_object_that_was_looked_at_is_copied(embedded_aws: EmbeddedAws, bucket: str) -> None:
    """Another one under its key, or none: nothing is copied."""
    storage = open_storage(Address(bucket, "", REGION, embedded_aws.s3_endpoint))
    storage.put_if_absent("a", b"body", {}, "x/y")
    head = storage.head("a")
    assert head is not None
    assert [storage.copy("a", "b", '"0123"'), storage.copy("gone", "b", head.etag)] == [False, False]
    assert storage.head("b") is None
    assert storage.copy("a", "b", head.etag)
    stored = storage.get("b")
    assert stored is not None
    assert stored.body == b"body"
