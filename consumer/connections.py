"""The stream and the archive of the settings, as one command or the supervisor reaches them."""

from consumer.settings.settings import Settings
from consumer.stream.kinesis import KinesisStream
from minutebook.aws.clients import ANSWER_SECONDS, make_kinesis_client, make_s3_client
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


def archive_of(
    settings: Settings, clock: Clock, budget_seconds: float | None = None, *, read_timeout: float = ANSWER_SECONDS
) -> RetryingStore:
    """Return the archive's bucket; `read_timeout` is how many seconds an answer may take.

    Each request is retried for at most `budget_seconds`, by default `minutebook.storeTimeoutSeconds`.
    """
    client = make_s3_client(settings.region, settings.s3_endpoint, settings.access, read_timeout=read_timeout)
    budget = settings.store_timeout_seconds if budget_seconds is None else budget_seconds
    rng = new_random()
    return RetryingStore(S3Store(client, settings.bucket), lambda: Backoff(clock, rng, budget_seconds=budget))
