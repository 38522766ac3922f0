"""Read the stream, the archive and the lease table once. A service that fails becomes a problem in the report."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from consumer.archived.application import KclStart, kcl_start
from consumer.archived.chain_ends import AHEAD_MINUTES, ChainEnd, find_end_keys, read_end
from consumer.archived.shard_markers import ArchivedShard, read_archived_shards
from consumer.leases.rows import LeaseTable
from consumer.settings.settings import Settings
from consumer.status.complete import CompleteTime, read_complete
from consumer.status.coverage import CoverageWatch, ProvenTime
from consumer.status.report import Lag, Observation, StatusProblem
from consumer.stream.port import ShardInfo, StreamIdentity, shard_hash_range
from minutebook.clock import Clock
from minutebook.errors import MinutebookError
from minutebook.format.aggregate import HashRange, deaggregate
from minutebook.format.day import MINUTES_A_DAY
from minutebook.format.document import RESTORE
from minutebook.format.markers import ApplicationRecord
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.owner import check_application, check_stream, read_application
from minutebook.store.retrying import RetryingStore

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient
    from mypy_boto3_kinesis.type_defs import RecordTypeDef

T = TypeVar("T")

_ABSENT: Final = frozenset({"NoSuchBucket", "ResourceNotFoundException"})
_TRIMMED: Final = frozenset({"InvalidArgumentException", "ResourceNotFoundException"})


class LagReader(NamedTuple):
    """Reads how far the archive of each shard is behind: the age of the oldest record that is not archived.

    The age of the tail would be wrong: an idle shard that is archived to its last record has no lag. A shard serves
    five GetRecords a second, KCL's included, so a throttled request is not repeated.
    """

    client: "KinesisClient"
    stream_name: str

    def read(
        self, shards: Mapping[str, ShardInfo], tails: Mapping[str, Position | KclStart], now_ms: int
    ) -> dict[str, Lag]:
        """Return the lag of each shard: behind its tail, or behind the start for one without an archive."""

        def lag(shard_id: str) -> Lag:
            return self._lag(shard_id, tails[shard_id], shard_hash_range(shards.get(shard_id)), now_ms)

        with ThreadPoolExecutor(8) as pool:
            return dict(zip(tails, pool.map(lag, tails), strict=True))

    def _lag(self, shard_id: str, tail: Position | KclStart, hash_range: HashRange, now_ms: int) -> Lag:
        request: dict[str, Any] = {"StreamName": self.stream_name, "ShardId": shard_id, **_iterator(tail)}
        try:
            iterator = self.client.get_shard_iterator(**request)["ShardIterator"]
            # The tail's own record, too: a segment may end within an aggregate.
            answer = self.client.get_records(ShardIterator=iterator, Limit=2 if isinstance(tail, Position) else 1)
        except ClientError as exc:
            return Lag(None, None, _why(exc))
        except BotoCoreError as exc:
            return Lag(None, None, f"lag unknown: the stream could not be asked: {exc}")
        for record in answer["Records"]:
            if not isinstance(tail, Position) or _is_behind(record, tail, hash_range):
                arrival_ms = int(record["ApproximateArrivalTimestamp"].timestamp() * 1000)
                return Lag(max(0.0, (now_ms - arrival_ms) / 1000), "record")
        return Lag(answer["MillisBehindLatest"] / 1000, "stream")


def _is_behind(record: "RecordTypeDef", tail: Position, hash_range: HashRange) -> bool:
    """Return whether a record of the stream holds what lies behind the archive's tail."""
    if int(record["SequenceNumber"]) != tail.sequence:
        return True
    users = deaggregate(record["PartitionKey"], record["Data"], hash_range).delivered
    return any(user.sub > tail.sub for user in users)


