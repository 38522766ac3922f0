"""Published days as tables of pyarrow and Spark."""

import datetime as dt
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, overload

from minutebook.clock import SystemClock
from minutebook.cut import Cut, read_cut
from minutebook.errors import DayNotPublished, SafetyRefusal, SettingsError
from minutebook.format.day import day_of_ms
from minutebook.format.minute import parse_iso_time
from minutebook.published.generation import OUTPUT_FOLDER
from minutebook.reader.days import VERDICTS, Missing, PublishedDay, days_between, output_place, published

if TYPE_CHECKING:
    import pyarrow.dataset as ds
    from pyspark.sql import DataFrame, SparkSession

    from minutebook.reader.live import LiveDays


@overload
def read(
    uri: str,
    from_: str | dt.date,
    to: str | dt.date | None = None,
    columns: Sequence[str] | None = None,
    *,
    live: Literal[False] = False,
    before: Cut | str | Path | None = None,
    after: Cut | str | Path | None = None,
    missing: Missing = "error",
    verdicts: Collection[str] = VERDICTS,
    max_age: dt.timedelta | None = None,
    archive: str | None = None,
    region: str | None = None,
    endpoint: str | None = None,
) -> "ds.Dataset": ...


@overload
def read(
    uri: str,
    from_: str | dt.date,
    to: str | dt.date | None = None,
    columns: Sequence[str] | None = None,
    *,
    live: Literal[True],
    before: Cut | str | Path | None = None,
    after: Cut | str | Path | None = None,
    missing: Missing = "error",
    verdicts: Collection[str] = VERDICTS,
    max_age: dt.timedelta | None = None,
    archive: str | None = None,
    region: str | None = None,
    endpoint: str | None = None,
) -> "LiveDays": ...


def read(
    uri: str,
    from_: str | dt.date,
    to: str | dt.date | None = None,
    columns: Sequence[str] | None = None,
    *,
    live: bool = False,
    before: Cut | str | Path | None = None,
    after: Cut | str | Path | None = None,
    missing: Missing = "error",
    verdicts: Collection[str] = VERDICTS,
    max_age: dt.timedelta | None = None,
    archive: str | None = None,
    region: str | None = None,
    endpoint: str | None = None,
) -> "ds.Dataset | LiveDays":
    """Return the days from `from_` to `to`, inclusive, as one pyarrow Dataset; see `published`.

    DuckDB and Polars read it, and open only the days that match a condition on `dt` (text, as 2026-11-20). The schema
    is that of all days: a column that a day lacks is null in it. `columns` selects columns, in this order.

    `before` and `after` are cuts, or the files that `minutebook cut` wrote: only records before the one and behind
    the other are returned, compared by shard and position. `to` may then be left out for the last day with a record
    before the cut. The columns of the position are always returned, because rows are selected by them. A part of a
    day that ends before `through` of the cut `before` raises DayNotPublished, unless `missing="skip"` takes what
    there is. A cut of a stream of another name raises SafetyRefusal. Days know no more of their stream: one that was
    created again under its name, and days without an audit, are not told apart.

    Rows are read with the Dataset: a file that is gone, or not the published one, raises `ObjectVanished` then.

    `live=True` returns LiveDays (`minutebook.reader.live`): the published days, and the raw segments that they do
    not hold. `to` may be left out for today. The segments are in `archive`, by default the folder above `_parquet/`.
    They have no verdict, so `verdicts` and `max_age` are refused. A day need not be published; `missing` is about
    days that were expired and are not.
    """
    from minutebook.reader.arrow import open_dataset  # noqa: PLC0415 - needs pyarrow, of the extra `compact`

    cut_before, cut_after = _cut(before), _cut(after)
    cuts = [cut for cut in (cut_before, cut_after) if cut is not None]
    if to is None:
        if cut_before is None and not live:
            raise SettingsError("no last day is named", next_step='give to="2026-11-20", or before="cut.json"')
        to = day_of_ms(SystemClock().now_ms() if cut_before is None else cut_before.through_ms - 1).date
    if live:
        if set(verdicts) != {*VERDICTS} or max_age is not None:
            raise SettingsError(
                "raw segments have no verdict", next_step="leave out verdicts and max_age, or live=True"
            )
        from minutebook.reader.live import open_live  # noqa: PLC0415 - as above

        live_days = open_live(
            uri,
            output_place(uri, region, endpoint),
            output_place(archive or _archive_above(uri), region, endpoint),
            days_between(from_, to),
            columns,
            before=cut_before,
            after=cut_after,
            missing=missing,
        )
        _check_stream(uri, live_days.published, cuts)
        return live_days
    if archive is not None:
        raise SettingsError("archive= is where live=True finds segments", next_step="leave it out, or add live=True")
    days = published(
        uri,
        from_,
        to,
        missing=missing,
        verdicts=verdicts,
        max_age=max_age,
        region=region,
        endpoint=endpoint,
    )
    _check_stream(uri, days.days, cuts)
    if cut_before is not None and missing == "error":
        _check_reach(uri, days.days, cut_before)
    return open_dataset(days, columns, before=cut_before, after=cut_after)


