"""What an account's rules add to requests: seen in the requests as they are sent."""

import contextlib
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import EndpointConnectionError

from minutebook.aws.access import (
    LEAST_BYTES,
    PLAIN,
    Access,
    access_contradictions,
    external_id,
    kms_key,
    object_tags,
    read_access,
    role,
    storage_class,
)
from minutebook.aws.clients import make_dynamodb_client, make_kinesis_client, make_s3_client
from minutebook.errors import OutcomeUnknown
from minutebook.store.s3_storage import S3Storage

if TYPE_CHECKING:
    from collections.abc import Callable

    from botocore.awsrequest import AWSPreparedRequest

pytestmark = pytest.mark.usefixtures("credentials")
KEY = "arn:aws:kms:us-east-1:123456789012:key/0d3a7a6e-5a5b-4d5c-9d2e-1f2a3b4c5d6e"
ROLE = "arn:aws:iam::123456789012:role/stream-reader"
ALL = Access("123456789012", KEY, "STANDARD_IA", (("team", "data"), ("class", "raw & old")))


def _sent(client: Any, ask: "Callable[[], object]") -> "AWSPreparedRequest":  # noqa: ANN401 - any client of boto3
    """Return the first request that `ask` sends; nobody answers it."""
    requests: list[AWSPreparedRequest] = []

    def take(request: "AWSPreparedRequest", **_: object) -> None:
        requests.append(request)
        raise EndpointConnectionError(endpoint_url=request.url)

    client.meta.events.register("before-send", take, unique_id="take")
    with contextlib.suppress(EndpointConnectionError, OutcomeUnknown):
        ask()
    client.meta.events.unregister("before-send", unique_id="take")
    return requests[0]


def _put(access: Access, size: int) -> dict[str, str]:
    """Return the headers of a commit."""
    client = make_s3_client("us-east-1", None, access)
    store = S3Storage(client, "bucket")
    request = _sent(client, lambda: store.put_if_absent("k", b"x" * size, {"writer": "w"}, "application/gzip"))
    return {name.lower(): _text(value) for name, value in request.headers.items()}


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def test_a_commit_carries_all_of_it_and_stays_conditional() -> None:
    """In headers of the one PUT, signed with it."""
    headers = _put(ALL, LEAST_BYTES)
    wanted = {
        "x-amz-server-side-encryption": "aws:kms",
        "x-amz-server-side-encryption-aws-kms-key-id": KEY,
        "x-amz-server-side-encryption-bucket-key-enabled": "true",
        "x-amz-storage-class": "STANDARD_IA",
        "x-amz-tagging": "team=data&class=raw+%26+old",
        "x-amz-expected-bucket-owner": "123456789012",
        "if-none-match": "*",
        "x-amz-meta-writer": "w",
    }
    assert {name: headers.get(name) for name in wanted} == wanted
    assert all(name in headers["authorization"] for name in wanted if name.startswith("x-amz"))


def test_a_small_object_stays_in_the_standard_class() -> None:
    """S3 would bill it as 128 KiB."""
    assert "x-amz-storage-class" not in _put(ALL, LEAST_BYTES - 1)


def test_nothing_is_added_where_nobody_says_anything() -> None:
    """The requests are those of before."""
    headers = _put(PLAIN, LEAST_BYTES)
    assert not [name for name in headers if name.startswith(("x-amz-server", "x-amz-st", "x-amz-tag", "x-amz-exp"))]


def test_every_request_of_the_store_names_the_owner() -> None:
    """Reads too: a bucket of the same name that is somebody else's is no archive."""
    client = make_s3_client("us-east-1", None, ALL)
    store = S3Storage(client, "bucket")
    asked: list[Callable[[], object]] = [
        lambda: store.head("k"),
        lambda: store.get("k"),
        lambda: list(store.list_objects("k")),
        lambda: store.list_level("k/"),
        lambda: store.put_if_match("k", b"", "etag", "text/plain"),
        lambda: store.delete(["k"]),
        lambda: store.open_read("k", None),
        lambda: store.read_tail("k", 8),
        lambda: client.head_bucket(Bucket="bucket"),
        lambda: client.create_multipart_upload(Bucket="bucket", Key="k"),
        lambda: client.upload_part(Bucket="bucket", Key="k", UploadId="u", PartNumber=1, Body=b""),
        lambda: client.complete_multipart_upload(Bucket="bucket", Key="k", UploadId="u"),
    ]
    for number, ask in enumerate(asked):
        headers = _sent(client, ask).headers
        assert _text(headers["x-amz-expected-bucket-owner"]) == "123456789012", number


def test_a_large_published_file_carries_it_from_its_beginning() -> None:
    """A multipart upload says it once, when it is begun."""
    client = make_s3_client("us-east-1", None, ALL)
    headers = _sent(client, lambda: client.create_multipart_upload(Bucket="bucket", Key="k")).headers
    assert _text(headers["x-amz-storage-class"]) == "STANDARD_IA"
    assert _text(headers["x-amz-tagging"]) == "team=data&class=raw+%26+old"
    assert _text(headers["x-amz-server-side-encryption-aws-kms-key-id"]) == KEY


