"""The request of `minutebook cat`, checked before any I/O."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, get_args

from minutebook.cut import Cut, read_cut
from minutebook.errors import FormatError, SettingsError
from minutebook.format.keys import check_shard_id
from minutebook.format.minute import MINUTE_MS, iso_time, minute_of, parse_iso_time
from minutebook.format.record import Record

if TYPE_CHECKING:  # a library that reads records needs no typer
    from minutebook.cat.options import CatOptions

Format = Literal["text", "json", "parquet"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)
_LONGEST_MS: Final = 3660 * 24 * 3_600_000
SKEW_MS: Final = 5 * MINUTE_MS
"""How far a record's arrival time may be ahead of this machine's clock."""
LATE_MINUTES: Final = 120
"""How long after its minute a segment may be committed that `--follow` still shows."""


class CatRequest(NamedTuple):
    """Records that arrived from `from_ms` to before `to_ms` (epoch ms), optionally of one shard or partition key.

    With cuts, those that lie `before` the one and behind the other, `after`. `follow`: there is no end, `to_ms` is
    SKEW_MS from now; `is_from_now`: what is archived already is not requested.
    """

    from_ms: int
    to_ms: int
    shard: str | None = None
    partition_key: str | None = None
    limit: int | None = None
    form: Format = "text"
    out: Path | None = None
    before: Cut | None = None
    after: Cut | None = None
    follow: bool = False
    is_from_now: bool = False

    @property
    def followed_from(self) -> int:
        """The minute from which on segments are followed; those of earlier ones are listed once."""
        return max(minute_of(self.from_ms), minute_of(self.to_ms - SKEW_MS) - LATE_MINUTES)

    @property
    def minutes(self) -> range:
        """The minutes that may hold such records, counted from the epoch; without those that are followed."""
        end = self.followed_from if self.follow else minute_of(self.to_ms - 1) + 1
        return range(minute_of(self.from_ms), end)

    def selects(self, shard_id: str, record: Record) -> bool:
        """Return whether a shard's record is requested."""
        return (
            self.from_ms <= record.arrival_ms
            and (self.follow or record.arrival_ms < self.to_ms)
            and (self.partition_key is None or record.partition_key == self.partition_key)
            and (self.before is None or self.before.is_before(shard_id, record.position))
            and (self.after is None or not self.after.is_before(shard_id, record.position))
        )


def checked_request(options: "CatOptions", now_ms: int, begin_ms: Callable[[], int]) -> CatRequest:
    """Return the request, with an end in the future set to now; raises SettingsError.

    A cut stands for the time that is not given. `begin_ms` returns where the archive begins: all that lies before a
    cut may be requested, also with a stamp in the future.
    """
    if options.follow and not (options.to is None and options.before is None):
        raise SettingsError("--follow has no end", next_step="leave out --to and --before, or --follow")
    before = None if options.before is None else read_cut(options.before)
    after = None if options.after is None else read_cut(options.after)
    from_ms, to_ms = _span(options, before, after, begin_ms, now_ms)
    out = options.out
    if not from_ms < to_ms or to_ms - from_ms > _LONGEST_MS:
        raise SettingsError(
            f"no span of time: {iso_time(from_ms)} to {iso_time(to_ms)}",
            next_step="--from lies before --to, and ten years at most",
        )
    if from_ms < 0 or from_ms > now_ms + SKEW_MS:
        raise SettingsError(
            f"nothing has arrived at {iso_time(max(0, from_ms))} yet, or ever", next_step="correct --from"
        )
    form = next((name for name in FORMATS if name == options.form), None)
    if form is None:
        raise SettingsError(f"{options.form!r} is not a format", next_step=f"--format takes {', '.join(FORMATS)}")
    if form == "parquet" and out is None:
        raise SettingsError("Parquet is no stream", next_step="name a file: --out FILE.parquet")
    if out is not None and out.exists():
        raise SettingsError(f"{out} exists", next_step="name another file, or remove this one")
    if out is not None and not out.absolute().parent.is_dir():
        raise SettingsError(f"{out.parent} is not a folder", next_step="make it, or name a file elsewhere")
    try:
        shard = None if options.shard is None else check_shard_id(options.shard)
    except FormatError as exc:
        raise SettingsError(str(exc), next_step="write it as minutebook status shows it") from exc
    end_ms = to_ms if options.to is None and before is not None else min(to_ms, now_ms + SKEW_MS)
    return CatRequest(
        from_ms,
        end_ms,
        shard,
        options.partition_key,
        options.limit,
        form,
        out,
        before=before,
        after=after,
        follow=options.follow,
        is_from_now=options.follow and options.from_ is None and after is None,
    )


def _span(
    options: "CatOptions", before: Cut | None, after: Cut | None, begin_ms: Callable[[], int], now_ms: int
) -> tuple[int, int]:
    """Return the first and the last time of the request. No record behind a cut has a minute before its time."""
    if options.to is not None:
        to_ms = parse_iso_time(options.to)
    elif before is not None:
        to_ms = before.through_ms
    elif after is not None or options.follow:
        to_ms = now_ms + SKEW_MS
    else:
        raise SettingsError("no end is named", next_step="give --to TIME, or a cut by --before or --after")
    if options.from_ is not None:
        return parse_iso_time(options.from_), to_ms
    if after is not None:
        return after.at_ms // MINUTE_MS * MINUTE_MS, to_ms
    if before is not None:
        return begin_ms(), to_ms
    if options.follow:
        return now_ms - LATE_MINUTES * MINUTE_MS, to_ms
    raise SettingsError("no beginning is named", next_step="give --from TIME, or a cut by --before or --after")
