"""`minutebook expire`: delete the raw segments of days that are published, clean, and long out of the stream."""

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from consumer.connections import stream_of
from consumer.expire.apply import DayDeleter, delete_all
from consumer.expire.boundary_objects import OldBoundaries
from consumer.expire.coverage import DayProver
from consumer.expire.plan import ExpiryPlan, greatest_firsts, plan_expiry
from consumer.expire.published_day import read_judged_generation
from consumer.requests import ExpireRequest
from consumer.settings.settings import Settings, load_settings
from consumer.stream.port import StreamIdentity
from minutebook.apply_option import is_applied, tell_unchanged
from minutebook.aws.clients import make_s3_client
from minutebook.clock import Clock, IdSource, SystemClock, new_id, new_random
from minutebook.compression import compression_of
from minutebook.errors import FormatError, MinutebookError, ObjectArchived, SafetyRefusal, SettingsError
from minutebook.format.day import MINUTES_A_DAY, Day
from minutebook.format.keys import DUPLICATES, WATERMARKS, slot_beside, slot_of
from minutebook.format.minute import DAY_MS
from minutebook.format.position import Position
from minutebook.format.record import decode_dropped_line, original_of
from minutebook.format.segment import inflate
from minutebook.index.names import ArchiveIndex
from minutebook.logs import configure_logging
from minutebook.owner import require_archive
from minutebook.properties_file import PropertiesFile, Source
from minutebook.properties_folder import PropertiesFolder, StreamFile, streams_of
from minutebook.published.generation import OUTPUT_FOLDER
from minutebook.retry import Backoff
from minutebook.store.places import StorePrefix, open_storage, parse_place
from minutebook.store.retrying import RetryingStorage, RetryingStore
from minutebook.store.s3_storage import S3Storage
from minutebook.store.storage import Address
from minutebook.store.tombstones import read_tombstone
from minutebook.streams_run import StreamEnd, StreamsRun
from minutebook.terminal import Table, TerminalConsole
from minutebook.wording import ITEM

MARGIN_MS: Final = 86_400_000
"""How much older than the stream's retention a record must be: more than a buffer's age and the clocks' error."""
SEEN_AFTER_DAYS: Final = 2
"""Days after the newest expired one that are searched for later segments of each chain."""
_AGE: Final = re.compile(r"([1-9][0-9]{0,4})d", re.ASCII)
_EPOCH: Final = dt.date(1970, 1, 1)
_REFUSED: Final = 6


class Archive(NamedTuple):
    """The archive, its published days below `published_root`, and its stream."""

    store: RetryingStorage
    prefix: str
    identity: StreamIdentity
    application: str
    published: RetryingStore
    published_root: str
    clock: Clock
    new_id: IdSource
    prover: type[DayProver] = DayProver


class SideObjects(NamedTuple):
    """The dropped lines and watermarks of one archive.

    Those of a segment that stays, such as the last one of a chain, stay too. Segments are deleted first: a processor
    stops at a segment whose watermarks are missing. Dropped lines go only if each names the position of its original,
    which is archived by the day's clean verdict; a producer's number cannot be looked up, so such a line stays.
    """

    store: RetryingStore
    prefix: str

    def orphans(self, newest: dt.date) -> Iterator[str]:
        """Yield the keys that may be deleted, of expired days up to `newest`; foreign objects stay."""
        for folder in (DUPLICATES, WATERMARKS):
            for day in ArchiveIndex(self.store, f"{self.prefix}{folder}").days(Day.parse(str(newest)), -1):
                yield from self._of_day(folder, day)

    def _of_day(self, folder: str, day: Day) -> Iterator[str]:
        try:
            if read_tombstone(self.store, self.prefix, day) is None:
                return
        except FormatError:
            return
        remaining = {slot_of(key) for key in self.store.keys(day.path(self.prefix))}
        for key in self.store.keys(day.path(f"{self.prefix}{folder}")):
            slot = slot_beside(self.prefix, folder, key)
            if slot is not None and slot not in remaining and (folder == WATERMARKS or self._names_positions(key)):
                yield key

    def _names_positions(self, key: str) -> bool:
        stored = self.store.get(key)
        if stored is None:
            return False
        try:
            lines = inflate([stored.body], compression_of(key))
            return all(original_of(decode_dropped_line(line)[2]) is not None for line in lines)
        except FormatError:
            return False


