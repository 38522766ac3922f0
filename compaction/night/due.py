"""`--due`: every settled day of a window, what readers see of it, and what is due of it.

    expired ............................................... nothing, but objects that its tombstone does not keep
    not published, or in part, or damaged, or not whole ... read, audit and publish it
    not clean, or accepted ................................ judge it again: a repair need not touch the archive
    clean by older rules or by an earlier release ......... judge it again; by an earlier release three a night
    clean, and what it rests on is not as it was .......... judge it again, or rewrite it
    clean, and as it was .................................. nothing: the table follows, old files go

The window goes by the archive's days, not by folders of the output, so a day that failed each night is named each
night. Of older days those that are neither clean nor accepted are counted, and one or two are looked at in turn.

What cannot be read is a matter of its day, and the others go on. Where work on a day fails, its clean verdict is
withdrawn if it is in doubt (`DueDay.doubted`): a LIST that shows a loss is enough, whatever keeps the day from being
judged.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, Self

import msgspec

from compaction.basis.present import PublishedBasis, present_bases
from compaction.inventory.segments import ListedSegment, make_row
from compaction.job.context import AuditOptions, JobContext
from compaction.job.scope import begins_ms, judged_scope, newest_settled
from compaction.night.rewrite import Compacted, CompactOptions, compact_day, settle_day, withdraw_day
from compaction.publish.publisher import Publisher
from compaction.verdict.audit_document import Audit, decode_audit
from compaction.verdict.basis import Basis, damage_of, differences
from minutebook.errors import (
    FormatError,
    MinutebookError,
    SafetyRefusal,
    SettingsError,
    StoreError,
    StoreRefused,
    StoreUnavailable,
)
from minutebook.format.day import Day, day_of_ms
from minutebook.format.markers import ApplicationRecord
from minutebook.format.minute import MINUTE_MS
from minutebook.format.tombstone import Tombstone
from minutebook.index.names import ArchiveIndex
from minutebook.owner import read_owned
from minutebook.published.generation import (
    DayFolder,
    Manifest,
    Pointer,
    audit_key,
    is_judged_today,
    proven_verdict,
)
from minutebook.published.reading import published_days, published_until_ms, written_ms
from minutebook.published.verdict import CLEAN
from minutebook.retry import Backoff
from minutebook.store.objects import ListedObject
from minutebook.store.parallel import in_parallel
from minutebook.store.places import StorePrefix
from minutebook.store.retrying import RetryingStorage
from minutebook.store.tombstones import is_expired, list_tombstones, read_tombstone

PointerWord = Literal["none", "clean", "unknown", "defects", "accepted", "expired"]
"""What readers see of a day."""
EARLIER_A_NIGHT: Final = 3
"""So many clean days of an earlier release are judged again in a night: each of their lines is read once more."""
_INCOMPLETE: Final = "its manifest or its audit is missing"
_OTHER_OUTPUT: Final = "its output is not what it was expired with"
_KEYS: Final = 3
_READ_AT_ONCE: Final = 4
"""So many days' inventories are in memory at once: each is 44 MB for 1,440,000 objects."""


class DueDay(NamedTuple):
    """A day of the window. `why` says what is due; empty: nothing.

    `is_expired`: its raw objects were deleted on purpose, as `tombstone` says; `zombies` are objects that another
    writer put there since, `lost` those that the tombstone keeps and that are gone, and `damage` says why nobody
    knows which: its tombstone cannot be read (there is none here), or its folder cannot be listed.

    `doubted` is the pointer of a clean verdict that must not stand unless it is judged again: what it rests on is not
    as it was, or what is published is damaged, or the store refuses to give it. A part of a day is not in doubt
    because it is due, and no day is because the store does not answer.
    """

    day: Day
    pointer: PointerWord = "none"
    why: str = ""
    is_expired: bool = False
    zombies: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    damage: str = ""
    tombstone: Tombstone | None = None
    doubted: Pointer | None = None


class WorkFailed(MinutebookError):  # noqa: N818 - the name says what happened, as in minutebook.errors
    """The work on a day whose clean verdict was in doubt ended, or did not begin, by `error`.

    `is_withdrawn`: it is not clean now.
    """

    def __init__(self, error: MinutebookError, outcome: str, *, is_withdrawn: bool) -> None:
        super().__init__(f"{error}; {outcome}", next_step=error.next_step)
        self.error = error
        self.outcome = outcome
        self.is_withdrawn = is_withdrawn

    def with_remark(self, remark: str) -> Self:
        """Return the same error that says more."""
        return type(self)(self.error, f"{self.outcome}; {remark}", is_withdrawn=self.is_withdrawn)


