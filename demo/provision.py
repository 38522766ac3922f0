"""`python -m demo.provision`: make the stream and the bucket of `docker-compose.yml`, and wait for them.

Reads the consumer's own properties file (its only argument), so that both talk about the same names.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError, HTTPClientError

from consumer.settings.settings import Settings, load_settings
from minutebook.aws.clients import make_kinesis_client, make_s3_client
from minutebook.clock import SystemClock, new_random
from minutebook.errors import MinutebookError, StoreUnavailable
from minutebook.retry import Backoff

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient
    from mypy_boto3_s3 import S3Client

SHARDS = 4
_THERE_ALREADY = frozenset({"BucketAlreadyOwnedByYou", "BucketAlreadyExists", "ResourceInUseException"})


def main(arguments: list[str]) -> int:
    """Provision what the properties file names; returns an exit code."""
    try:
        settings = load_settings(Path(arguments[0]), os.environ)
        provision(
            settings,
            make_kinesis_client(settings.region, settings.kinesis_endpoint, settings.access),
            make_s3_client(settings.region, settings.s3_endpoint, settings.access),
            Backoff(SystemClock(), new_random(), budget_seconds=60, ceiling_seconds=1),
        )
    except MinutebookError as exc:
        sys.stderr.write(f"{exc}\n{exc.next_step}\n")
        return exc.exit_code
    return 0


def provision(settings: Settings, kinesis: "KinesisClient", s3: "S3Client", backoff: Backoff) -> None:
    """Make stream and bucket unless they are there, asking again while the servers start; wait for ACTIVE.

    Raises:
        StoreUnavailable: the backoff's budget is spent.
    """
    while True:
        try:
            _make(settings, kinesis, s3)
            summary = kinesis.describe_stream_summary(StreamName=settings.stream_name)["StreamDescriptionSummary"]
            if summary["StreamStatus"] == "ACTIVE":
                return
            trouble = f"the stream {settings.stream_name} is {summary['StreamStatus']}"
        except HTTPClientError as exc:
            trouble = str(exc)
        if not backoff.wait():
            raise StoreUnavailable(trouble, next_step="look at the logs of the servers")


def _make(settings: Settings, kinesis: "KinesisClient", s3: "S3Client") -> None:
    with _there_already_is_fine():
        s3.create_bucket(Bucket=settings.bucket)
    with _there_already_is_fine():
        kinesis.create_stream(StreamName=settings.stream_name, ShardCount=SHARDS)


@contextmanager
def _there_already_is_fine() -> Iterator[None]:
    try:
        yield
    except ClientError as exc:
        if exc.response["Error"]["Code"] not in _THERE_ALREADY:
            raise


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
