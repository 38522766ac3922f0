"""What the streams of a fleet may take from each other, bounded before the start and before each start of a stream.

    streams of a fleet ........... 40: more threads and memory were not measured
    open shards of a fleet ....... 64 when it starts; streams that are split later are read, and it is logged
    settings of the task ......... equal in all files: there is one log, one metrics server, one daemon
    timeoutInSeconds ............. refused: KCL would halt the JVM, with all streams
    maxActiveThreads ............. refused: KCL's threads for processors are one stream's own
    answers of GetRecords ........ at most 1,000 records where the fleet has more than 8 open shards; one that is
                                   behind is read every 750 ms then, and at the tip as often as KCL does

KCL holds several answers of each shard that catches up, and one OutOfMemoryError ends the daemon of all streams
(docs/decisions/0051-a-fleet.md has the measurements).
"""

import threading
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from consumer.settings.settings import LoadedSettings, Settings
from consumer.stream.port import StreamFacts
from minutebook.errors import SettingsError
from minutebook.properties_folder import SHARED
from minutebook.wording import ITEM

MOST_STREAMS: Final = 40
MOST_SHARDS: Final = 64
_FEW_SHARDS: Final = 8
_RECORDS: Final = "maxRecords"
_MOST_RECORDS: Final = 1000
_IDLE: Final = "idleTimeBetweenReadsInMillis"
_IDLE_MILLIS: Final = 750
"""So that a shard at its full rate, 1,000 records a second, is read a third faster than it is written."""
_AT_TIP: Final = "millisBehindLatestThresholdForReducedTps"
_AT_TIP_MILLIS: Final = 1500
"""A shard less behind than that is read this often (KCL's KinesisSleepTimeController): KCL's own interval."""
_HEAP_OF_SHARD: Final = 8 << 20
_SECOND_FLEET: Final = "start a second fleet: move some of the files to another folder"
_REFUSED: Final[Mapping[str, str]] = {
    "timeoutInSeconds": "KCL would halt the daemon of all streams, without asking a processor to commit",
    "maxActiveThreads": "a processor beyond that number of threads would wait for ever",
}
_OF_THE_TASK: Final[Mapping[str, Callable[[Settings], object]]] = {
    "minutebook.logLevel": lambda settings: settings.log_level,
    "minutebook.metricsPort": lambda settings: settings.metrics_port,
    "minutebook.metricsHost": lambda settings: settings.metrics_host,
    "minutebook.metrics": lambda settings: settings.metrics,
    "minutebook.metricsIntervalSeconds": lambda settings: settings.metrics_interval_seconds,
    "minutebook.forkServer": lambda settings: settings.fork_server,
    "minutebook.useFips": lambda settings: settings.access.use_fips,
    "minutebook.useDualstack": lambda settings: settings.access.use_dualstack,
}


def check_fleet(folder: str, streams: Mapping[str, Settings], files: int) -> None:
    """Raise SettingsError if these streams cannot be one fleet; `streams` are those whose files can be read."""
    if files > MOST_STREAMS:
        raise SettingsError(
            f"{folder} holds {files} streams, and a fleet may have {MOST_STREAMS}", next_step=_SECOND_FLEET
        )
    errors = []
    for name, of in _OF_THE_TASK.items():
        texts: dict[str, list[str]] = {}
        for stem, settings in streams.items():
            texts.setdefault(str(of(settings)), []).append(stem)
        if len(texts) > 1:
            errors.append(f"{name} is " + ", ".join(f"{text} in {stems[0]}" for text, stems in texts.items()))
    if errors:
        raise SettingsError(
            ITEM.join([f"{folder}: what belongs to the task differs between streams", *errors]),
            next_step=f"write these lines into {SHARED}, and into no other file",
        )


def check_stream(loaded: LoadedSettings) -> None:
    """Raise SettingsError if the settings of one stream would harm the others."""
    errors = [f"{name}={loaded.kcl[name]} is refused: {why}" for name, why in _REFUSED.items() if name in loaded.kcl]
    if errors:
        raise SettingsError(ITEM.join(errors), next_step="remove the line, or run this stream alone")


class OpenShards:
    """The open shards of each stream, counted before each of its starts; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}

    def count(self, name: str, stream: StreamFacts) -> None:
        """Count the open shards of a stream. Raises as the stream does."""
        shards = sum(not shard.closed for shard in stream.all_shards().values())
        with self._lock:
            self._counts[name] = shards
            total = sum(self._counts.values())
        if total > MOST_SHARDS:
            structlog.get_logger().warning(
                "fleet_too_large", shards=total, limit=MOST_SHARDS, next_step=f"soon {_SECOND_FLEET}"
            )

    def total(self) -> int:
        """Return the open shards of all streams that were counted."""
        with self._lock:
            return sum(self._counts.values())

    def check(self, folder: str) -> None:
        """Raise SettingsError if a fleet may not start with so many."""
        total = self.total()
        if total > MOST_SHARDS:
            raise SettingsError(
                f"the streams of {folder} have {total} open shards, and a fleet may have {MOST_SHARDS}",
                next_step=_SECOND_FLEET,
            )

    def bound(self, values: dict[str, str]) -> dict[str, str]:
        """Return the lines of a daemon's file with smaller reads where many shards share the heap."""
        if self.total() <= _FEW_SHARDS or int(values.get(_RECORDS, _MOST_RECORDS + 1)) <= _MOST_RECORDS:
            return values
        paces = {_IDLE: str(_IDLE_MILLIS), _AT_TIP: str(_AT_TIP_MILLIS)}
        return {**paces, **values, _RECORDS: str(_MOST_RECORDS)}

    def check_heap(self, heap_bytes: int) -> None:
        """Warn if the daemon's heap is small for the shards; all streams end with it."""
        shards = self.total()
        if shards > _FEW_SHARDS and heap_bytes < shards * _HEAP_OF_SHARD:
            structlog.get_logger().warning(
                "fleet_heap_small",
                heap_bytes=heap_bytes,
                shards=shards,
                next_step=f"give the task more memory, or set JAVA_TOOL_OPTIONS=-Xmx{shards * _HEAP_OF_SHARD >> 20}m",
            )