class OlderDays(NamedTuple):
    """The days before the window: those that are neither clean nor accepted, and those whose turn it was."""

    open_days: tuple[Day, ...] = ()
    in_turn: tuple[DueDay, ...] = ()


class Due(NamedTuple):
    """What is due."""

    days: tuple[DueDay, ...]
    older: OlderDays = OlderDays()

    @property
    def by_day(self) -> dict[Day, DueDay]:
        """What a night works on: the window, and the older days whose turn it is."""
        return {each.day: each for each in (*self.days, *self.older.in_turn)}


class _Read(NamedTuple):
    """What is published of a day. `why` is empty where only its basis can say whether it is due.

    `published` is the pointer, which ends at `until_ms` (None: with the day). `is_doubtful`: what is published cannot
    be believed, whatever its basis says. `is_unread`: the store did not give all of it.
    """

    day: Day
    pointer: PointerWord = "none"
    why: str = ""
    audit: Audit | None = None
    published: Pointer | None = None
    until_ms: int | None = None
    is_doubtful: bool = False
    is_unread: bool = False

    @property
    def basis(self) -> Basis | None:
        """The basis of its verdict; None: there is none to compare, or it is not to be believed."""
        return None if self.audit is None or self.is_doubtful or self.is_unread else self.audit.basis

    @property
    def is_clean(self) -> bool:
        """Whether readers see it clean."""
        return self.published is not None and self.published.verdict == CLEAN

    @property
    def is_settled(self) -> bool:
        """Whether nobody has to look at it: readers see the whole day clean or accepted, by today's rules."""
        published = self.published
        if published is None or published.until is not None or not is_judged_today(published):
            return False
        return self.pointer in {"clean", "accepted"} and not (self.is_unread or self.is_doubtful)


def find_due(context: JobContext, out: StorePrefix, options: AuditOptions, window: int) -> Due:
    """Look at the last `window` settled days of the archive, and at those before them.

    Raises:
        SafetyRefusal: the prefix belongs to another stream or application.
        SettingsError: nothing was ever archived or published there: a night of no rows would look like a good one.
    """
    prefix, now_ms = context.place.prefix, context.clock.now_ms()
    application = read_owned(context.archive, prefix, context.owner, application=options.application)
    newest = newest_settled(now_ms)
    storage, expired = context.open(out.address), list_tombstones(context.archive, prefix)
    at_output = published_days(storage, out.prefix)
    oldest = oldest_day(context, application, newest, [*at_output, *expired])
    if oldest is None:
        raise SettingsError(
            f"nothing is archived at {context.archive.uri(prefix)}: neither a record of an application nor an object",
            next_step="correct minutebook.bucket or minutebook.prefix; an archive begins with minutebook consume",
        )
    if oldest > newest:
        return Due(())
    first = max(oldest, newest.shift(1 - window))
    days = [Day(number) for number in range(first.number, newest.number + 1)]
    before = {
        state.day: state
        for state in _states(storage, out.prefix, [day for day in at_output if oldest <= day < first])
    }
    older_expired = {day for day in expired if oldest <= day < first}
    in_turn = days_in_turn(sorted({*before, *older_expired}), day_of_ms(now_ms))
    found = _due_days(context, storage, out.prefix, application, options, expired, [*in_turn, *days])
    open_days = tuple(
        day
        for day in (Day(number) for number in range(oldest.number, first.number))
        if _is_open(before.get(day, _Read(day)), is_expired=day in expired)
    )
    return Due(tuple(found[len(in_turn) :]), OlderDays(open_days, tuple(found[: len(in_turn)])))


def _is_open(state: _Read, *, is_expired: bool) -> bool:
    """Return whether somebody has to look at an older day: of an expired one, whether its output is gone."""
    return (state.published is None and not state.is_unread) if is_expired else not state.is_settled


def look_at(context: JobContext, out: StorePrefix, options: AuditOptions, day: Day) -> DueDay:
    """Look at one day, as a night does. Raises SafetyRefusal as `find_due` does."""
    prefix = context.place.prefix
    application = read_owned(context.archive, prefix, context.owner, application=options.application)
    expired = list_tombstones(context.archive, prefix)
    return _due_days(context, context.open(out.address), out.prefix, application, options, expired, [day])[0]


