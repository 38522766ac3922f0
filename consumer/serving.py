"""Serve one shard: read the settings, create the clients and the writer's own ids.

`prepare_serving` creates what the processors of a worker may share; a fork server calls it once (consumer/forks).
`serve` runs in the processor's own process, because it creates what tells writers apart: two writers with one id
would each take the other's segment for their own retried PUT.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from consumer.dedupe.table import DynamoDedupeTable
from consumer.evidence.worker_lock import FileLock
from consumer.pipe.capacity import size_pipes
from consumer.processor.dedupe_start import await_table, open_dedupe_table
from consumer.processor.processor import ANSWER_SECONDS, ShardProcessor
from consumer.processor.protocol import run_process
from consumer.services import Services
from consumer.settings.settings import Settings, load_settings
from consumer.stream.kinesis import KinesisStream
from minutebook.aws.access import Access
from minutebook.aws.clients import client_config, make_kinesis_client, make_s3_client
from minutebook.clock import SystemClock, new_id, new_random
from minutebook.errors import SettingsError
from minutebook.logs import configure_logging
from minutebook.properties_file import FILE_VARIABLE, SUPERVISED_VARIABLE
from minutebook.store.s3 import S3Store

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient
    from mypy_boto3_s3 import S3Client


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """Shared by the processors of a stream: settings, and clients without connections.

    Streams of one region with the same endpoints and roles share the clients.
    """

    path: str
    settings: Settings
    s3: "S3Client"
    kinesis: Callable[[], "KinesisClient"]
    table: DynamoDedupeTable | None


def prepare_serving(argument: str | None, environ: Mapping[str, str]) -> Prepared:
    """Read the settings and create the clients, without any request; raises SettingsError."""
    path = argument or environ.get(FILE_VARIABLE)
    if not path:
        raise SettingsError(
            "no properties file was named",
            next_step=f"give it as the argument of minutebook-processor, or in {FILE_VARIABLE}",
        )
    settings = load_settings(Path(path), environ)
    configure_logging(log_level(settings, environ))
    return Prepared(
        path=path,
        settings=settings,
        s3=_s3_client(settings.region, settings.s3_endpoint, settings.access),
        kinesis=functools.partial(_kinesis_client, settings.region, settings.kinesis_endpoint, settings.access),
        table=open_dedupe_table(settings),
    )


@functools.cache
def _s3_client(region: str, endpoint: str | None, access: Access) -> "S3Client":
    return make_s3_client(region, endpoint, access, read_timeout=ANSWER_SECONDS)


@functools.cache
def _kinesis_client(region: str, endpoint: str | None, access: Access) -> "KinesisClient":
    return make_kinesis_client(region, endpoint, access, client_config(read_timeout=ANSWER_SECONDS))


def log_level(settings: Settings, environ: Mapping[str, str]) -> str:
    """Return a processor's log level: a supervisor reads all lines, and applies `minutebook.logLevel` itself."""
    return "debug" if SUPERVISED_VARIABLE in environ else settings.log_level


def serve(
    prepared: Prepared, stdin: BinaryIO, protocol: BinaryIO, *, after_batch: Callable[[], None] = lambda: None
) -> None:
    """Serve one shard until the input ends; every error is raised."""
    size_pipes(stdin, protocol)
    settings, clock, rng = prepared.settings, SystemClock(), new_random()
    store = S3Store(prepared.s3, settings.bucket)
    stream = KinesisStream(
        prepared.kinesis, settings.stream_name, clock, rng, budget_seconds=settings.store_timeout_seconds
    )
    if prepared.table is not None:
        await_table(prepared.table, Services(settings, store, stream, clock, rng, new_id))
    lock = FileLock(prepared.path)
    processor = ShardProcessor(settings, store, stream, clock, rng, new_id, prepared.table, lock=lock)
    run_process(processor, stdin, protocol, after_batch=after_batch)
