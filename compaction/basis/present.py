"""The bases of published days as LISTs give them now, of all days of a night in one pass.

    once a night     the markers of the shards, skipped batches, tombstones, the read marks of the days
    once a day       what lies directly below it, its dropped duplicates; which files were published of an expired one
    once a folder    its objects: in Spark's tasks where there are many, else in threads of this process

An error concerns the days that need what it is about: of these the rest is compared all the same, so that a day of
which LISTs alone show that objects went is told from one of which nobody knows.

No segment is asked for: names, sizes, ETags and times are all that a basis holds. Of far neighbours (`outside`) the
same lists give the rows, so that quiet shards cost no further LISTs.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from compaction.audit.collecting import look_back
from compaction.basis.evidence import with_evidence
from compaction.basis.outside import OutsideQuery, far_shards, list_outside, with_outside
from compaction.inventory.segments import make_row
from compaction.inventory.shard_markers import duplicates_digest, read_markers
from compaction.job.context import AuditOptions, JobContext
from compaction.shard_groups.grouping import ShardGrouping
from compaction.shard_groups.opened import open_in_task
from compaction.verdict.basis import Basis, FolderBasis, folder_basis
from minutebook.coverage.intervals import Interval
from minutebook.errors import FormatError, StoreError, StoreRefused
from minutebook.format.day import Day, Hour
from minutebook.format.minute import MINUTE_MS
from minutebook.proof.reading import days_touched
from minutebook.store.objects import ListedObject
from minutebook.store.parallel import in_parallel
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address

_LOCAL_OBJECTS: Final = 500_000
"""So many objects are listed by threads of this process: Spark's start takes longer."""


class PublishedBasis(NamedTuple):
    """A day, the scope of its verdict, and the basis that the verdict was published with."""

    day: Day
    scope: Interval
    basis: Basis


class PresentBasis(NamedTuple):
    """What a basis is now. With an `error`, what could not be read is as it was: there may be more differences."""

    basis: Basis
    error: FormatError | StoreError | None = None


class FolderOrder(NamedTuple):
    """A folder to list: `rows` are listed already. Objects of minute `end` and later do not count (None: all do).

    `far` are shards whose rows are returned as they are. `storage` None: the task opens its own.
    """

    address: Address
    storage: RetryingStorage | None
    prefix: str
    path: str
    name: str
    rows: tuple[ListedObject, ...] = ()
    end: int | None = None
    far: frozenset[str] = frozenset()


class ListedFolder(NamedTuple):
    """What a folder holds, and the rows of far shards, also of minutes that do not count."""

    basis: FolderBasis
    far: tuple[ListedObject, ...]


def present_bases(
    context: JobContext, days: Sequence[PublishedBasis], options: AuditOptions
) -> dict[Day, PresentBasis]:
    """Return the basis of each day as it is now, or as much of it as could be read.

    Raises StoreUnavailable if the days cannot be listed.
    """
    if not days:
        return {}
    prefix = context.place.prefix
    touched = {day for each in days for day in days_touched(each.scope)}
    try:
        markers = read_markers(context.archive, prefix, sorted(touched))
        tombstones, unread, error = markers.statements.tombstones, markers.statements.unread_days, None
    except StoreError as exc:
        markers, tombstones, unread, error = None, {}, (), exc
    now_ms = context.clock.now_ms()
    queries = {each.day: OutsideQuery.of(prefix, each.scope, now_ms, tombstones) for each in days}
    far = frozenset[str]().union(*(far_shards(each.basis.shards, queries[each.day]) for each in days))
    listed = _list_days(context, days, far)

    def day_before(day: Day) -> tuple[FolderBasis, ...]:
        before = day.shift(-1)
        if before not in tombstones and before not in unread:
            return tuple(listed.whole_day(before))
        return look_back(context, day, ShardGrouping(), options.published).folders

    def basis_now(each: PublishedBasis) -> PresentBasis:
        known, query = each.basis, queries[each.day]
        basis = msgspec.structs.replace(known, settings=options.judged_by)
        try:
            basis = msgspec.structs.replace(basis, folders=tuple(listed.folders(each.day)))
            basis = msgspec.structs.replace(
                basis,
                originals=tuple(listed.folder(folder.folder) for folder in known.originals),
                duplicates=duplicates_digest(context.archive, prefix, each.day, query.end_minute),
            )
            if markers is None:
                return PresentBasis(basis, error)
            before = day_before(each.day) if known.day_before else ()
            basis = with_evidence(msgspec.structs.replace(basis, day_before=before), prefix, markers, each.scope)
            outside = list_outside(context.archive, query, known.shards, listed.far_rows)
        except (FormatError, StoreError) as exc:
            return PresentBasis(basis, exc)
        return PresentBasis(with_outside(basis, query, outside))

    return dict(zip((each.day for each in days), in_parallel(basis_now, days), strict=True))