def days_in_turn(days: Sequence[Day], today: Day) -> list[Day]:
    """Return those of the older days, in order, that are looked at today: one or two, or none where days are missing.

    They are the days whose age is a multiple of a power of two, the greatest that the days span. So each comes at
    least once while it is among them, however their first and last one move meanwhile, and again each time that so
    many days have passed. (By its place in the list, which moves too, a half of them would never come.)
    """
    if not days:
        return []
    turn = 1 << (days[-1].number - days[0].number + 1).bit_length() - 1
    return [day for day in days if (today.number - day.number) % turn == 0]


def do_due(context: JobContext, each: DueDay, options: CompactOptions) -> Compacted:
    """Do what is due of a day; where nothing is, or the day is expired, the table follows, and old files go.

    Raises WorkFailed instead of another error where a clean verdict was in doubt, which is then withdrawn. A bug is
    raised as it is, and withdraws the verdict, too.
    """
    out = context.open(options.out.address)
    if each.is_expired:
        return _settle_expired(context, out, each, options)
    try:
        if each.why:
            return compact_day(context, out, each.day, options)
        return settle_day(context, out, each.day, options, is_expired=False)
    except Exception as exc:
        if each.doubted is None:
            raise
        # A run that was asked to end makes no further request: then this raises Stopped, and nothing is withdrawn.
        outcome, is_withdrawn = _withdraw(context, out, each, options, f"it could not be judged again: {exc}")
        if isinstance(exc, MinutebookError):
            raise WorkFailed(exc, outcome, is_withdrawn=is_withdrawn) from exc
        raise


def _settle_expired(context: JobContext, out: RetryingStorage, each: DueDay, options: CompactOptions) -> Compacted:
    """Let everything follow an expired day; a clean verdict goes where its output is not what it was expired with.

    Nothing can be judged or made again there: only a person can restore the output, and then the verdict comes back.
    """
    try:
        done = settle_day(context, out, each.day, options, each.tombstone, is_expired=True)
    except SafetyRefusal as exc:
        given_up = _give_up(context, out, each, options, str(exc))
        if given_up is None:
            raise
        outcome, is_withdrawn = given_up
        raise WorkFailed(exc, outcome, is_withdrawn=is_withdrawn) from exc
    given_up = _give_up(context, out, each, options, done.reason) if done.state == "held" else None
    if given_up is None:
        return done
    outcome, is_withdrawn = given_up
    steps = (*done.done, "withdrawn") if is_withdrawn else done.done
    return done._replace(done=steps, reason=f"{done.reason}; {outcome}")


def _give_up(
    context: JobContext, out: RetryingStorage, each: DueDay, options: CompactOptions, reason: str
) -> tuple[str, bool] | None:
    """Withdraw an expired day's clean verdict (`_withdraw`); None: it has none, or no tombstone to compare with."""
    if each.tombstone is None:
        return None
    pointer = Publisher(out, DayFolder(options.out.prefix, each.day)).current().pointer
    if pointer is None or pointer.verdict != CLEAN:
        return None
    return _withdraw(context, out, each._replace(doubted=pointer, why=_OTHER_OUTPUT), options, reason)


def leave_due(context: JobContext, each: DueDay, options: CompactOptions, left: MinutebookError) -> MinutebookError:
    """Return what a day ends with that is `left` to another run; a verdict in doubt is given up all the same."""
    if each.doubted is None:
        return left
    out = context.open(options.out.address)
    outcome, is_withdrawn = _withdraw(context, out, each, options, f"it was not judged again: {left}")
    return WorkFailed(left, outcome, is_withdrawn=is_withdrawn)


def _withdraw(
    context: JobContext, out: RetryingStorage, each: DueDay, options: CompactOptions, reason: str
) -> tuple[str, bool]:
    """Withdraw a doubted verdict; return what became of it in words, and whether it was withdrawn."""
    assert each.doubted is not None  # noqa: S101 - for the type checker: callers have looked
    try:
        if not each.is_expired and is_expired(context.archive, context.place.prefix, each.day):
            # Since the night began: what is missing was deleted by this verdict.
            return "it was expired meanwhile, and its verdict stays", False
        is_withdrawn = withdraw_day(context, out, each.day, options, each.doubted, f"{each.why}; {reason}")
    except (FormatError, StoreError) as exc:
        return f"its verdict is in doubt ({each.why}), and readers still see it, because that failed: {exc}", False
    if not is_withdrawn:
        return "its pointer has changed meanwhile", False
    return f"its verdict was withdrawn, because it was in doubt: {each.why}", True