@pytest.mark.parametrize(
    ("access", "s3", "kinesis", "dynamodb"),
    [
        (
            Access(use_fips=True),
            "bucket.s3-fips.us-east-1.amazonaws.com",
            "kinesis-fips.us-east-1.amazonaws.com",
            "dynamodb-fips.us-east-1.amazonaws.com",
        ),
        (
            Access(use_dualstack=True),
            "bucket.s3.dualstack.us-east-1.amazonaws.com",
            "kinesis.us-east-1.api.aws",
            "dynamodb.us-east-1.api.aws",
        ),
    ],
)
def test_aws_has_other_endpoints(access: Access, s3: str, kinesis: str, dynamodb: str) -> None:
    """By botocore's own rules, for all three services."""
    store, stream = make_s3_client("us-east-1", None, access), make_kinesis_client("us-east-1", None, access)
    table = make_dynamodb_client("us-east-1", None, access)
    hosts = [
        urlsplit(request.url).hostname
        for request in (
            _sent(store, lambda: store.head_object(Bucket="bucket", Key="k")),
            _sent(stream, lambda: stream.list_shards(StreamName="s")),
            _sent(table, lambda: table.describe_table(TableName="t")),
        )
    ]
    assert hosts == [s3, kinesis, dynamodb]


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        "0d3a7a6e-5a5b-4d5c-9d2e-1f2a3b4c5d6e",
        "alias/archive",
        "mrk-" + "0a" * 16,
        KEY.replace("aws:", "aws-cn:", 1),
    ],
)
def test_keys_of_kms(text: str) -> None:
    """Ids, ARNs and aliases, of every partition."""
    assert kms_key(text) == text


@pytest.mark.parametrize(
    ("parse", "text", "said"),
    [
        (kms_key, "my-key", "must be a KMS key"),
        (kms_key, "key/0d3a7a6e", "must be a KMS key"),
        (storage_class, "GLACIER", "cannot be read until they are restored"),
        (storage_class, "standard", "must be one of STANDARD,"),
        (object_tags, "team", "must be tags such as"),
        (object_tags, "", "must be tags such as"),
        (object_tags, "a=b,,c=d", "must be tags such as"),
        (object_tags, "aws:team=data", "must be tags such as"),
        (object_tags, "AWS:team=data", "must be tags such as"),
        (object_tags, "team=<data>", "must be tags such as"),
        (object_tags, f"team={'x' * 257}", "must be tags such as"),
        (object_tags, "a=b,a=c", "each name once"),
        (object_tags, ",".join(f"t{n}=x" for n in range(11)), "at most 10 tags"),
        (role, "arn:aws:iam::123:role/x", "must be the ARN of a role"),
        (role, "arn:aws:iam::123456789012:user/x", "must be the ARN of a role"),
        (role, f"{ROLE}|x", "must be the ARN of a role"),
        (external_id, "a|b", "must be 2 to 1224"),
        (role, f"{ROLE},x", "KCL takes a comma for the end"),
        (external_id, "a9d3==", "KCL takes no external id with '='"),
    ],
)
def test_what_is_wrong_is_said(parse: "Callable[[str], object]", text: str, said: str) -> None:
    """Before anything is asked."""
    with pytest.raises(ValueError, match=said):
        parse(text)


def test_tags_are_read() -> None:
    """Blanks around them are not theirs."""
    assert object_tags("team = data, class=raw old,empty=") == (("team", "data"), ("class", "raw old"), ("empty", ""))


def test_the_nightly_job_reads_the_same_names() -> None:
    """And says what is wrong with them."""
    errors: list[str] = []
    assert read_access({"kmsKeyId": KEY, "useFips": "true", "bucket": "b"}, errors) == Access(
        kms_key_id=KEY, use_fips=True
    )
    read_access({"storageClass": "COLD", "useDualstack": "yes"}, errors)
    assert [error.split()[0] for error in errors] == ["minutebook.storageClass", "minutebook.useDualstack"]


@pytest.mark.parametrize(
    ("access", "endpoints", "account", "said"),
    [
        (Access(use_fips=True), {"minutebook.s3Endpoint": "http://x"}, "", "minutebook.useFips chooses among"),
        (Access(use_dualstack=True), {"kinesisEndpoint": "http://x"}, "", "minutebook.useDualstack chooses among"),
        (Access(stream_role_external_id="ab"), {}, "", "has no effect without minutebook.streamRoleArn"),
        (Access(stream_role_arn=ROLE), {}, "999999999999", "is a role of 123456789012"),
    ],
)
def test_what_cannot_be_true_together(
    access: Access, endpoints: dict[str, str | None], account: str, said: str
) -> None:
    """Each names both sides."""
    (error,) = access_contradictions(access, endpoints, account)
    assert said in error


def test_what_can() -> None:
    """A role in the stream's account, and AWS's own endpoints."""
    access = Access(stream_role_arn=ROLE, stream_role_external_id="ab", use_fips=True, use_dualstack=True)
    assert access_contradictions(access, {"kinesisEndpoint": None}, "123456789012") == []


def test_an_address_is_plain_text() -> None:
    """It travels to Spark's tasks, and is the key of their clients."""
    assert hash(ALL) == hash(cast("Any", Access)(*ALL))
