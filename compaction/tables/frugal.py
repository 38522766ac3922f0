"""Three of pyiceberg's classes, without work whose result nobody uses: half of what a commit each minute costs.

OneCommit     applies the staged updates once, not each time that somebody asks for the metadata (16 times a commit)
DayPlanner    evaluates no residual filter for each file: rows are not read here; reads each manifest once
Snapshot      is its own copy, as nobody may change it: catalogs copy those of a whole day for each commit
"""

from collections.abc import Callable, Iterable, Iterator

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.expressions.visitors import ResidualEvaluator, residual_evaluator_of
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import ManifestGroupPlanner, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import TableUpdate, update_table_metadata

from minutebook.store.parallel import in_parallel


class OneCommit(Transaction):
    """A transaction whose metadata are computed once for each change."""

    _applied: tuple[TableMetadata, tuple[TableUpdate, ...], TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        """The table's metadata behind the staged updates."""
        base, updates = self._table.metadata, self._updates
        if self._applied is None or self._applied[0] is not base or self._applied[1] is not updates:
            self._applied = base, updates, update_table_metadata(base, updates)
        return self._applied[2]


class DayPlanner(ManifestGroupPlanner):
    """Plans the files of a filter. `known` are the entries of manifests that it has read for the same one, by path.

    Merged manifests name the files of many days, and a commit each minute would read all of them each minute. That
    they are there is asked each time: nobody can read a table without one. None: its summary names no such file.
    """

    def __init__(
        self,
        metadata: TableMetadata,
        io: FileIO,
        of_day: BooleanExpression,
        known: dict[str, list[ManifestEntry] | None],
    ) -> None:
        super().__init__(metadata, io, of_day)
        self._known = known

    def plan_manifest_entries(self, manifests: Iterable[ManifestFile]) -> Iterator[list[ManifestEntry]]:
        """Return the matching entries of each manifest, and know those of these alone from now on."""
        every = list(manifests)
        read = in_parallel(self._read, every)
        self._known.clear()
        self._known |= {manifest.manifest_path: entries for manifest, entries in zip(every, read, strict=True)}
        named = [(manifest, entries) for manifest, entries in zip(every, read, strict=True) if entries is not None]
        data = (each.min_sequence_number or 0 for each, _ in named if each.content == ManifestContent.DATA)
        least = min(data, default=0)
        return (entries for manifest, entries in named if self._check_sequence_number(least, manifest))

    def _read(self, manifest: ManifestFile) -> list[ManifestEntry] | None:
        """Read one by itself, so that deletes are compared with all data, not with those that are new."""
        path = manifest.manifest_path
        if path in self._known and ((known := self._known[path]) is None or self.io.new_input(path).exists()):
            return known
        if not self._build_manifest_evaluator(manifest.partition_spec_id)(manifest):
            return None
        return [entry for entries in super().plan_manifest_entries([manifest]) for entry in entries]

    def _build_residual_evaluator(self, spec_id: int) -> Callable[[DataFile], ResidualEvaluator]:
        del spec_id
        everything = residual_evaluator_of(
            spec=UNPARTITIONED_PARTITION_SPEC, expr=AlwaysTrue(), case_sensitive=True, schema=Schema()
        )
        return lambda _: everything


# Frozen, so one object may stand for all of its copies.
Snapshot.__deepcopy__ = lambda snapshot, _memo=None: snapshot  # type: ignore[method-assign,assignment]
