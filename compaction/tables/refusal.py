"""A commit that the catalog refused, of which nothing is thrown away before it is known that it did not land.

pyiceberg takes a refusal for the proof that a commit did not land, and deletes the manifests that it wrote for it.
But clients and load balancers send a request again when its answer is late (boto3 does for Glue): the second one is
then refused **because the first one landed**, and the table would be left without its manifests, unreadable for
everybody. So the refusal reaches pyiceberg as another error, upon which it deletes nothing, and the files are deleted
here when the table has moved on without them. Nor does it repeat the commit then, which would add the day beside that
of the winner.

A commit whose files are a day old when it is to be sent is not sent: the process was stopped, and `vacuum` may have
deleted them meanwhile (`compaction.tables.orphans`). It counts as refused, and another look makes them anew.
"""

from typing import TYPE_CHECKING, Any, Final, cast

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.update import AddSnapshotUpdate

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from minutebook.clock import Clock

_STALE_SECONDS: Final = 86_400.0
"""A third of the least age that vacuum takes."""


class Refused(Exception):  # noqa: N818 - no error: the next look decides
    """The catalog refused a commit with these snapshots, or one of its requests."""

    def __init__(self, snapshots: "list[Snapshot]") -> None:
        super().__init__("refused")
        self.snapshots = snapshots


class RefusalCatalog:
    """A catalog for one commit: the same as another one, but for what a refusal is."""

    def __init__(self, catalog: "Catalog", clock: "Clock") -> None:
        self._catalog = catalog
        self._clock = clock
        self._begun = clock.monotonic()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - pyiceberg's
        """Give all else as it is."""
        return getattr(self._catalog, name)

    def commit_table(self, table: "Table", requirements: Any, updates: Any) -> Any:  # noqa: ANN401 - pyiceberg's
        """Send the commit; raises `Refused` in the place of pyiceberg's own, and of files that are old."""
        snapshots = [each.snapshot for each in updates if isinstance(each, AddSnapshotUpdate)]
        if self._clock.monotonic() - self._begun > _STALE_SECONDS:
            raise Refused(snapshots)
        try:
            return self._catalog.commit_table(table, requirements, updates)
        except CommitFailedException as exc:
            raise Refused(snapshots) from exc


def telling(catalog: "Catalog", clock: "Clock") -> "Catalog":
    """Return the catalog for one commit, whose files are written from now on."""
    return cast("Catalog", RefusalCatalog(catalog, clock))


def tidy_up(catalog: "Catalog", seen: "Table", refused: Refused) -> None:
    """Delete what was written for a commit that can land no more; `seen` is the table that it was planned against.

    It can while the table is what it was. Whatever the table's current snapshot names stays in any case.
    """
    now = catalog.load_table(seen.name())
    current = now.current_snapshot()
    if current is None or current.snapshot_id == seen.metadata.current_snapshot_id:
        return
    kept = {each.manifest_path for each in current.manifests(now.io)}
    for snapshot in refused.snapshots:
        ours = {
            each.manifest_path
            for each in snapshot.manifests(seen.io)
            if each.added_snapshot_id == snapshot.snapshot_id
        }
        if now.metadata.snapshot_by_id(snapshot.snapshot_id) is not None or ours & kept:
            continue
        for path in (*sorted(ours), snapshot.manifest_list):
            seen.io.delete(path)