def run_expire(request: ExpireRequest, environ: Mapping[str, str]) -> int:
    """Print what would be deleted and, with `apply`, delete it; return the exit code.

    The code is 6 when a day was refused; the other days are expired nevertheless, and so are other streams' days.
    """
    apply = is_applied(apply=request.apply, dry_run=request.dry_run)
    older_than_ms = expiry_age_ms(request.older_than)
    source = streams_of(request.file, environ, request.stream)
    if isinstance(source, PropertiesFolder):
        configure_logging()

        def work(_: StreamFile, properties: PropertiesFile) -> StreamEnd:
            days = _expired(request, properties, environ, older_than_ms, apply=apply)
            return end_of_stream(days, apply=apply)

        code = StreamsRun("expire", source, is_long=True).run(work)
    else:
        code = _expired(request, source, environ, older_than_ms, apply=apply).exit_code
    if not apply:
        tell_unchanged("expire", dry_run=request.dry_run)
    return code


def end_of_stream(days: "ExpiredDays", *, apply: bool) -> StreamEnd:
    """Return the row of a stream of a folder."""
    outcome = f"{days.done} day(s) {'expired' if apply else 'would be expired'}"
    if days.refused:
        more = f"; and {len(days.refused) - 1} more day(s)" if len(days.refused) > 1 else ""
        outcome += f"{ITEM}{days.refused[0]}{more}"
    return StreamEnd(days.exit_code, outcome)


def _expired(
    request: ExpireRequest, source: Source, environ: Mapping[str, str], older_than_ms: int, *, apply: bool
) -> "ExpiredDays":
    settings = load_settings(source, environ)
    configure_logging(settings.log_level)
    clock, rng, console = SystemClock(), new_random(), TerminalConsole()
    place = place_of(request.published, settings, source)
    s3 = S3Storage(make_s3_client(settings.region, settings.s3_endpoint, settings.access), settings.bucket)
    store = RetryingStorage(s3, lambda: Backoff(clock, rng, budget_seconds=settings.store_timeout_seconds))
    archive = Archive(
        store=store,
        prefix=settings.prefix,
        identity=stream_of(settings, clock).describe(),
        application=settings.application_name,
        published=RetryingStore(open_storage(place.address), store.new_backoff),
        published_root=place.prefix,
        clock=clock,
        new_id=new_id,
    )
    return expire_days(archive, older_than_ms, console, request.rate if apply else None)


def place_of(published: str | None, settings: Settings, source: Source) -> StorePrefix:
    """Return where a stream's days are published; of a stream of a folder by the places that `compact` gives them."""
    if not isinstance(source, PropertiesFile):
        if published is None:
            raise SettingsError("--published is missing", next_step="name what compact was given as --out")
        return published_place(published, settings)
    if published is None:
        bucket = Address(settings.bucket, "", settings.region, settings.s3_endpoint, settings.access)
        return StorePrefix(bucket, f"{settings.prefix}{OUTPUT_FOLDER}")
    place = published_place(published, settings)
    return place._replace(prefix=f"{place.prefix}{settings.application_name}/")


def published_place(text: str, settings: Settings) -> StorePrefix:
    """Parse a place as in `minutebook compact --out`; raises SettingsError, also for a missing directory."""
    place = parse_place(text, settings.region, settings.s3_endpoint, settings.access, archive_bucket=settings.bucket)
    if place.address.bucket is None and not Path(place.address.root).is_dir():
        raise SettingsError(f"there is no directory {text!r}", next_step="name what compact was given as --out")
    return place


class ExpiredDays(NamedTuple):
    """How many days were expired, or would be, and what is wrong with those that were refused."""

    done: int
    refused: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """6 when a day was refused."""
        return _REFUSED if self.refused else 0


def expire_days(archive: Archive, older_than_ms: int, console: TerminalConsole, rate: int | None) -> ExpiredDays:
    """Plan the days, newest first, and expire them at `rate` objects a second; None: only print the plan."""
    record = require_archive(archive.store, archive.prefix, archive.identity, archive.application)
    cutoff = newest_day(archive, older_than_ms)
    table = Table("day", "objects", "delete", "stay", numbers=("objects", "delete", "stay"))
    refused: list[str] = []
    log = structlog.get_logger()
    for plan in plans(archive, cutoff):
        reason = plan.refusal
        if reason is None:
            reason = _expire_day(archive, plan, record.begin_ms, rate)
        if reason is not None:
            refused.append(f"{plan.day}: {reason}")
            log.warning("day_refused", day=str(plan.day), next_step=reason)
        because = reason or ("resumes" if plan.tombstone else "published, clean")
        stay = len(plan.segments) - len(plan.deletions)
        numbers = (f"{number:,}" for number in (len(plan.segments), len(plan.deletions), stay))
        table.add(str(plan.day), *numbers, beside=[because])
    if len(table):
        console.print(table)
    else:
        console.print(f"no day up to {cutoff} has anything to delete")
    beside = list(SideObjects(archive.store, archive.prefix).orphans(cutoff))
    if _delete_too(archive, beside, "beside segments that are gone", console, rate):
        log.info("beside_expired", deleted=len(beside))
    boundaries = list(OldBoundaries(archive.store, archive.prefix).of_expired_days(cutoff))
    if _delete_too(archive, boundaries, "about boundaries", console, rate):
        log.info("boundaries_expired", deleted=len(boundaries))
    return ExpiredDays(len(table) - len(refused), tuple(refused))


