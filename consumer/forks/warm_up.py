"""Requests before the first fork, so that all processors share what a client's first requests load and cache.

A client's first requests parse rules, and the interpreter rewrites functions that are called several times. After the
fork, that would take 3 MB of each process's own memory. So the fork server does it before, with the processors' own
clients, in two steps:

    open a made-up shard ... botocore's `before-send` event answers each request; none is sent
    ask for a real one ..... two read requests that every processor sends at its start; then connections are closed

Only memory depends on it: a step that fails is logged, and processors are larger.
"""

import io
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

import msgspec
import structlog
from botocore.awsrequest import AWSResponse
from urllib3 import HTTPResponse

from consumer.pipe.messages import Initialize
from consumer.processor.processor import ShardProcessor
from consumer.serving import Prepared
from consumer.stream.kinesis import KinesisStream
from minutebook.clock import Clock, new_id, new_random
from minutebook.format.keys import application_key
from minutebook.logs import configure_logging
from minutebook.store.s3 import S3Store

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest

_OPENINGS: Final = 8
"""CPython 3.11 rewrites a function at its eighth call (PEP 659)."""
_REAL_SECONDS: Final = 2.0
_NOBODYS: Final = "minutebook_warm_up"
"""No bucket can have this name, so that a request sent by mistake cannot reach the archive."""
_SHARD: Final = "shardId-000000000000"
_KINESIS: Final[Mapping[str, Any]] = {
    "DescribeStreamSummary": {
        "StreamDescriptionSummary": {
            "StreamARN": f"arn:aws:kinesis:us-east-1:000000000000:stream/{_NOBODYS}",
            "StreamName": _NOBODYS,
            "StreamStatus": "ACTIVE",
            "RetentionPeriodHours": 24,
            "StreamCreationTimestamp": 1_767_225_600,
            "EnhancedMonitoring": [],
            "OpenShardCount": 1,
        }
    },
    "ListShards": {
        "Shards": [
            {
                "ShardId": _SHARD,
                "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": str(2**128 - 1)},
                "SequenceNumberRange": {"StartingSequenceNumber": "1"},
            }
        ]
    },
}
"""Answers by operation."""
_STORED: Final = (200, b"")
_EMPTY: Final = (200, b"<ListBucketResult><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>")
_ABSENT: Final = (404, b"<Error><Code>NoSuchKey</Code><Message>none</Message></Error>")


def warm_up(prepared: Prepared, clock: Clock, level: str) -> None:
    """Do both steps, without log lines; afterwards connections are closed and the log has the level `level`."""
    begun = clock.monotonic()
    configure_logging("debug", io.StringIO())
    made_up = _error_of(lambda: _open_made_up_shard(prepared, clock))
    real = _error_of(lambda: _ask_for_real_shard(prepared, clock))
    configure_logging(level)
    log = structlog.get_logger()
    if made_up is not None:
        log.warning(
            "rehearsal_failed",
            error=made_up,
            next_step="nothing by itself: each processor takes some 3 MB more; if an error of a processor follows, "
            "see to that",
        )
    log.debug("rehearsed", seconds=round(clock.monotonic() - begun, 2), skipped=real)


def _error_of(step: Callable[[], None]) -> str | None:
    """Return the step's error, which no processor depends on."""
    try:
        step()
    except Exception as exc:  # noqa: BLE001 - it is logged
        return f"{type(exc).__name__}: {exc}"
    return None


def _open_made_up_shard(prepared: Prepared, clock: Clock) -> None:
    settings = replace(prepared.settings, bucket=_NOBODYS, stream_name=_NOBODYS, dedupe=None, store_timeout_seconds=0)
    rng = new_random()
    with answered([prepared.s3, prepared.kinesis()]):
        store = S3Store(prepared.s3, settings.bucket)
        stream = KinesisStream(prepared.kinesis, settings.stream_name, clock, rng, budget_seconds=0)
        for _ in range(_OPENINGS):
            processor = ShardProcessor(settings, store, stream, clock, rng, new_id)
            processor.initialize(Initialize(shard_id=_SHARD, sequence_number="TRIM_HORIZON"))


class _Answers:
    """A handler of botocore's `before-send`: botocore takes its result as the answer, and sends no request.

    It stays registered when it is closed: if a handler is removed, a client drops its cache of handlers per event
    (botocore.hooks), and each processor would fill it again.
    """

    def __init__(self) -> None:
        self.is_open = True

    def __call__(self, request: "AWSPreparedRequest", **_: object) -> AWSResponse | None:
        if not self.is_open:
            return None
        status, body = _answer(request)
        headers = {"ETag": '"warm-up"', "Content-Length": str(len(body))}
        raw = HTTPResponse(io.BytesIO(body), headers, status, preload_content=False)
        return AWSResponse(request.url, status, raw.headers, raw)  # type: ignore[arg-type] # as botocore.httpsession does


def _answer(request: "AWSPreparedRequest") -> tuple[int, bytes]:
    """Return status and body as from a stream of one shard and an empty bucket."""
    if request.method == "POST":
        target = request.headers["X-Amz-Target"]
        text = target.decode() if isinstance(target, bytes) else target
        return 200, msgspec.json.encode(_KINESIS[text.rpartition(".")[2]])
    if request.method == "PUT":
        return _STORED
    return _EMPTY if "list-type=" in request.url else _ABSENT


@contextmanager
def answered(clients: list[Any]) -> Iterator[None]:
    """Answer the clients' requests while the block runs, without sending them."""
    answers = _Answers()
    try:
        for client in clients:
            client.meta.events.register_last("before-send", answers)
        yield
    finally:
        answers.is_open = False


def _ask_for_real_shard(prepared: Prepared, clock: Clock) -> None:
    """Send each service one request, without a retry, and close the connections.

    The kernel's timer ends it, because connecting may take five seconds for each. No thread may do it: forked
    processes would inherit the locks it holds.
    """

    def end(_number: int, _frame: object) -> NoReturn:
        raise TimeoutError(f"not done within {_REAL_SECONDS:.0f} s")

    settings = prepared.settings
    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, _REAL_SECONDS)
    try:
        KinesisStream(prepared.kinesis, settings.stream_name, clock, new_random(), budget_seconds=0).describe()
        S3Store(prepared.s3, settings.bucket).get(application_key(settings.prefix))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        for client in (prepared.s3, prepared.kinesis()):
            client.close()
