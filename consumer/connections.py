"""The stream and the archive of the settings, as one command or the supervisor reaches them."""

from consumer.settings.settings import Settings
from consumer.stream.kinesis import KinesisStream
from minutebook.aws.clients import make_kinesis_client, make_s3_client
from minutebook.clock import Clock, new_random
from minutebook.retry import Backoff
from minutebook.store.retrying import RetryingStore
from minutebook.store.s3 import S3Store


def stream_of(settings: Settings, clock: Clock) -> KinesisStream:
    """Return the stream of these settings."""
    return KinesisStream(
        lambda: make_kinesis_client(settings.region, settings.kinesis_endpoint, settings.access),
        settings.stream_name,
        clock,
        new_random(),
    )


def archive_of(settings: Settings, clock: Clock) -> RetryingStore:
    """Return the archive's bucket; each request is retried for at most `minutebook.storeTimeoutSeconds`."""
    s3 = S3Store(make_s3_client(settings.region, settings.s3_endpoint, settings.access), settings.bucket)
    rng = new_random()
    return RetryingStore(s3, lambda: Backoff(clock, rng, budget_seconds=settings.store_timeout_seconds))