def oldest_day(
    context: JobContext, application: ApplicationRecord | None, newest: Day, elsewhere: Iterable[Day]
) -> Day | None:
    """Return the archive's first day: that of the application's start.

    An application that began with a stream of years before itself has nothing there: then it is the first day with an
    object, or when the application first ran, or the first that the output or a tombstone tells of (`elsewhere`),
    whose objects may be gone; whichever is the earliest.
    """
    first = ArchiveIndex(context.archive, context.place.prefix).oldest_day(newest)
    known = [*elsewhere, *([] if first is None else [min(first, newest)])]
    if application is None:
        return min(known, default=None)
    return max(day_of_ms(begins_ms(application)), min([*known, day_of_ms(application.written_at_ms), newest]))


def _due_days(
    context: JobContext,
    storage: RetryingStorage,
    root: str,
    application: ApplicationRecord | None,
    options: AuditOptions,
    expired: Mapping[Day, ListedObject],
    days: Sequence[Day],
) -> list[DueDay]:
    now_ms = context.clock.now_ms()
    read = _states(storage, root, [day for day in days if day not in expired])
    known, states = list[PublishedBasis](), dict[Day, _Read]()
    for state in read:
        states[state.day], basis = _with_basis(state, context.place.prefix, application, now_ms)
        known += [] if basis is None else [basis]
    moved, is_moved = _moved(context, known, options)
    earlier = [day for day, state in states.items() if not state.why and day not in moved]
    waiting = frozenset(sorted(earlier, reverse=True)[EARLIER_A_NIGHT:])
    due = []
    for day in days:
        if day in expired:
            due.append(_expired(context, day, expired[day].last_modified_ms))
            continue
        state = states[day]
        why = moved.get(day, "" if state.why or day in waiting else "an earlier release judged it")
        why = "; ".join(filter(None, (state.why, why)))
        is_in_doubt = state.is_clean and (state.is_doubtful or day in is_moved)
        due.append(DueDay(day, state.pointer, why, doubted=state.published if is_in_doubt else None))
    return due


