"""What the pre-flight checks share: clients, probe objects, and their removal."""

import random
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from consumer.preflight.check import Check
from consumer.settings.settings import LoadedSettings
from consumer.stream.kinesis import KinesisStream
from minutebook.aws.clients import make_kinesis_client, make_s3_client
from minutebook.clock import Clock, IdSource
from minutebook.retry import Backoff, until_known
from minutebook.store.retrying import RetryingStore
from minutebook.store.s3 import S3Store, translate

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient
    from mypy_boto3_s3 import S3Client

T = TypeVar("T")

PATIENCE_SECONDS: Final = 10
"""How long a service may be unavailable before its check fails."""

PROBE_TYPE: Final = "text/plain"


class Probe:
    """The services of one properties file, with a short retry budget; probe objects lie under `_doctor/<id>/`."""

    def __init__(
        self,
        loaded: LoadedSettings,
        clock: Clock,
        rng: random.Random,
        new_id: IdSource,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self.loaded = loaded
        self.settings = loaded.settings
        self.clock = clock
        self.rng = rng
        self.new_id = new_id
        self.patience_seconds = patience_seconds
        self.folder = f"{self.settings.prefix}_doctor/{new_id()}/"
        self.written: set[str] = set()

    @cached_property
    def s3(self) -> "S3Client":
        """The client of the bucket."""
        return make_s3_client(self.settings.region, self.settings.s3_endpoint, self.settings.access)

    @cached_property
    def store(self) -> RetryingStore:
        """The bucket as the protocol uses it."""
        return RetryingStore(S3Store(self.s3, self.settings.bucket), self.backoff)

    @cached_property
    def kinesis(self) -> "KinesisClient":
        """The client of the stream."""
        return make_kinesis_client(self.settings.region, self.settings.kinesis_endpoint, self.settings.access)

    @cached_property
    def stream(self) -> KinesisStream:
        """The stream."""
        settings = self.settings
        return KinesisStream(
            lambda: self.kinesis,
            settings.stream_name,
            self.clock,
            self.rng,
            budget_seconds=self.patience_seconds,
        )

    def backoff(self) -> Backoff:
        """Return a fresh retry budget of `patience_seconds`."""
        return Backoff(self.clock, self.rng, budget_seconds=self.patience_seconds)

    def new_key(self) -> str:
        """Return an unused key; `clean_up` deletes its object."""
        key = f"{self.folder}{self.new_id()}"
        self.written.add(key)
        return key

    def ask_s3(self, request: Callable[[], T], what: str) -> T:
        """Repeat a boto3 request until its outcome is known; raises StoreRefused or StoreUnavailable."""

        def attempt() -> T:
            try:
                return request()
            except (ClientError, BotoCoreError) as exc:
                raise translate(exc, what) from exc

        return until_known(attempt, self.backoff(), what)

    def delete(self, key: str) -> None:
        """Delete a probe object; raises as `ask_s3`."""
        self.ask_s3(lambda: self.s3.delete_object(Bucket=self.settings.bucket, Key=key), f"DELETE {key}")
        self.written.discard(key)

    def clean_up(self) -> Check | None:
        """Delete the probe objects; return a warning if some could not be deleted."""
        for key in sorted(self.written):
            try:
                self.s3.delete_object(Bucket=self.settings.bucket, Key=key)
            except (ClientError, BotoCoreError) as exc:
                doctor = f"{self.settings.prefix}_doctor/*"
                return Check.warn(
                    "bucket",
                    f"{len(self.written)} probe objects stay under {self.folder}: {exc}",
                    next_step=f"allow s3:DeleteObject on {doctor} alone, or remove them by hand",
                )
            self.written.discard(key)
        return None
