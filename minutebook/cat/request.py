"""The request of `minutebook cat`, checked before any I/O."""

from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, get_args

from minutebook.errors import FormatError, SettingsError
from minutebook.format.keys import check_shard_id
from minutebook.format.minute import MINUTE_MS, iso_time, minute_of, parse_iso_time

if TYPE_CHECKING:  # a library that reads records needs no typer
    from minutebook.cat.options import CatOptions

Format = Literal["text", "json", "parquet"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)
_LONGEST_MS: Final = 3660 * 24 * 3_600_000
_SKEW_MS: Final = 5 * MINUTE_MS
"""How far a record's arrival time may be ahead of this machine's clock."""


class CatRequest(NamedTuple):
    """Records that arrived from `from_ms` to before `to_ms` (epoch ms), optionally of one shard or partition key."""

    from_ms: int
    to_ms: int
    shard: str | None = None
    partition_key: str | None = None
    limit: int | None = None
    form: Format = "text"
    out: Path | None = None

    @property
    def minutes(self) -> range:
        """The minutes that may hold such records, counted from the epoch."""
        return range(minute_of(self.from_ms), minute_of(self.to_ms - 1) + 1)


def checked_request(options: "CatOptions", now_ms: int) -> CatRequest:
    """Return the request, with an end in the future set to now; raises SettingsError."""
    from_ms, to_ms, out = parse_iso_time(options.from_), parse_iso_time(options.to), options.out
    if not from_ms < to_ms or to_ms - from_ms > _LONGEST_MS:
        raise SettingsError(
            f"no span of time: {options.from_} to {options.to}",
            next_step="--from lies before --to, and ten years at most",
        )
    if from_ms < 0 or from_ms > now_ms + _SKEW_MS:
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
    end_ms = min(to_ms, now_ms + _SKEW_MS)
    return CatRequest(from_ms, end_ms, shard, options.partition_key, options.limit, form, out)
