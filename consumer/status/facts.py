"""One look at the stream, the archive and the lease table; whatever cannot be asked becomes a problem, not an end."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeVar

from botocore.exceptions import ClientError

from archive.clock import Clock
from archive.errors import MinutebookError
from archive.format.minute import MINUTE_MS
from archive.format.position import Position
from archive.retry import Backoff
from archive.store.objects import ObjectStore
from consumer.archived.application import KclStart, check_stream, kcl_start, read_application
from consumer.archived.chain_ends import AHEAD_MINUTES, MINUTES_PER_DAY, ChainEnd, find_end_keys, read_end
from consumer.archived.shard_markers import ArchivedShard, read_archived_shards
from consumer.leases.rows import LeaseTable
from consumer.settings.settings import Settings
from consumer.status.lag import LagReader
from consumer.status.report import Lag, Problem, Seen
from consumer.stream.port import ShardInfo, StreamIdentity

T = TypeVar("T")

_ABSENT: Final = frozenset({"NoSuchBucket", "ResourceNotFoundException"})


class Sources(NamedTuple):
    """Whom to ask. `days` bounds how far back a chain's end is looked for."""

    settings: Settings
    store: ObjectStore
    describe: Callable[[], StreamIdentity]
    all_shards: Callable[[], Mapping[str, ShardInfo]]
    table: LeaseTable
    lags: LagReader | None
    clock: Clock
    waits: Callable[[], Backoff]
    days: int


def look(sources: Sources) -> tuple[Seen, list[Problem]]:
    """Ask everybody once."""
    problems: list[Problem] = []
    identity = ask(sources.describe, problems, "stream")
    shards = (ask(sources.all_shards, problems, "stream") if identity else None) or {}
    leases = ask(sources.table.read, problems, "lease table")
    if leases is None and not any(problem.sentence.startswith("lease table") for problem in problems):
        problems.append(
            Problem(
                sentence="lease table: there is none: no worker ever started, or it was deleted",
                next_step="start with minutebook consume; if there is an archive, minutebook restore first",
            )
        )
    problems += [
        Problem(sentence=f"lease table: {text}", exit_code=1) for text in (leases.unreadable if leases else ())
    ]
    archive = ask(lambda: _look_at_archive(sources, identity, problems), problems, "archive")
    archived, ends, unread, start = archive or ({}, {}, {}, KclStart(None))
    lags: Mapping[str, Lag] = {}
    if archive and sources.lags and shards:
        tails = _tails(shards, archived, ends, unread, start)
        lags = sources.lags.read(tails, sources.clock.now_ms())
    return Seen(shards, archived, ends, unread, leases, lags), problems


def _look_at_archive(
    sources: Sources, identity: StreamIdentity | None, problems: list[Problem]
) -> tuple[dict[str, ArchivedShard], dict[str, ChainEnd], dict[str, str], KclStart] | None:
    store, prefix, waits = sources.store, sources.settings.prefix, sources.waits
    record = read_application(store, prefix, waits())
    if record is None:
        problems.append(
            Problem(
                sentence=f"archive: nothing is archived at {sources.settings.bucket}/{prefix} yet",
                next_step="start with minutebook consume, or correct minutebook.bucket and minutebook.prefix",
            )
        )
        return None
    now_ms = sources.clock.now_ms()
    if identity is not None:
        check_stream(record, identity, prefix)
    archived = read_archived_shards(store, prefix, waits)
    now = now_ms // MINUTE_MS
    oldest = max(0, now - sources.days * MINUTES_PER_DAY)
    searched = {name: oldest for name, one in archived.items() if one.start is not None and one.end is None}
    ends: dict[str, ChainEnd] = {}
    unread = dict.fromkeys(searched, f"no segment in the last {sources.days} days: --days N looks further back")
    for name, keys in find_end_keys(store, prefix, searched, now + AHEAD_MINUTES, waits).items():
        del unread[name]
        try:
            ends[name] = read_end(store, prefix, keys, waits)
        except MinutebookError as exc:
            unread[name] = f"{exc}; {exc.next_step}"
    start = kcl_start(record, identity, now_ms) if identity else KclStart(None)
    return archived, ends, unread, start


def _tails(
    shards: Mapping[str, ShardInfo],
    archived: Mapping[str, ArchivedShard],
    ends: Mapping[str, ChainEnd],
    unread: Mapping[str, str],
    start: KclStart,
) -> dict[str, Position | KclStart]:
    """Return from where each shard that is not archived to its end has to be read."""
    unfinished = [name for name in shards if archived.get(name, ArchivedShard(None, None)).end is None]
    return {name: ends[name].tail.last if name in ends else start for name in unfinished if name not in unread}


def ask(request: Callable[[], T], problems: list[Problem], what: str) -> T | None:
    """Return the answer; None, and one more problem, when there was none."""
    try:
        return request()
    except MinutebookError as exc:
        cause = exc.__cause__
        absent = isinstance(cause, ClientError) and cause.response["Error"]["Code"] in _ABSENT
        problems.append(
            Problem(sentence=f"{what}: {exc}", next_step=exc.next_step, exit_code=0 if absent else exc.exit_code)
        )
        return None