def list_folder(order: FolderOrder) -> ListedFolder | StoreRefused:
    """List one folder, or return why the store refuses that: it concerns one day. The work of a task."""
    storage = order.storage or open_in_task(order.address)
    inside, far = [], []
    try:
        rows = storage.list_objects(order.path) if order.path else order.rows
    except StoreRefused as exc:
        return exc
    for listed in rows:
        parsed = make_row(order.prefix, listed).parsed if order.end is not None or order.far else None
        if parsed is not None and parsed.shard_id in order.far:
            far.append(listed)
        if parsed is None or order.end is None or parsed.minute < order.end:
            inside.append(listed)
    return ListedFolder(folder_basis(order.name, inside), tuple(far))


class _ListedDays:
    """What was listed, by day and folder; what was not is listed when it is asked for."""

    def __init__(self, storage: RetryingStorage, prefix: str) -> None:
        self._storage = storage
        self._prefix = prefix
        self._days: dict[Day, list[FolderBasis] | StoreRefused] = {}
        self._whole: set[Day] = set()
        self._by_path: dict[str, ListedFolder] = {}

    def add(
        self,
        day: Day,
        orders: Sequence[FolderOrder],
        results: Sequence[ListedFolder | StoreRefused],
        *,
        whole: bool,
    ) -> None:
        folders: list[FolderBasis] | StoreRefused = []
        for order, result in zip(orders, results, strict=True):
            if isinstance(result, StoreRefused):
                folders = result
                continue
            if order.path:
                self._by_path[order.path] = result
            if result.basis.objects and isinstance(folders, list):
                folders.append(result.basis)
        self._days[day] = folders
        if whole:
            self._whole.add(day)

    def refuse(self, day: Day, error: StoreRefused) -> None:
        self._days[day] = error

    def folders(self, day: Day) -> list[FolderBasis]:
        """Return the folders of a day; raises StoreRefused."""
        folders = self._days[day]
        if isinstance(folders, StoreRefused):
            raise folders
        return folders

    def whole_day(self, day: Day) -> list[FolderBasis]:
        """Return the folders of a whole day."""
        if day not in self._whole:
            orders = _orders(self._storage, Address(None), self._storage, self._prefix, day, None, frozenset())
            self.add(day, orders, in_parallel(list_folder, orders), whole=True)
        return self.folders(day)

    def folder(self, path: str) -> FolderBasis:
        """Return what an hour holds."""
        return folder_basis(path, self._storage.list_objects(path))

    def far_rows(self, hour: Hour) -> Iterable[ListedObject]:
        """Return an hour's rows of far shards."""
        path = hour.path(self._prefix)
        known = self._by_path.get(path)
        return self._storage.list_objects(path) if known is None else known.far


def _list_days(context: JobContext, days: Sequence[PublishedBasis], far: frozenset[str]) -> _ListedDays:
    storage, prefix = context.archive, context.place.prefix
    total = sum(folder.objects for each in days for folder in each.basis.folders)
    shared = storage if total <= _LOCAL_OBJECTS else None

    def orders_of(each: PublishedBasis) -> list[FolderOrder] | StoreRefused:
        end = None if each.scope.until_ms >= each.day.end_ms else each.scope.until_ms // MINUTE_MS
        try:
            return _orders(storage, context.place.address, shared, prefix, each.day, end, far)
        except StoreRefused as exc:
            return exc

    orders = in_parallel(orders_of, days)
    every = [order for of_day in orders if not isinstance(of_day, StoreRefused) for order in of_day]
    results = iter(in_parallel(list_folder, every) if shared is not None else context.spread(list_folder, every))
    listed = _ListedDays(storage, prefix)
    for each, of_day in zip(days, orders, strict=True):
        whole = each.scope.until_ms >= each.day.end_ms
        if isinstance(of_day, StoreRefused):
            listed.refuse(each.day, of_day)
        else:
            listed.add(each.day, of_day, [next(results) for _ in of_day], whole=whole)
    return listed


def _orders(
    storage: RetryingStorage,
    address: Address,
    shared: RetryingStorage | None,
    prefix: str,
    day: Day,
    end: int | None,
    far: frozenset[str],
) -> list[FolderOrder]:
    """Return what there is to list of a day: the folders directly below it, and the objects beside them."""
    path = day.path(prefix)
    level = storage.list_level(path)
    orders = [
        FolderOrder(address, shared, prefix, folder, folder.removeprefix(path).rstrip("/"), (), end, far)
        for folder in sorted(level.folders)
    ]
    return [*orders, FolderOrder(address, shared, prefix, "", "", level.objects, end, far)]