def _iterator(tail: Position | KclStart) -> dict[str, Any]:
    if isinstance(tail, Position):
        return {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": str(tail.sequence)}
    if tail.at_seconds is None:
        return {"ShardIteratorType": "TRIM_HORIZON"}
    return {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": tail.at_seconds}


def _why(error: ClientError) -> str:
    code = error.response["Error"]["Code"]
    if code in _TRIMMED:
        return "lag unknown: the end of the archive is older than the stream's retention"
    if code == "ProvisionedThroughputExceededException":
        return "lag unknown: the shard's readers are throttled"
    return f"lag unknown: {error}"


class StatusSources(NamedTuple):
    """The services to read. `days` limits how far back the end of a chain is searched."""

    settings: Settings
    store: RetryingStore
    describe: Callable[[], StreamIdentity]
    all_shards: Callable[[], Mapping[str, ShardInfo]]
    table: LeaseTable
    lags: LagReader | None
    clock: Clock
    days: int
    coverage: CoverageWatch


def observe(sources: StatusSources) -> tuple[Observation, list[StatusProblem]]:
    """Read every source once; return the observation and the problems met."""
    problems: list[StatusProblem] = []
    identity = ask_or_note(sources.describe, problems, "stream")
    shards = (ask_or_note(sources.all_shards, problems, "stream") if identity else None) or {}
    leases = ask_or_note(sources.table.read, problems, "lease table")
    if leases is None and not any(problem.sentence.startswith("lease table") for problem in problems):
        problems.append(
            StatusProblem(
                sentence="lease table: there is none: no worker ever started, or it was deleted",
                next_step="start with minutebook consume; if there is an archive, minutebook restore --apply first",
            )
        )
    problems += [
        StatusProblem(sentence=f"lease table: {text}", exit_code=1) for text in (leases.unreadable if leases else ())
    ]
    archive = ask_or_note(lambda: _observe_archive(sources, identity, problems), problems, "archive")
    lags: Mapping[str, Lag] = {}
    if archive and sources.lags and shards:
        lags = sources.lags.read(shards, _tails(shards, archive), sources.clock.now_ms())
    coverage: ProvenTime | None = None
    complete: CompleteTime | None = None
    if archive and archive.application is not None:
        record, rows = archive.application, leases.leases if leases else {}
        coverage = ask_or_note(lambda: sources.coverage.look(record, shards, rows), problems, "coverage")
        complete = ask_or_note(lambda: _complete(sources, record), problems, "boundaries")
    for text in coverage.unreadable if coverage else ():
        problems.append(StatusProblem(sentence=f"coverage: {text}", next_step=RESTORE))
    archive = archive or _Archive({}, {}, {}, KclStart(None))
    observation = Observation(
        shards=shards,
        archived=archive.shards,
        ends=archive.ends,
        unread_ends=archive.unread_ends,
        leases=leases,
        lags=lags,
        coverage=coverage,
        complete=complete,
    )
    return observation, problems


def _complete(sources: StatusSources, record: ApplicationRecord) -> CompleteTime | None:
    settings = sources.settings
    every_ms = settings.complete_slot_seconds * 1000
    return read_complete(sources.store, settings.prefix, record, every_ms, sources.clock.now_ms())


class _Archive(NamedTuple):
    """What was read of the archive. `unread_ends`: per shard, why the end of its chain is not in `ends`."""

    shards: Mapping[str, ArchivedShard]
    ends: Mapping[str, ChainEnd]
    unread_ends: Mapping[str, str]
    start: KclStart
    application: ApplicationRecord | None = None


def _observe_archive(
    sources: StatusSources, identity: StreamIdentity | None, problems: list[StatusProblem]
) -> _Archive | None:
    store, prefix = sources.store, sources.settings.prefix
    record = read_application(store, prefix)
    if record is None:
        problems.append(
            StatusProblem(
                sentence=f"archive: nothing is archived at {sources.settings.bucket}/{prefix} yet",
                next_step="start with minutebook consume, or correct minutebook.bucket and minutebook.prefix",
            )
        )
        return None
    now_ms = sources.clock.now_ms()
    if identity is not None:
        check_stream(record, identity, prefix)
    check_application(record, sources.settings.application_name, prefix)
    archived = read_archived_shards(store, prefix)
    now = now_ms // MINUTE_MS
    oldest = max(0, now - sources.days * MINUTES_A_DAY)
    searched = {name: oldest for name, shard in archived.items() if shard.start is not None and shard.end is None}
    ends: dict[str, ChainEnd] = {}
    unread = dict.fromkeys(searched, f"no segment in the last {sources.days} days: --days N looks further back")
    found = find_end_keys(store, prefix, searched, now + AHEAD_MINUTES)

    def end_of(name: str) -> ChainEnd | str:
        try:
            return read_end(store, prefix, found[name])
        except MinutebookError as exc:
            return f"{exc}; {exc.next_step}"

    for name, end in zip(found, store.read_many(end_of, [*found]), strict=True):
        if isinstance(end, str):
            unread[name] = end
        else:
            del unread[name]
            ends[name] = end
    start = kcl_start(record, identity, now_ms) if identity else KclStart(None)
    return _Archive(archived, ends, unread, start, record)


def _tails(shards: Mapping[str, ShardInfo], archive: _Archive) -> dict[str, Position | KclStart]:
    """Return where to read the lag of each shard that is not archived to its end."""
    unfinished = [name for name in shards if archive.shards.get(name, ArchivedShard(None, None)).end is None]
    return {
        name: archive.ends[name].tail.last if name in archive.ends else archive.start
        for name in unfinished
        if name not in archive.unread_ends
    }


def ask_or_note(request: Callable[[], T], problems: list[StatusProblem], what: str) -> T | None:
    """Return the answer to `request`; if it fails, add a problem and return None."""
    try:
        return request()
    except MinutebookError as exc:
        cause = exc.__cause__
        absent = isinstance(cause, ClientError) and cause.response["Error"]["Code"] in _ABSENT
        problems.append(
            StatusProblem(
                sentence=f"{what}: {exc}", next_step=exc.next_step, exit_code=0 if absent else exc.exit_code
            )
        )
        return None