def _with_basis(
    state: _Read, prefix: str, application: ApplicationRecord | None, now_ms: int
) -> tuple[_Read, PublishedBasis | None]:
    """Return what is published of a day, due where the basis of its verdict is damaged; and the basis to compare."""
    basis = state.basis if state.is_clean else None
    if basis is None:
        return state, None
    damage = damage_of(basis, prefix, now_ms // MINUTE_MS)
    try:
        scope = judged_scope(state.day, application, now_ms, state.until_ms)
    except SettingsError as exc:
        damage = damage or str(exc)
    if damage:
        why = state.why or f"the basis of its verdict is damaged: {damage}"
        return state._replace(why=why, is_doubtful=True), None
    return state, PublishedBasis(state.day, scope, basis)


def _moved(
    context: JobContext, known: Sequence[PublishedBasis], options: AuditOptions
) -> tuple[dict[Day, str], set[Day]]:
    """Return why days are due by what their verdicts rest on (empty: they are not), and those where it differs.

    Rows that were made by other settings are due, and no doubt about the archive.
    """
    try:
        present = present_bases(context, known, options)
    except StoreUnavailable as exc:
        return {each.day: f"what its verdict rests on cannot be listed: {exc}" for each in known}, set()
    moved, is_moved = dict[Day, str](), set[Day]()
    for each in known:
        now = present[each.day]
        moved[each.day] = "; ".join(differences(each.basis, now.basis))
        if any(differences(msgspec.structs.replace(each.basis, settings=now.basis.settings), now.basis)):
            is_moved.add(each.day)
        if not moved[each.day] and now.error is not None:
            moved[each.day] = f"what its verdict rests on cannot be read: {now.error}"
    return moved, is_moved


def _expired(context: JobContext, day: Day, stored_ms: int) -> DueDay:
    """Return an expired day, with the objects below it that another writer put there since.

    What the tombstone covers and does not keep is left by a run of `expire` that died: the next one deletes it.
    """
    prefix = context.place.prefix
    try:
        tombstone = read_tombstone(context.archive, prefix, day)
    except (FormatError, StoreError) as exc:
        return DueDay(day, "expired", is_expired=True, damage=f"its tombstone cannot be read: {exc}")
    if tombstone is None:
        return DueDay(day, "expired", is_expired=True, damage="its tombstone was listed and is gone")
    each = DueDay(day, "expired", is_expired=True, tombstone=tombstone)
    try:
        rows = [make_row(prefix, listed) for listed in context.archive.list_objects(day.path(prefix))]
    except StoreError as exc:
        return each._replace(damage=f"what came after it was expired cannot be listed: {exc}")
    lost = sorted(tombstone.kept_keys() - {row.key for row in rows})
    return each._replace(zombies=tuple(zombies_of(tombstone, stored_ms, rows)[:_KEYS]), lost=tuple(lost[:_KEYS]))


def zombies_of(tombstone: Tombstone, stored_ms: int, rows: Iterable[ListedSegment]) -> list[str]:
    """Return the objects of an expired day that its tombstone, stored at a time, neither keeps nor covers. Pure."""
    kept = tombstone.kept_keys()
    return [
        row.key
        for row in rows
        if row.key not in kept
        and (
            row.last_modified_ms > stored_ms
            or row.parsed is None
            or not tombstone.covers(row.parsed.shard_id, row.parsed.first)
        )
    ]


def _states(storage: RetryingStorage, root: str, days: Iterable[Day]) -> list[_Read]:
    patience = _Patience(storage.new_backoff)
    patient = storage.within(patience)

    def read(day: Day) -> _Read:
        state = _read(Publisher(patient, DayFolder(root, day)), day)
        patience.is_over |= state.is_unread and not state.is_doubtful
        return state

    return in_parallel(read, list(days), _READ_AT_ONCE)


class _Patience:
    """Makes the waits of requests; none any more once one was in vain: a store is away for all days alike."""

    def __init__(self, new_backoff: Callable[[], Backoff]) -> None:
        self._new_backoff = new_backoff
        self.is_over = False

    def __call__(self) -> Backoff:
        backoff = self._new_backoff()
        return backoff.spent() if self.is_over else backoff


def _read(publisher: Publisher, day: Day) -> _Read:
    """Read what is published of a day, and whether more than its basis says that it is due."""
    state = _Read(day)
    try:
        pointer = publisher.current().pointer
        if pointer is None:
            return state._replace(why="it is not published")
        written_ms(pointer)
        state = state._replace(pointer=pointer.verdict, published=pointer, until_ms=published_until_ms(pointer))
        pointer, manifest, audit = _documents(publisher)
        if pointer is None:
            return state._replace(why="it is not published")
        why, damage = why_due(pointer, manifest, audit), "" if audit and manifest else _INCOMPLETE
        if not why and audit is not None and manifest is not None:
            damage = publisher.damage(pointer, manifest, 0 if audit.basis is None else audit.basis.facts)
    except FormatError as exc:
        return state._replace(pointer="none", why=f"what is published is damaged: {exc}", is_doubtful=True)
    except StoreRefused as exc:
        return state._replace(why=f"what is published cannot be read: {exc}", is_doubtful=True, is_unread=True)
    except StoreError as exc:
        return state._replace(why=f"what is published cannot be read: {exc}", is_unread=True)
    return state._replace(pointer=word_of(pointer, audit), why=damage or why, audit=audit, is_doubtful=bool(damage))


def why_due(pointer: Pointer, manifest: Manifest | None, audit: Audit | None) -> str:
    """Return why a published day is due whatever its files and its basis say; empty: these decide. Pure."""
    if audit is None or manifest is None:
        return _INCOMPLETE
    if pointer.until is not None:
        return f"it is published until {pointer.until}"
    if not is_judged_today(pointer):
        return "older rules judged it"
    return "" if pointer.verdict == CLEAN else "it is not clean"


def _documents(publisher: Publisher) -> tuple[Pointer | None, Manifest | None, Audit | None]:
    """Read the pointer, its manifest and its audit, each None if missing; raises FormatError."""
    pointer, manifest = publisher.published()
    body = None if pointer is None else publisher.audit(pointer)
    audit = None if body is None or pointer is None else decode_audit(body, audit_key(pointer))
    return pointer, manifest, audit


def pointer_word(storage: RetryingStorage, root: str, day: Day) -> PointerWord:
    """Return what readers see of a day now; its files and its inventory are not looked at."""
    try:
        pointer, _, audit = _documents(Publisher(storage, DayFolder(root, day)))
    except FormatError:
        return "none"
    return "none" if pointer is None else word_of(pointer, audit)


def published_audit(storage: RetryingStorage, root: str, day: Day) -> Audit | None:
    """Return the audit of what is published of a day; raises FormatError."""
    return _documents(Publisher(storage, DayFolder(root, day)))[2]


def word_of(pointer: Pointer, audit: Audit | None) -> PointerWord:
    """Return what readers see of a published day; `clean` by older rules, or without its audit, is unknown. Pure."""
    if audit is not None and audit.accepted is not None:
        return "accepted"
    return proven_verdict(pointer, has_audit=audit is not None)
