"""Handle refused commits: delete their files only once it is certain that the commit was not applied.

pyiceberg takes a refusal as proof that a commit was not applied, and deletes its manifests. But clients and load
balancers retry a request whose response is late (boto3 does for Glue). The retry is then refused **because the first
request was applied**, and the table would lose its manifests and be unreadable. So pyiceberg gets another error,
after which it neither deletes files nor retries (a retry would add the day beside that of the winner), and the files
are deleted here once the table has changed without them.

A commit with files older than a day is not sent: the process was suspended, and `vacuum` may have deleted them
(`compaction.tables.orphans`). It counts as refused, and the next attempt writes them again.
"""

from typing import TYPE_CHECKING, Any, Final

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.update import AddSnapshotUpdate

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from minutebook.clock import Clock

_STALE_SECONDS: Final = 86_400.0
"""A third of the minimum age for vacuum."""


class Refused(Exception):  # noqa: N818 - no error: the next view decides
    """The catalog refused a commit with these snapshots, or a retry of it."""

    def __init__(self, snapshots: "list[Snapshot]") -> None:
        super().__init__("refused")
        self.snapshots = snapshots


class RefusalCatalog:
    """A catalog for one commit, whose files are written from now on, that raises `Refused`."""

    def __init__(self, catalog: "Catalog", clock: "Clock") -> None:
        self._catalog = catalog
        self._clock = clock
        self._begun = clock.monotonic()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - pyiceberg's
        """Delegate everything else."""
        return getattr(self._catalog, name)

    def commit_table(self, table: "Table", requirements: Any, updates: Any) -> Any:  # noqa: ANN401 - pyiceberg's
        """Send the commit; raise `Refused` in place of pyiceberg's error, or if its files are too old."""
        snapshots = [each.snapshot for each in updates if isinstance(each, AddSnapshotUpdate)]
        if self._clock.monotonic() - self._begun > _STALE_SECONDS:
            raise Refused(snapshots)
        try:
            return self._catalog.commit_table(table, requirements, updates)
        except CommitFailedException as exc:
            raise Refused(snapshots) from exc


def tidy_up(catalog: "Catalog", base: "Table", refused: Refused) -> None:
    """Delete the files of a commit that can no longer be applied; `base` is the table that it was planned on.

    It can be applied while the table is unchanged. Files of the table's current snapshot are never deleted.
    """
    table = catalog.load_table(base.name())
    current = table.current_snapshot()
    if current is None or current.snapshot_id == base.metadata.current_snapshot_id:
        return
    live = {each.manifest_path for each in current.manifests(table.io)}
    for snapshot in refused.snapshots:
        manifests = snapshot.manifests(base.io)
        ours = {each.manifest_path for each in manifests if each.added_snapshot_id == snapshot.snapshot_id}
        if table.metadata.snapshot_by_id(snapshot.snapshot_id) is not None or ours & live:
            continue
        for path in (*sorted(ours), snapshot.manifest_list):
            base.io.delete(path)