def newest_day(archive: Archive, older_than_ms: int) -> dt.date:
    """Return the newest day that is old enough; raises SafetyRefusal if stream or buffers may hold such records."""
    retention_ms = archive.identity.retention_ms
    if older_than_ms < retention_ms + MARGIN_MS:
        least = -(-(retention_ms + MARGIN_MS) // DAY_MS)
        raise SafetyRefusal(
            f"the stream keeps its records for {retention_ms / 3_600_000:g} h: what it may still deliver "
            "must stay in the archive, which recognises it by these objects",
            next_step=f"use --older-than {least}d or more",
        )
    return _EPOCH + dt.timedelta(days=(archive.clock.now_ms() - older_than_ms) // DAY_MS - 1)


def plans(archive: Archive, newest: dt.date) -> Iterator[ExpiryPlan]:
    """Yield the plan of every day up to `newest` with something to delete, newest first.

    The order matters: a segment may go only after a later one of its chain was listed, in a newer day or in this one.
    """
    store, prefix = archive.store, archive.prefix
    index = ArchiveIndex(store, prefix)
    last_day = Day.parse(str(newest))
    end = last_day.shift(1).first_minute
    last = end + SEEN_AFTER_DAYS * MINUTES_A_DAY
    later = dict[str, Position]()
    for hour in index.hours_back(last, end):
        later = greatest_firsts((name for name in index.in_period(hour) if name.minute <= last), later)
    for stored_day in index.days(last_day, -1):
        day = stored_day.date
        listed = list(store.list_objects(stored_day.path(prefix)))
        if not listed:
            continue
        tombstone, published, damage = None, None, None
        try:
            tombstone = read_tombstone(store, prefix, day)
            # Of an expired day some segments stay for ever: no reason to read its inventory each time.
            if tombstone is None or not {row.key for row in listed} <= tombstone.kept_keys():
                published = read_judged_generation(archive.published, archive.published_root, day)
        except (FormatError, ObjectArchived) as exc:
            damage = f"{exc}; {exc.next_step}"
        plan = plan_expiry(day, prefix, listed, published, tombstone, later)
        # Only the tombstone names the segments that had to stay, and only the output what is left of the others: so
        # none may go where either cannot be read. That is this day's matter.
        plan = plan if damage is None else plan._replace(refusal=damage)
        later = greatest_firsts(plan.segments.values(), later)
        if plan.segments.keys() - plan.kept:
            yield plan


def expiry_age_ms(text: str) -> int:
    """Parse a number of days such as `30d` to milliseconds; raises SettingsError."""
    match = _AGE.fullmatch(text)
    if match is None:
        raise SettingsError(f"not an age: {text!r}", next_step="write it in days, as in --older-than 30d")
    return int(match[1]) * DAY_MS


def _expire_day(archive: Archive, plan: ExpiryPlan, begin_ms: int, rate: int | None) -> str | None:
    """Expire one day; return the reason if the evidence, a segment or another run prevents it."""
    store, prefix, clock = archive.store, archive.prefix, archive.clock
    try:
        proof = None
        if plan.tombstone is None:
            proof = archive.prover(store, prefix, clock, begin_ms).prove(plan)
        if rate is None:
            return proof.refusal if proof else None
        deleted = DayDeleter(store, prefix, clock, archive.new_id, rate).expire(plan, proof)
    except MinutebookError as exc:
        if exc.exit_code not in {1, _REFUSED}:
            raise
        return f"{exc}; {exc.next_step}"
    structlog.get_logger().info("day_expired", day=str(plan.day), deleted=deleted, kept=len(plan.kept))
    return None


def _delete_too(archive: Archive, keys: Sequence[str], what: str, console: TerminalConsole, rate: int | None) -> bool:
    """Delete other objects of expired days, also those that earlier runs left; return whether any were."""
    if not keys:
        return False
    if rate is not None:
        delete_all(archive.store, keys, rate, archive.clock)
    console.print(f"{len(keys)} object(s) {what} {'would be' if rate is None else 'were'} deleted, too")
    return rate is not None
