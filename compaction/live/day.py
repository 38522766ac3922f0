"""The live parts of one day: what belongs into the table, and each change of the live pointer.

    read      GET dt=D/_live/_current.json; the facts of parts that are not known yet
    shown     whose segments does the inventory of the day's pointer name? Which of the others are gone?
    cut       write the rest of a part of which some are, or whose columns do not fit, as a part of its own
    swap      PUT If-Match: the one write that changes which parts count
    vanished  segments of parts that left the pointer by none of these: somebody deleted it, or set it back

Whoever commits may cut and swap: follow, `compact --so-far` or the night. The loser of a swap reads again; the files
that it wrote are named by nobody, and a later night deletes them. A crash after any step leaves the parts as they
were. Nothing is deleted here, so no reader and no slower process loses a file (`live.sweep`).
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import structlog

from compaction.inventory.segments import decode_if_ours, make_row
from compaction.live.parts import (
    Held,
    OpenedPart,
    Rest,
    Span,
    open_part,
    overlapped,
    write_joined,
    write_rest,
)
from compaction.publish.publisher import Publisher
from compaction.publish.replacing import replace_object
from compaction.tables.commit import LiveFiles
from compaction.tables.fitting import DayColumns
from compaction.tables.target import SegmentedPart, day_parts
from minutebook.clock import Clock, IdSource
from minutebook.errors import FormatError, SafetyRefusal
from minutebook.format.document import FORMAT, encode_document
from minutebook.format.keys import slot_folder
from minutebook.format.minute import MINUTE_MS, iso_time, minute_path
from minutebook.format.position import Position
from minutebook.published.generation import Pointer
from minutebook.published.live import LivePart, LivePointer, decode_live_pointer, live_folder, live_pointer_key
from minutebook.published.reading import published_until_ms
from minutebook.store.objects import ListedObject
from minutebook.store.retrying import RetryingStore

_EVERYTHING: Final = (Position(-1), Position(10**130))
NEXT_NIGHT: Final = "nothing, if the next night calls the day clean; else what its audit says of this segment"
JOIN_PARTS: Final = 60
"""So many small parts are joined into one: a day that is blocked at its first hour would gather 1,440."""
SMALL_BYTES: Final = 4 << 20
_FEW: Final = 3
"""So many segments of an hour are looked for one by one, more by a LIST of the hour."""
_PAIR: Final = 2
_JOIN_BYTES: Final = 64 << 20
"""Of rows that are joined at once: they are held in memory, and may be a thousand times what their files are."""
_MISFITS: Final = 2
"""Parts that are read in vain at once; the next tick goes on with others."""


class LiveState(NamedTuple):
    """The live parts as they were read. `version` and `etag` are the pointer's, None without one.

    `lost` are entries whose files are gone: nobody can read their rows. `written_at`: since when these parts count.
    """

    parts: tuple[OpenedPart, ...] = ()
    version: str | None = None
    etag: str | None = None
    tables: tuple[str, ...] = ()
    lost: tuple[LivePart, ...] = ()
    written_at: str = ""


class _Checked:
    """What is known of segments by one manifest: whether its inventory names them, and whether others are gone."""

    def __init__(self, manifest: str | None) -> None:
        self.manifest = manifest
        self.covered = set[str]()
        self.uncovered = set[str]()
        self.there = set[str]()
        self.gone = set[str]()
        self.staying = set[str]()
        self.leaving = set[str]()
        """Keys of parts that stay whole, and of those whose segments the inventory has: it says so for ever."""


class LiveDay:
    """Implements `LiveRows`, and keeps what it has read."""

    def __init__(
        self,
        publisher: Publisher,
        archive: RetryingStore,
        prefix: str,
        clock: Clock,
        new_id: IdSource,
    ) -> None:
        self.publisher = publisher
        self.folder = live_folder(publisher.folder)
        self._archive = archive
        self._prefix = prefix
        self._clock = clock
        self._new_id = new_id
        self._table = ""
        """The UUID of the table that was shown the parts last."""
        self._opened: dict[str, OpenedPart] = {}
        self._bounds: dict[str, tuple[str, str]] = {}
        self._missing = frozenset[str]()
        self._large: set[str] = set()
        """Small parts of more than a half of what may be held: any two of the others can be joined."""
        self._vanished: dict[str, Span] = {}
        self._checked = _Checked(None)
        self._log = structlog.get_logger().bind(day=publisher.folder.name)

    def read(self) -> LiveState:
        """Read the live pointer, and the segments of parts that are not known yet.

        Raises SafetyRefusal if it does not parse: without it the rows of its parts would leave the table.
        """
        pointer, etag = self._pointer()
        if pointer is None:
            self._open({})
            return LiveState()
        opened: dict[str, OpenedPart] = {}
        lost = []
        for part in pointer.parts:
            known = self._opened.get(part.key)
            if part.key in self._missing:
                known = None
            elif known is None or known.part != part:
                known = open_part(self.publisher.storage, part, pointer.columns.get(part.columns))
            if known is None:
                lost.append(part)
            else:
                opened[part.key] = known
        self._open(opened)
        parts = tuple(opened.values())
        return LiveState(parts, pointer.writer, etag, pointer.tables, tuple(lost), pointer.written_at)

    def look_for_files(self) -> None:
        """Find the parts whose files are gone, though their facts are there: no reader can read the table."""
        if self._opened:
            self._missing = frozenset(self._opened.keys() - self.publisher.storage.keys(self.folder))

    def _open(self, opened: dict[str, OpenedPart]) -> None:
        """Take what others have made of the parts. What left them by hand is known only to who has read it before."""
        for key in self._opened.keys() - opened.keys():
            self._vanished.update(self._opened[key].segments)
        self._take(opened)

    def _take(self, opened: dict[str, OpenedPart]) -> None:
        for key in opened.keys() - self._opened.keys():
            for segment in opened[key].segments:
                self._vanished.pop(segment, None)
                self._checked.gone.discard(segment)  # whoever wrote it has seen it: look again
        same = {key for key, part in opened.items() if part is self._opened.get(key)}
        self._bounds = {key: bounds for key, bounds in self._bounds.items() if key in same}
        self._large &= opened.keys()
        self._opened = opened

    def may_hold(self, part: OpenedPart, slots: Collection[str]) -> bool:
        """Return whether a part that was read last may have segments in one of these folders (`slot_folder`)."""
        low, high = self._bounds_of(part)
        return any(low <= slot <= high for slot in slots)

    def segments_below(self, folder: str, start: str = "") -> list[Mapping[str, Span]]:
        """Return the segments of those parts, as they were read last, that may have some below a folder.

        Without parts whose segments all lie before `start`.
        """
        bounds = ((part.segments, *self._bounds_of(part)) for part in self._opened.values())
        least, most = max(folder, start), f"{folder}\uffff"
        return [segments for segments, low, high in bounds if low < most and least <= high]

    def _bounds_of(self, part: OpenedPart) -> tuple[str, str]:
        if part.key not in self._bounds:
            folders = {slot_folder(key) for key in part.segments}
            self._bounds[part.key] = (min(folders, default=""), max(folders, default=""))
        return self._bounds[part.key]

    def vanished(self, pointer: Pointer | None) -> set[str]:
        """Return segments that were in a part and are in none now, though nobody published or deleted them."""
        if self._vanished:
            covered = self.covered(pointer, self._vanished.keys())
            for key in covered | self._gone(pointer, self._vanished.keys() - covered):
                del self._vanished[key]
        return {*self._vanished}

    def forget_vanished(self, keys: Collection[str]) -> None:
        """Believe that these, which vanished and were not found by a LIST, are gone."""
        for key in keys:
            self._vanished.pop(key, None)

    def is_current(self, files: LiveFiles) -> bool:
        """Return whether the live pointer still is that of these files."""
        pointer, _ = self._pointer()
        return files.version == (None if pointer is None else pointer.writer)

    def shown(self, pointer: Pointer | None, columns: DayColumns, table_uuid: str) -> LiveFiles | None:
        """Return the parts that belong into the table, each without segments that a pointer's inventory names.

        The live pointer names the table from now on: no night of another one deletes what this one may name. A part
        with typed columns that do not fit beside `columns`, which take the others, is written again without these.
        None: others swapped a pointer meanwhile. Raises SafetyRefusal if the inventory or a part is gone, or if the
        live pointer was set back: rows that are shown would leave the table.
        """
        state = self.read()
        if vanished := self.vanished(pointer):
            current = self.publisher.current().pointer
            if (current and current.manifest) != (pointer and pointer.manifest):
                return None  # they may be published by now
            raise SafetyRefusal(
                f"somebody deleted or set back the live pointer: {len(vanished)} segment(s) are in no part now",
                next_step="nothing: minutebook follow writes them again",
            )
        checked = self._checked_by(pointer)
        staying, leaving = checked.staying, checked.leaving
        if pointer is None:
            staying |= {part.key for part in state.parts}
        unsure = [_segmented(part) for part in state.parts if part.key not in staying and part.key not in leaving]
        keys = {key for part in unsure for key in part.segments}
        covered = self.covered(pointer, keys)
        gone = self._gone(pointer, keys - covered)
        of_day = day_parts(unsure, covered, gone)
        staying |= {part.key for part in of_day.stay}
        leaving |= {part.key for part in unsure if part.key not in staying and covered.issuperset(part.segments)}
        stay, rests = list[OpenedPart](), list[Rest]()
        whole = ((part.key, part.segments) for part in state.parts if part.key in staying)
        for key, rest in [*whole, *of_day.cut.items()]:
            opened = self._opened[key]
            is_rest = key in of_day.cut
            without = columns.add(opened.types, "" if is_rest else self.publisher.address(key))
            if is_rest or without:
                rests.append(Rest(opened, rest, without))
            else:
                stay.append(opened)
        version = state.version
        self._table, is_new = table_uuid, bool(stay) and table_uuid not in state.tables
        is_cut = bool(rests or state.lost or gone)  # what is gone is gone for every other process, too
        cut = [self._cut(rest) for rest in rests]
        if is_cut or is_new:
            changed = self._swap(state, [*stay, *cut])
            if changed is None:
                return None
            stay, version = [*stay, *cut], changed
        if is_cut:
            counts = {"cut": len(cut), "gone": len(gone), "lost": [part.key for part in state.lost]}
            self._log.info("live_parts_cut", stay=len(stay), **counts)
        return LiveFiles({part.key: part.rows for part in stay}, version)

    def add(self, state: LiveState, part: OpenedPart) -> bool:
        """Let one more part count; False: others swapped the live pointer since `state` was read.

        Parts whose segments were all found in an inventory leave it.
        """
        stay = [each for each in state.parts if each.key not in self._checked.leaving]
        return self._swap(state, [*stay, part]) is not None

    def join(self, state: LiveState) -> bool:
        """Join small parts into one, where there are many; return whether the live pointer changed.

        Parts of unequal columns are not joined with each other.
        """
        leaving, small = self._checked.leaving, defaultdict[str, list[OpenedPart]](list)
        for part in state.parts:
            if part.part.bytes < SMALL_BYTES and part.key not in leaving and part.key not in self._large:
                small[part.part.columns].append(part)
        many = next((parts for parts in small.values() if len(parts) >= JOIN_PARTS), None)
        if many is None:
            return False
        held, joined = self._held(many)
        if len(joined) < _PAIR:
            return False
        others = [part for part in state.parts if part not in joined]
        one = write_joined(self.publisher.storage, self._prefix, self.folder, held, self._new_id)
        if self._swap(state, [one, *others]) is None:
            return False
        if held.bytes > _JOIN_BYTES // 2:
            self._large.add(one.key)
        return True

    def _held(self, parts: Sequence[OpenedPart]) -> tuple[Held, list[OpenedPart]]:
        """Read the newest of some parts that fit into memory together; learn which are large.

        What was joined before is the oldest and the largest: a process that does not know yet reads little of it.
        """
        held, joined, misfits = Held(self.publisher.storage, _JOIN_BYTES), list[OpenedPart](), 0
        for part in reversed(parts):
            fits = held.add(Rest(part, part.segments.keys()))
            misfits += not fits
            if not fits and (len(joined) >= _PAIR or misfits > _MISFITS):
                break
            if not fits and held.bytes > _JOIN_BYTES // 2:  # what is held is large, and alone
                self._large.add(joined.pop().key)
                held = Held(self.publisher.storage, _JOIN_BYTES)
                fits = held.add(Rest(part, part.segments.keys()))
            if fits:
                joined.append(part)
            else:
                self._large.add(part.key)
        return held, joined

    def keep(self, state: LiveState, parts: Sequence[OpenedPart]) -> bool:
        """Let only these parts count; False as `add`."""
        return self._swap(state, parts) is not None

    def covered(self, pointer: Pointer | None, keys: Collection[str]) -> set[str]:
        """Return those of some keys that the inventory of a pointer names. Raises SafetyRefusal if it is missing.

        It is read only if there are keys that it may name, and that were not looked for before.
        """
        checked = self._checked_by(pointer)
        if pointer is None:
            return set()
        until_ms = published_until_ms(pointer)
        unknown = {
            key
            for key in keys
            if key not in checked.covered and key not in checked.uncovered and self._is_before(key, until_ms)
        }
        if unknown:
            rows = self.publisher.inventory(pointer)
            if rows is None:
                raise SafetyRefusal(
                    f"the inventory of {pointer.manifest} is missing",
                    next_step="run minutebook compact for the day, or restore the object from a version of it",
                )
            named = {row[0] for row in rows if row[0] in unknown}
            checked.covered |= named
            checked.uncovered |= unknown - named
        return {key for key in keys if key in checked.covered}

    def _checked_by(self, pointer: Pointer | None) -> _Checked:
        manifest = None if pointer is None else pointer.manifest
        if self._checked.manifest != manifest:
            self._checked = _Checked(manifest)
        return self._checked

    def published_beside(self, pointer: Pointer | None, keys: Collection[str]) -> dict[str, Span]:
        """Return the published segments of the minutes and shards of keys that lie behind what is published.

        Their spans are those of their metadata; everything, where nobody can tell.
        """
        until_ms = None if pointer is None else published_until_ms(pointer)
        folders = {slot_folder(key) for key in keys if pointer is not None and self._is_before(key, until_ms)}
        rows = self.publisher.inventory(pointer) if pointer is not None and folders else None
        names = () if rows is None else [row[0] for row in rows if slot_folder(row[0]) in folders]
        return {key: self._span(key) for key in names if self._is_segment(key)}

    def _span(self, key: str) -> Span:
        head = self._archive.head(key)
        metadata = decode_if_ours(None if head is None else head.metadata)
        return _EVERYTHING if metadata is None else (metadata.first, metadata.last)

    def _is_segment(self, key: str) -> bool:
        return make_row(self._prefix, ListedObject(key, 0, "", 0)).parsed is not None

    def _gone(self, pointer: Pointer | None, keys: Collection[str]) -> set[str]:
        """Return those of some keys behind the end of what is published that leave the table.

        No LIST of its minute shows it (an absence is believed when a second LIST agrees), or it overlaps a segment
        that the inventory names, and was shown before that. Each is looked for once for each manifest.
        """
        if pointer is None or not keys:
            return set()
        until_ms, checked = published_until_ms(pointer), self._checked
        behind = {key for key in keys if self._is_before(key, until_ms)}
        new = behind - checked.there - checked.gone
        spans = {key: span for key, span in self._vanished.items() if key in new}
        for part in self._opened.values():
            spans |= {key: span for key, span in part.segments.items() if key in new}
        published, listed = self.published_beside(pointer, new), self._listed(new)
        for key in sorted(new):
            # A published segment whose object is gone may cover anything: no reason against rows that are shown.
            others = {
                other: span
                for other, span in published.items()
                if slot_folder(other) == slot_folder(key) and span != _EVERYTHING
            }
            if other := overlapped(spans[key], others):
                self._log.warning("segment_left_out", key=key, reason=overlap(other), next_step=NEXT_NIGHT)
            is_there = not other and (key in listed or key in self._listed([key]))
            (checked.there if is_there else checked.gone).add(key)
        return behind & checked.gone

    def _listed(self, keys: Collection[str]) -> set[str]:
        """Return those of some keys that a LIST shows: of their hour, if they are many, else of each one's slot."""
        hours = defaultdict[str, set[str]](set)
        for key in keys:
            hours[f"{key.rsplit('/', 3)[0]}/"].add(key)
        listed = set[str]()
        for hour, wanted in hours.items():
            folders = {hour} if len(wanted) > _FEW else {f"{slot_folder(key)}/" for key in wanted}
            for folder in folders:
                listed |= wanted.intersection(self._archive.keys(folder))
        return listed

    def _is_before(self, key: str, until_ms: int | None) -> bool:
        """Return whether a key's minute lies before a time: keys begin with it, in texts of one length."""
        return until_ms is None or key < f"{self._prefix}{minute_path(until_ms // MINUTE_MS)}"

    def _cut(self, rest: Rest) -> OpenedPart:
        return write_rest(self.publisher.storage, self._prefix, self.folder, rest, self._new_id)

    def _swap(self, state: LiveState, parts: Sequence[OpenedPart]) -> str | None:
        """Let these parts count; return the version, or None if others swapped the pointer since it was read."""
        writer = self._new_id()
        pointer = LivePointer(
            format=FORMAT,
            day=self.publisher.folder.name,
            parts=tuple(part.part for part in parts),
            writer=writer,
            written_at=iso_time(self._clock.now_ms()),
            tables=tuple(sorted({*state.tables, self._table} - {""})),
            columns={part.part.columns: dict(part.types) for part in parts if part.part.columns},
        )
        key = live_pointer_key(self.publisher.folder)
        if not replace_object(self.publisher.storage, key, encode_document(pointer), state.etag):
            return None
        self._take({part.key: part for part in parts})
        return writer

    def _pointer(self) -> tuple[LivePointer | None, str | None]:
        folder = self.publisher.folder
        try:
            found = self.publisher.storage.read(
                live_pointer_key(folder), lambda stored: (decode_live_pointer(stored.body, folder), stored.etag)
            )
        except FormatError as exc:
            raise SafetyRefusal(str(exc), next_step=exc.next_step) from exc
        return (None, None) if found is None else found


def overlap(other: str) -> str:
    """Return why a segment that overlaps another one is left out."""
    return f"it overlaps {other}: a record would be there twice"


def _segmented(opened: OpenedPart) -> SegmentedPart:
    return SegmentedPart(opened.key, opened.rows, opened.segments)
