"""What is stored beside the segments: the markers of the shards, and the application record."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple

from archive.errors import FormatError
from archive.format.coverage_markers import ADOPTED_NAME, FIRST_NAME, OPENED_NAME, SHARDS
from archive.format.keys import application_key, check_shard_id
from archive.format.markers import ApplicationRecord, EndMarker, StartMarker, decode_marker
from archive.store.parallel import in_parallel
from archive.store.retrying import RetryingStorage
from compaction.verdict.findings import Code, Finding, finding

_COVERAGE_MARKERS: Final = frozenset({FIRST_NAME, OPENED_NAME, ADOPTED_NAME})


class ShardMarkers(NamedTuple):
    """The markers of one shard; None where there is none. `unreadable` maps a marker's name to what is wrong."""

    start: StartMarker | None = None
    end: EndMarker | None = None
    unreadable: Mapping[str, str] = {}


class ArchiveMarkers(NamedTuple):
    """The markers by shard, the application record (None: missing or unreadable), and what is wrong with them."""

    shards: dict[str, ShardMarkers]
    application: ApplicationRecord | None
    findings: tuple[Finding, ...]

    def only(self, shard_id: str | None) -> "ArchiveMarkers":
        """Return the part that concerns one shard; None: all of it."""
        if shard_id is None:
            return self
        return self._replace(
            shards={name: markers for name, markers in self.shards.items() if name == shard_id},
            findings=tuple(found for found in self.findings if found.shard in {None, shard_id}),
        )


def read_markers(storage: RetryingStorage, prefix: str) -> ArchiveMarkers:
    """Read every marker below the prefix: two small objects per shard.

    Raises:
        StoreUnavailable, StoreRefused: the store.
    """
    folder = f"{prefix}{SHARDS}"
    keys = [key for key in storage.keys(folder) if key.rpartition("/")[2] not in _COVERAGE_MARKERS]
    outcomes = in_parallel(lambda key: _read(storage, folder, key), keys)
    found: dict[str, dict[str, StartMarker | EndMarker]] = defaultdict(dict)
    unreadable: dict[str, dict[str, str]] = defaultdict(dict)
    findings: list[Finding] = []
    for key, outcome in zip(keys, outcomes, strict=True):
        shard_id, _, name = key.removeprefix(folder).partition("/")
        if isinstance(outcome, Finding):
            findings.append(outcome)
            unreadable[shard_id][name] = outcome.message
        else:
            found[shard_id][name] = outcome
    shards = {shard_id: _markers(found[shard_id], unreadable[shard_id]) for shard_id in sorted({*found, *unreadable})}
    application = _application(storage, prefix)
    if isinstance(application, Finding):
        return ArchiveMarkers(shards, None, (*findings, application))
    return ArchiveMarkers(shards, application, tuple(findings))


def _markers(found: dict[str, StartMarker | EndMarker], unreadable: dict[str, str]) -> ShardMarkers:
    start, end = found.get("start.json"), found.get("end.json")
    return ShardMarkers(
        start if isinstance(start, StartMarker) else None, end if isinstance(end, EndMarker) else None, unreadable
    )


def _read(storage: RetryingStorage, folder: str, key: str) -> StartMarker | EndMarker | Finding:
    shard_id, _, name = key.removeprefix(folder).partition("/")
    if name not in {"start.json", "end.json"}:
        return _unreadable(Code.FOREIGN_OBJECT, key, "it is not a marker of a shard", None)
    stored = storage.get(key)
    if stored is None:
        return _unreadable(Code.UNREADABLE_OBJECT, key, "it was listed and is gone", shard_id)
    try:
        check_shard_id(shard_id)
        if name == "start.json":
            start = decode_marker(stored.body, StartMarker, key)
            start.first_position(), start.chain_start()
            _check_shard(start.shard, shard_id)
            return start
        end = decode_marker(stored.body, EndMarker, key)
        end.last_position()
        _check_shard(end.shard, shard_id)
    except FormatError as exc:
        return _unreadable(Code.UNREADABLE_OBJECT, key, str(exc), shard_id)
    return end


def _check_shard(named: str, shard_id: str) -> None:
    if named != shard_id:
        raise FormatError(f"it is the marker of {named}")


def _application(storage: RetryingStorage, prefix: str) -> ApplicationRecord | Finding:
    key = application_key(prefix)
    stored = storage.get(key)
    if stored is None:
        return finding(
            Code.MISSING_START,
            "the record that ties the prefix to its stream is missing",
            severity="unknown",
            keys=[key],
        )
    try:
        return decode_marker(stored.body, ApplicationRecord, key)
    except FormatError as exc:
        return _unreadable(Code.UNREADABLE_OBJECT, key, str(exc), None)


def _unreadable(code: Code, key: str, why: str, shard_id: str | None) -> Finding:
    return finding(code, why, shard=shard_id, keys=[key])
