"""What was a table's metadata before the current one, back to its first file, or to where the files are gone.

The current one has a log of those before it: a hundred, or `write.metadata.previous-versions-max`. The oldest of them
has a log of its own, while it is there (`write.metadata.delete-after-commit.enabled`), and so on.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata


class Former(NamedTuple):
    """A metadata file that was current from one time to another."""

    uri: str
    written_ms: int
    replaced_ms: int


def formers(
    metadata: "TableMetadata", read: "Callable[[str], TableMetadata | None]", since_ms: int
) -> Iterator[Former]:
    """Return what was current before, the newest first, back to a time at least.

    `read` returns a metadata file, or None where it is gone: nothing before it is known then.
    """
    log, replaced_ms = metadata.metadata_log, metadata.last_updated_ms
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
