"""Follow one day: list what is new, write it into one live part, and commit the day to the table.

    LIST        the segments of the minutes that `windows` names
    pointers    what is in the inventory, or in a live part, is known
    part        one ordinary task writes a file of its own name; what was left out of it is named
    facts       the keys of its segments
    swap        the live pointer, If-Match; the loser reads it again, and its file counts for nothing
    commit      `TableCommitter`, as a night does

Nothing is remembered that decides about rows: after a crash at any step the next tick finds the same.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import structlog

from compaction.follow.choosing import Chosen, LeftOut, choose
from compaction.follow.columns import FollowedColumns
from compaction.follow.copies import check_day_keeps_all
from compaction.follow.windows import LONG_EVERY_MS, Listed, after_list, first_minute
from compaction.inventory.segments import ListedSegment, make_row
from compaction.live.day import NEXT_NIGHT, LiveDay, LiveState
from compaction.live.parts import OpenedPart, Span, live_part, span_of
from compaction.parquet.plan import Task, raw_objects, single_groups, sorted_groups
from compaction.publish.publisher import Publisher
from compaction.tables.commit import DayTable, TableCommit, TableCommitter
from compaction.tables.history import BY_PROPERTY, FOLLOW
from compaction.tasks.finished import FinishedTask, keep_facts
from compaction.tasks.task import Order, TaskResult
from minutebook.clock import Clock, IdSource
from minutebook.errors import SafetyRefusal, StoreRefused
from minutebook.format.day import Day
from minutebook.format.keys import slot_folder
from minutebook.format.minute import HOUR_MS, MINUTE_MS, minute_path
from minutebook.published.generation import DayFolder, Pointer, proven_verdict
from minutebook.published.reading import published_until_ms
from minutebook.published.verdict import CLEAN, DEFECTS
from minutebook.store.objects import ListedObject
from minutebook.store.places import StorePrefix
from minutebook.store.retrying import RetryingStorage

MOST_BYTES: Final = 64 << 20
"""Compressed bytes of one part, and so of what a tick reads; what is left follows at once."""
MOST_SEGMENTS: Final = 4_000
_ATTEMPTS: Final = 5
_UNREAD: Final = (
    "find out who deletes or replaces it: LIST shows it, GET gives another one or none; rows-until stands still"
)


class FollowedTable(DayTable, Protocol):
    """The table that is followed into."""

    def properties(self) -> Mapping[str, str]:
        """Return the table's properties; none, if it does not exist yet. Raises as `look`."""
        ...

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Set properties of the table, and commit no snapshot. Raises as `look`."""
        ...

    def expire(self, now_ms: int, overdue_ms: int = 0) -> int:
        """Expire follow's snapshots that are older than the table keeps them; return how many. Raises as `look`.

        None, if the oldest of them is not older by `overdue_ms`.
        """
        ...


class FollowPorts(NamedTuple):
    """What follow works with; `engine` runs tasks in this process. `columns`: of live parts; None: no typed ones."""

    archive: RetryingStorage
    place: StorePrefix
    out: RetryingStorage
    output: StorePrefix
    clock: Clock
    new_id: IdSource
    engine: Callable[[Sequence[Order]], list[TaskResult]]
    table: FollowedTable
    columns: FollowedColumns | None = None


class FollowedDay:
    """One day, as far as this process has followed it."""

    def __init__(self, ports: FollowPorts, day: Day) -> None:
        self.day = day
        self.rows = self.segments = 0
        """Written by this process."""
        self.left_out: dict[str, LeftOut] = {}
        self.has_changed_objects = False
        """Whether objects were gone, or others, when they were read since the last LIST."""
        self.place = ""
        """The table's, when it was committed to last."""
        self.is_set_back = False
        """Whether the table was made anew or set back since the place that `commit` was given."""
        self.lacks_rows = False
        """Whether the table may lack what the day's pointers name: the last commit was held, refused or failed."""
        self._ports = ports
        self._publisher = Publisher(ports.out, DayFolder(ports.output.prefix, day))
        self._live = LiveDay(self._publisher, ports.archive, ports.place.prefix, ports.clock, ports.new_id)
        self._listed = Listed()
        self._waiting: dict[str, ListedSegment] = {}
        self._pointer: Pointer | None = None
        self._is_lost = self._is_listed_again = self._has_joined = False
        self._unread: dict[str, int] = {}
        """Objects that were gone, or others, when they were read, and when that was said."""
        self._lost: set[str] = set()
        """Segments that have vanished, and have not come back since; another one of them lists the day again."""
        self._version: str | None = None
        self._kept: str | None = None
        self._committed: tuple[str | None, str | None] | None = None
        self._committed_ms = 0
        self._log = structlog.get_logger().bind(day=str(day))

    @property
    def is_behind(self) -> bool:
        """Whether there are segments that were listed and are in no part yet, or rows to restore.

        Not where an object of those was another one, or gone, when it was read: the next tick looks again.
        """
        return bool(self._waiting) or (self._is_lost and not self.has_changed_objects)

    def list_new(self, now_ms: int) -> int:
        """List what may be new, and return from which time on everything of the day is known; 0: all of it.

        What comes into a day whose pointer covers all of it is the next night's: nothing, if that calls it clean.
        The live parts are read first: what is in one is left out, and all of a day is listed that has lost rows.
        """
        self._pointer = self._publisher.current().pointer
        self._check_keeps_all(self._pointer)
        self._read()
        if first_minute(self.day, now_ms, self._listed) <= self.day.first_minute:
            self._live.look_for_files()
            self._read()
        pointer, minute = self._pointer, first_minute(self.day, now_ms, self._listed)
        is_published = pointer is not None and pointer.until is None
        if minute in self.day and (self._is_lost or not is_published):
            for listed in self._list(minute):
                row = make_row(self._ports.place.prefix, listed)
                if row.parsed is not None and (row.key in self._lost or not is_published):
                    self._waiting[row.key] = row
        self._listed = after_list(self.day, now_ms, minute, self._listed)
        self._is_listed_again, self.has_changed_objects = self._is_lost, False
        if minute <= self.day.first_minute:
            self.left_out.clear()  # what a person has repaired since is looked at again
        if pointer is not None and is_published:
            return 0 if proven_verdict(pointer) == CLEAN else self.day.end_ms
        # What a person accepted so far lacks records, and holds the segments that were left out: nobody lists them.
        lacking_ms = 0 if pointer is None or pointer.verdict != DEFECTS else published_until_ms(pointer) or 0
        return max(lacking_ms, 0 if minute <= self.day.first_minute else min(minute * MINUTE_MS, self.day.end_ms))

    def _check_keeps_all(self, pointer: Pointer | None) -> None:
        """Raise CopiesLeftOut if a night leaves copies out of this output by now. Each manifest is read once."""
        if pointer is not None and pointer.manifest != self._kept:
            check_day_keeps_all(self._publisher)
            self._kept = pointer.manifest

    def _list(self, minute: int) -> Iterator[ListedObject]:
        """List what is in no part from a minute on: a whole day hour by hour, because a LIST is held in memory."""
        archive, prefix = self._ports.archive, self._ports.place.prefix
        if minute > self.day.first_minute:
            folder, start = self.day.path(prefix), f"{prefix}{minute_path(minute)}/"
            yield from _without(archive.list_after(folder, start), self._live.segments_below(folder, start))
            return
        for hour in self.day.hour_paths(prefix):
            yield from _without(archive.list_objects(hour), self._live.segments_below(hour))

    def write(self) -> None:
        """Write what was shown, else the oldest of what waits, into one live part; where there are many, join them.

        Not both: the commit of a part that removes nothing is an append, which incremental readers see.

        Raises SafetyRefusal if others kept swapping the live pointer.
        """
        if not self.is_behind:
            return
        for _ in range(_ATTEMPTS):
            state, pointer = self._read(), self._pointer
            if state is None:
                continue
            if self._is_lost and not self._is_listed_again:
                return  # what was shown is written first: the next tick lists it
            if not self._has_joined and self._is_joined(state):
                self._has_joined, self._version = True, ""
                return  # what waits is written at once, with the next tick
            batch = self._batch(state, pointer)
            if not batch:
                self._restored()
                return
            part, chosen = self._part(batch, self._slots(batch, state, pointer))
            self._version, self._has_joined = "", False
            if part is not None and not self._live.add(state, part):
                continue  # what the winner wrote is known at the next look
            for row in chosen.rows:
                del self._waiting[row.key]
                self._lost.discard(row.key)
            self.segments += len(chosen.rows)
            self.rows += 0 if part is None else part.rows
            self._name(chosen.left_out)
            self._restored()
            return
        raise SafetyRefusal(
            f"others keep swapping the live pointer of {self.day}",
            next_step="look for a second minutebook follow of this output: one is enough",
        )

    def _read(self) -> LiveState | None:
        """Read the live parts; None: some have lost their files, others swapped the pointer that names them.

        Rows that are in no part any more, though nobody has published or deleted them, are written again before the
        next commit: the table shows them until then.
        """
        state = self._live.read()
        self._version = state.version
        vanished = self._live.vanished(self._pointer)
        if vanished:  # or published by now
            self._pointer = self._publisher.current().pointer
            vanished = self._live.vanished(self._pointer)
        if state.lost or not vanished <= self._lost:
            lost = [part.key for part in state.lost]
            self._log.warning(
                "live_parts_lost", segments=len(vanished), files=lost, next_step="nothing: they are written again"
            )
            self._listed, self._is_listed_again = Listed(), False
            self._is_lost = True
        self._lost = vanished
        if state.lost:
            self._live.keep(state, state.parts)
            return None
        return state

    def _restored(self) -> None:
        """Go on to commit, once all of the day was listed, read, and nothing waits: what was not found is gone."""
        if self._is_lost and self._is_listed_again and not self._waiting and not self.has_changed_objects:
            self._live.forget_vanished(self._lost)
            self._is_lost = self._is_listed_again = False
            self._lost = set()

    def _is_joined(self, state: LiveState) -> bool:
        """Join parts where there are many; one that cannot be read stops no new rows."""
        try:
            return self._live.join(state)
        except SafetyRefusal as exc:
            self._log.error("follow_failed", step="join", error=str(exc), next_step=exc.next_step)
            return False

    def has_changed(self, now_ms: int) -> bool:
        """Return whether a pointer is another one than at the last commit, or that was ten minutes ago."""
        return now_ms - self._committed_ms >= LONG_EVERY_MS or self._versions != self._committed

    @property
    def _versions(self) -> tuple[str | None, str | None]:
        """The versions of both pointers, as they were read last; that of the live one is empty behind a write."""
        return None if self._pointer is None else self._pointer.manifest, self._version

    def commit(self, table_properties: Mapping[str, str], since: str = "") -> TableCommit | None:
        """Bring the table in line with the day's pointers; None: there is nothing, or rows are to be restored first.

        The properties are set if the table goes on from the place `since`. Raises as `TableCommitter.commit`.
        """
        self.is_set_back, self.lacks_rows = False, True
        ports = self._ports
        committer = TableCommitter(ports.table, self._publisher, ports.clock, ports.new_id, live=self._live)
        if self._read() is None or self._is_lost:
            return None
        versions = self._versions
        done = committer.commit({BY_PROPERTY: FOLLOW}, table_properties, since)
        self.place, self.is_set_back = committer.place, committer.is_set_back
        if committer.left_out and ports.columns is not None:
            ports.columns.leave_out(committer.left_out, ports.clock.now_ms())
        pointer = self._publisher.current().pointer
        if done is None and pointer is not None:
            raise SafetyRefusal(
                f"{pointer.manifest} is missing: nobody knows what of {self.day} is published",
                next_step="run minutebook compact for the day, or restore the object from a version of it",
            )
        self.lacks_rows = done is not None and done.state == "held"
        self._committed, self._committed_ms = versions, ports.clock.now_ms()
        return done

    def commit_again(self) -> None:
        """Let the next tick commit the day, whether its pointers have changed or not."""
        self._committed, self._committed_ms = None, 0

    def _batch(self, state: LiveState, pointer: Pointer | None) -> list[ListedSegment]:
        """Return what to read now, what was shown first, then the oldest; forget what is known already."""
        for part in state.parts:
            for key in part.segments.keys() & self._waiting.keys():
                del self._waiting[key]
        for key in self._live.covered(pointer, self._waiting.keys()) | self._known_left_out():
            del self._waiting[key]
        batch, size = list[ListedSegment](), 0
        for key in sorted(self._waiting.keys() & self._lost or self._waiting):
            row = self._waiting[key]
            size += row.size
            if batch and (size > MOST_BYTES or len(batch) == MOST_SEGMENTS):
                break
            batch.append(row)
        return batch

    def _known_left_out(self) -> set[str]:
        known = self.left_out.keys() & self._waiting.keys()
        return {key for key in known if self._waiting[key].etag == self.left_out[key].row.etag}

    def _slots(
        self, batch: Sequence[ListedSegment], state: LiveState, pointer: Pointer | None
    ) -> dict[str, dict[str, Span]]:
        """Return the segments of the batch's minutes and shards that are rows already: in a part, or published."""
        slots: dict[str, dict[str, Span]] = {slot_folder(row.key): {} for row in batch}
        for part in state.parts:
            if not self._live.may_hold(part, slots):
                continue
            for key, span in part.segments.items():
                if (folder := slot_folder(key)) in slots:
                    slots[folder][key] = span
        for key, span in self._live.published_beside(pointer, [row.key for row in batch]).items():
            slots[slot_folder(key)][key] = span
        return slots

    def _part(
        self, batch: Sequence[ListedSegment], slots: Mapping[str, Mapping[str, Span]]
    ) -> tuple[OpenedPart | None, Chosen]:
        """Write a part of a batch; again without those segments that turn out to be no rows."""
        ports, rows, left_out = self._ports, tuple(batch), list[LeftOut]()
        columns = None if ports.columns is None else ports.columns.used
        while rows:
            task = Task(0, tuple(sorted_groups(single_groups(raw_objects(rows)))))
            order = Order(task, ports.place.address, ports.output.address, self._live.folder, columns=columns)
            try:
                [result] = ports.engine([order])
            except StoreRefused:
                refused = self._refused(rows)
                if not refused:
                    raise
                left_out += refused
                rows = tuple(row for row in rows if row not in {each.row for each in refused})
                continue
            read = {facts.key: facts for facts in result.facts}
            chosen = choose([(row, read[row.key]) for row in rows], slots)
            left_out += chosen.left_out
            if result.part is not None and not chosen.left_out:
                finished = FinishedTask(result.part, result.facts)
                facts = keep_facts(ports.out, self._live.folder, task, finished)
                spans = {key: span_of(each) for key, each in read.items()}
                part = live_part(result.part, facts, "" if columns is None else columns.digest)
                opened = OpenedPart(part, spans, {} if columns is None else columns.types)
                return opened, Chosen(rows, tuple(left_out))
            rows = chosen.rows
        return None, Chosen((), tuple(left_out))

    def _refused(self, rows: Sequence[ListedSegment]) -> list[LeftOut]:
        """Return the segments that the store refuses to give; none, if it may refuse everything."""
        archive = self._ports.archive

        def refusal(key: str) -> str:
            try:
                archive.get(key)
            except StoreRefused as exc:
                return str(exc)
            return ""

        reasons = archive.read_many(refusal, [row.key for row in rows])
        refused = [LeftOut(row, reason) for row, reason in zip(rows, reasons, strict=True) if reason]
        known = self._live.segments_below(self.day.path(self._ports.place.prefix))
        shown = next((key for keys in known for key in keys), None)
        is_one = len(refused) < len(rows) or (shown is not None and not refusal(shown))
        return refused if is_one else []

    def _name(self, left_out: Sequence[LeftOut]) -> None:
        for each in left_out:
            del self._waiting[each.row.key]
            if each.is_passing:  # all of the day is listed again, and so is this one, if it is still there
                self.has_changed_objects, self._listed = True, Listed()
                self._name_unread(each)
                continue
            self.left_out[each.row.key] = each
            self._log.warning("segment_left_out", key=each.row.key, reason=each.reason, next_step=NEXT_NIGHT)

    def _name_unread(self, unread: LeftOut) -> None:
        """Name an object that is listed and cannot be read as listed: once an hour from the second time on."""
        key, now_ms = unread.row.key, self._ports.clock.now_ms()
        if key not in self._unread:
            self._unread[key] = 0
        elif now_ms - self._unread[key] >= HOUR_MS:
            self._unread[key] = now_ms
            self._log.warning("segment_not_read", key=key, reason=unread.reason, next_step=_UNREAD)


def _without(listed: Iterable[ListedObject], known: Sequence[Collection[str]]) -> Iterator[ListedObject]:
    return (row for row in listed if not any(row.key in keys for keys in known))
