"""What every PUT carries, taken by a server: the objects have it, and the conditions hold as before."""

import random
from typing import TYPE_CHECKING

import pytest

from demo.embedded import REGION, EmbeddedAws
from minutebook.aws.access import LEAST_BYTES, Access
from minutebook.aws.clients import make_s3_client
from minutebook.clock import SystemClock
from minutebook.retry import Backoff
from minutebook.store.objects import PutOutcome
from minutebook.store.s3_storage import PART_BYTES, S3Storage

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

KEY = "arn:aws:kms:us-east-1:000000000000:key/0d3a7a6e-5a5b-4d5c-9d2e-1f2a3b4c5d6e"
ACCESS = Access(None, KEY, "STANDARD_IA", (("team", "data"),))


@pytest.fixture
def storage(embedded_aws: EmbeddedAws, bucket: str) -> S3Storage:
    """Return the store of an account with rules."""
    return S3Storage(make_s3_client(REGION, embedded_aws.s3_endpoint, ACCESS), bucket)


def _assert_carries_them(client: "S3Client", bucket: str, key: str) -> None:
    head = client.head_object(Bucket=bucket, Key=key)
    assert (head["ServerSideEncryption"], head["SSEKMSKeyId"], head["StorageClass"]) == (
        "aws:kms",
        KEY,
        "STANDARD_IA",
    )


def test_a_commit_and_its_repetition(storage: S3Storage, s3_client: "S3Client", bucket: str) -> None:
    """The second one finds the first, as ever."""
    body = b"x" * LEAST_BYTES
    outcomes = [storage.put_if_absent("k", body, {"writer": "w"}, "application/gzip") for _ in range(2)]
    assert outcomes == [PutOutcome.CREATED, PutOutcome.EXISTS]
    _assert_carries_them(s3_client, bucket, "k")
    assert s3_client.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == [{"Key": "team", "Value": "data"}]


def test_a_published_file(storage: S3Storage, s3_client: "S3Client", bucket: str) -> None:
    """Written in pieces. The emulator forgets the tags of such a file; that they are sent is a test of units."""
    clock = SystemClock()
    sink = storage.open_write(
        "big", "application/x-parquet", lambda: Backoff(clock, random.Random(1), budget_seconds=9)
    )
    sink.write(b"x" * (PART_BYTES + 1))
    sink.close()
    _assert_carries_them(s3_client, bucket, "big")