def _archive_above(uri: str) -> str:
    """Return where the archive is, if days are published at the default place."""
    above, _, name = uri.rstrip("/").rpartition("/")
    if f"{name}/" != OUTPUT_FOLDER or not above:
        raise SettingsError(
            f"{uri} is not the default place of published days, so it does not tell where the segments are",
            next_step='name it: archive="s3://bucket/raw/"',
        )
    return above


def _check_stream(uri: str, days: Sequence[PublishedDay], cuts: Sequence[Cut]) -> None:
    """Raise SafetyRefusal for a cut of another stream, as far as the days' audits tell."""
    for cut in cuts:
        name = cut.stream_arn.rpartition("/")[2]
        other = next((day for day in days if day.stream not in {"", name}), None)
        if other is not None:
            raise SafetyRefusal(
                f"the cut is one of the stream {name}, and {uri} holds {other.stream} on {other.day}",
                next_step="give the cut of the archive that was published",
            )


def _check_reach(uri: str, days: Sequence[PublishedDay], cut: Cut) -> None:
    """Raise DayNotPublished for a part of a day that ends before the last record before the cut may have arrived."""
    for day in days:
        if day.until is not None and parse_iso_time(day.until) < cut.through_ms:
            raise DayNotPublished(
                f"{uri}: {day.day} is published until {day.until}, and records before the cut arrived until "
                f"{cut.through}",
                next_step=f"run minutebook compact --so-far {cut.through} for the day, or compact all of it later",
            )


def _cut(cut: Cut | str | Path | None) -> Cut | None:
    return cut if cut is None or isinstance(cut, Cut) else read_cut(Path(cut))


def read_day(
    spark: "SparkSession",
    out: str,
    day: str | dt.date,
    *,
    verdicts: Collection[str] = VERDICTS,
    max_age: dt.timedelta | None = None,
    region: str | None = None,
    endpoint: str | None = None,
) -> "DataFrame":
    """Return one day as a Spark DataFrame; see `read_days`."""
    return read_days(spark, out, day, day, verdicts=verdicts, max_age=max_age, region=region, endpoint=endpoint)


def read_days(
    spark: "SparkSession",
    out: str,
    from_: str | dt.date,
    to: str | dt.date,
    *,
    missing: Missing = "error",
    verdicts: Collection[str] = VERDICTS,
    max_age: dt.timedelta | None = None,
    region: str | None = None,
    endpoint: str | None = None,
) -> "DataFrame":
    """Return the days from `from_` to `to`, inclusive, as one Spark DataFrame; see `published`.

    Spark reads files with the scheme of `out`: write `s3a://` for Hadoop's S3A, `s3://` on EMR and Glue. boto3 reads
    pointers and manifests; region and endpoint apply to that alone. Column `dt` is the day, as text.
    """
    days = published(
        out,
        from_,
        to,
        missing=missing,
        verdicts=verdicts,
        max_age=max_age,
        region=region,
        endpoint=endpoint,
    ).days
    if not days:
        raise DayNotPublished(f"{out}: no day is left", next_step="name days that are published")
    frames = [_frame(spark, day) for day in days]
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame, allowMissingColumns=True)
    return whole


def _frame(spark: "SparkSession", day: PublishedDay) -> "DataFrame":
    from pyspark.sql.functions import lit  # noqa: PLC0415 - a caller with a session has it

    uris = [file.uri for file in day.files]
    frame = spark.read.parquet(*uris) if uris else spark.createDataFrame([], _EMPTY)
    return frame.withColumn("dt", lit(str(day.day)))


_EMPTY: Final = (
    "shard_id string, sequence_number string, sub_sequence_number long, partition_key string, "
    "arrival_time timestamp, data string, data_bytes binary, segment string"
)
"""The schema of a day without rows."""
