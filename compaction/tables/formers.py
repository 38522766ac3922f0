"""The metadata files that a table has had, read for what counts here, and as few of them as tell all snapshots.

With a commit each minute a week leaves 10,080 files, each with all snapshots of its time: a megabyte, which pyiceberg
builds in 40 ms. A snapshot takes the next sequence number (Iceberg's specification, "Sequence Numbers"). So if all
numbers that were given out between two files are those of snapshots that the later one still has, the files between
the two know no others. Where a client gave a number twice, or left one out, more of them are read.
"""

import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

from minutebook.compression import Compression

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import MetadataLogEntry

_GZIP_WINDOW: Final = 31
_NUMBERED: Final = 2
"""From this version of the format on snapshots have numbers."""


class TornMetadataError(ValueError):
    """A metadata file was cut short while it was written."""


class _Entry(msgspec.Struct, rename="kebab"):
    metadata_file: str
    timestamp_ms: int


class _Statistics(msgspec.Struct, rename="kebab"):
    statistics_path: str


class FormerSnapshot(msgspec.Struct, rename="kebab"):
    """What tells a snapshot from others."""

    snapshot_id: int
    sequence_number: int = 0


class FormerMetadata(msgspec.Struct, rename="kebab"):
    """What counts of a metadata file. `snapshots` are JSON, which pyiceberg reads in thirty times the time."""

    last_updated_ms: int
    format_version: Literal[1, 2, 3] = 1
    table_uuid: uuid.UUID | None = None
    last_sequence_number: int = 0
    metadata_log: tuple[_Entry, ...] = ()
    snapshots: tuple[msgspec.Raw, ...] = ()
    statistics: tuple[_Statistics, ...] | None = None
    partition_statistics: tuple[_Statistics, ...] | None = None

    @property
    def statistics_paths(self) -> list[str]:
        """The addresses of the statistics of the table and of its partitions."""
        return [each.statistics_path for each in (*(self.statistics or ()), *(self.partition_statistics or ()))]

    def by_snapshot(self) -> list[tuple[FormerSnapshot, bytes]]:
        """Return each snapshot, and its JSON."""
        return [(_SNAPSHOT.decode(each), bytes(each)) for each in self.snapshots]


_METADATA: Final = msgspec.json.Decoder(FormerMetadata)
_SNAPSHOT: Final = msgspec.json.Decoder(FormerSnapshot)


def read_former(io: "FileIO", uri: str) -> FormerMetadata:
    """Read a metadata file; raise FileNotFoundError, TornMetadataError, or ValueError if it is something else."""
    with io.new_input(uri).open() as stream:
        data = stream.read()
    try:
        if data.startswith(Compression.GZIP.magic):
            data = zlib.decompressobj(_GZIP_WINDOW).decompress(data)  # accepts truncated data
        former = _METADATA.decode(data)
        former.by_snapshot()  # it raises here, or never
    except (zlib.error, msgspec.ValidationError, RecursionError) as exc:
        raise ValueError(str(exc)) from exc
    except msgspec.DecodeError as exc:
        if data.strip(b"\0")[:1] in {b"", b"{"}:  # a file system may leave zeros where nothing was written
            raise TornMetadataError(f"{uri} was cut short: {exc}") from exc
        raise ValueError(str(exc)) from exc
    return former


class _Told(NamedTuple):
    """What a metadata file tells of others: the last number given out, those of its snapshots, and its statistics.

    `is_numbered`: each snapshot has a number of its own, but for those from before numbers were given out (0).
    """

    last: int
    numbers: frozenset[int]
    statistics: frozenset[str]
    is_numbered: bool

    @classmethod
    def of(cls, version: int, last: int, numbers: Sequence[int], statistics: Iterable[str]) -> "_Told":
        given = [number for number in numbers if number]
        is_numbered = version >= _NUMBERED and len({*given}) == len(given) and max(given, default=0) <= last
        return cls(last, frozenset(given), frozenset(statistics), is_numbered)

    def tells_all_since(self, earlier: "_Told") -> bool:
        """Return whether every snapshot that was made since an earlier file is here, and no other statistics."""
        made = sum(number > earlier.last for number in self.numbers)
        is_whole = self.is_numbered and earlier.is_numbered and made == self.last - earlier.last
        return is_whole and self.statistics == earlier.statistics


def telling(
    uris: Sequence[str], read: Callable[[str], FormerMetadata | None], current: "TableMetadata"
) -> Iterator[FormerMetadata]:
    """Yield as many of a table's earlier metadata files as tell the snapshots of all; the current one tells its own.

    `uris`: the oldest first. `read` returns None for one that is gone.
    """
    told: dict[int, _Told] = {
        len(uris): _Told.of(
            current.format_version,
            getattr(current, "last_sequence_number", 0),
            [each.sequence_number or 0 for each in current.snapshots],
            [each.statistics_path for each in (*current.statistics, *current.partition_statistics)],
        )
    }

    def look(at: int) -> Iterator[FormerMetadata]:
        former = read(uris[at])
        if former is not None:
            numbers = [each.sequence_number for each, _ in former.by_snapshot()]
            told[at] = _Told.of(former.format_version, former.last_sequence_number, numbers, former.statistics_paths)
            yield former

    if uris:
        yield from look(0)
    spans = [(0, len(uris))]
    while spans:
        low, high = spans.pop()
        is_told = low in told and high in told and told[high].tells_all_since(told[low])
        if high - low > 1 and not is_told:
            middle = (low + high) // 2
            yield from look(middle)
            spans += [(low, middle), (middle, high)]


class Former(NamedTuple):
    """A metadata file, and the time during which it was current."""

    uri: str
    written_ms: int
    replaced_ms: int


def formers(
    metadata: "TableMetadata", read: Callable[[str], FormerMetadata | None], since_ms: int
) -> Iterator[Former]:
    """Yield a table's earlier metadata files, the newest first, at least back to a time.

    The log of the current one holds a hundred (`write.metadata.previous-versions-max`). The oldest of them has a
    log, if it still exists (`write.metadata.delete-after-commit.enabled`), and so on. `read` returns a metadata file;
    None: it is gone, and nothing earlier is known.
    """
    replaced_ms = metadata.last_updated_ms
    log: Sequence[_Entry | MetadataLogEntry] = metadata.metadata_log
    seen: set[str] = set()
    while log and log[0].metadata_file not in seen:
        for entry in reversed(log):
            seen.add(entry.metadata_file)
            yield Former(entry.metadata_file, entry.timestamp_ms, replaced_ms)
            replaced_ms = entry.timestamp_ms
        if log[0].timestamp_ms < since_ms:
            return
        oldest = read(log[0].metadata_file)
        log = [] if oldest is None else oldest.metadata_log
