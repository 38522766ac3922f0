"""Three of pyiceberg's classes, without work whose result nobody uses: half of what a commit each minute costs.

OneCommit     applies the staged updates once, not each time that somebody asks for the metadata (16 times a commit)
DayPlanner    evaluates no residual filter for each file: rows are not read here
Snapshot      is its own copy, as nobody may change it: catalogs copy those of a whole day for each commit
"""

from collections.abc import Callable

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.expressions.visitors import ResidualEvaluator, residual_evaluator_of
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import ManifestGroupPlanner, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import TableUpdate, update_table_metadata


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
    """Plans the files of a filter."""

    def _build_residual_evaluator(self, spec_id: int) -> Callable[[DataFile], ResidualEvaluator]:
        del spec_id
        everything = residual_evaluator_of(
            spec=UNPARTITIONED_PARTITION_SPEC, expr=AlwaysTrue(), case_sensitive=True, schema=Schema()
        )
        return lambda _: everything


# Frozen, so one object may stand for all of its copies.
Snapshot.__deepcopy__ = lambda snapshot, _memo=None: snapshot  # type: ignore[method-assign,assignment]
