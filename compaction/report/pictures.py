"""The pictures of a day: drawn by matplotlib as SVG from its sketch."""

from collections.abc import Sequence
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter
from numpy.typing import NDArray

from compaction.report.drawing import BAR, MANY, SHAPES, figure_of, label_hours, to_svg
from compaction.report.folding import Folded, clip, visible_text
from compaction.report.sketch import Sketch
from compaction.verdict.audit_document import Shard
from compaction.verdict.findings import Finding
from minutebook.format.day import MINUTES_A_DAY, Day
from minutebook.format.minute import parse_minute_text

_HOUR: Final = 60
_PART_OF_A_DAY: Final = 6 * _HOUR
"""Minutes: what happened within fewer hours is drawn large; the rest of the day is empty."""
_BREAKS: Final = frozenset({"broken_chain", "forked_chain"})


def shown_minutes(day: Day, minutes: Sequence[int], findings: Sequence[Finding]) -> range:
    """Return the minutes of the day that the pictures show: all, or the few whole hours in which anything is."""
    columns = list(minutes)
    of_findings = [parse_minute_text(found.minute) for found in findings if found.minute is not None]
    columns += [minute - day.first_minute for minute in of_findings if minute in day]
    if not columns:
        return range(MINUTES_A_DAY)
    begin, end = min(columns) // _HOUR * _HOUR, (max(columns) // _HOUR + 1) * _HOUR
    return range(begin, end) if end - begin <= _PART_OF_A_DAY else range(MINUTES_A_DAY)


def heat_map(day: Day, shown: range, drawn: Sketch, findings: Sequence[Finding], shards: Folded) -> str:
    """Draw records per minute and shard, with the findings where they are; folded shards as their average."""
    names = [shard.shard for shard in shards.shown]
    empty = np.zeros(MINUTES_A_DAY, dtype=np.int64)
    lines = [drawn.records.get(name, empty) for name in names]
    labels = [_label(name) for name in names]
    if shards.folded:
        lines.append(-(-drawn.rest // len(shards.folded)))
        labels.append(f"{len(shards.folded):,} more, on average")
    counts = np.stack(lines) if lines else np.zeros((1, MINUTES_A_DAY), dtype=np.int64)
    figure = figure_of(1.3 + 0.22 * max(4, len(labels)))
    axes = figure.add_subplot()
    image = axes.imshow(
        np.ma.masked_equal(counts, 0),
        aspect="auto",
        interpolation="nearest",
        cmap=mpl.colormaps["cividis"].with_extremes(bad="#f4f4f4"),
        norm=LogNorm(1, max(2.0, float(counts.max()))),
        extent=(0, MINUTES_A_DAY, len(counts) - 0.5, -0.5),
    )
    bar = figure.colorbar(image, ax=axes, label="records per minute", pad=0.01, fraction=0.03)
    bar.ax.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    bar.ax.yaxis.set_minor_formatter(NullFormatter())
    rows = {name: number for number, name in enumerate(names)}
    rows |= {shard.shard: len(names) for shard in shards.folded}
    _mark(axes, day, findings, rows)
    axes.set_yticks(range(len(labels)), labels, fontsize=7, parse_math=False)
    label_hours(axes, shown)
    return to_svg(figure, "Records per minute and shard, with findings")


def _mark(axes: Axes, day: Day, findings: Sequence[Finding], rows: dict[str, int]) -> None:
    """Put a sign where a finding is, one for all of a severity that share a minute and a row."""
    for severity, (shape, colour) in SHAPES.items():
        places = {
            (parse_minute_text(found.minute) - day.first_minute, rows[found.shard])
            for found in findings
            if found.severity == severity and found.minute is not None and found.shard in rows
        }
        inside = sorted((x, y) for x, y in places if 0 <= x < MINUTES_A_DAY)
        if inside:
            axes.scatter(
                [x + 0.5 for x, _ in inside],
                [y for _, y in inside],
                marker=shape,
                s=70,
                c=colour,
                edgecolors="black",
                linewidths=1,
                label=severity,
                zorder=3,
                rasterized=len(inside) > MANY,
            )
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.01), ncols=3, frameon=False, borderaxespad=0)


def rate_and_lag(shown: range, drawn: Sketch) -> str:
    """Draw records per minute of the whole stream, and how long after a minute's end its segments were there."""
    records = drawn.total
    figure = figure_of(4.2)
    upper, lower = figure.subplots(2, 1, sharex=True)
    upper.fill_between(range(MINUTES_A_DAY), records, step="post", color=BAR["proven"], linewidth=0.5)
    upper.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    upper.set_ylabel("records per minute")
    upper.set_ylim(0, max(1.0, float(records.max())) * 1.05)
    columns = np.flatnonzero(~np.isnan(drawn.slowest))
    pixels = len(columns) > MANY
    lower.plot(columns, drawn.slowest[columns], "k.", markersize=2.5, label="slowest shard", rasterized=pixels)
    lower.plot(
        columns, drawn.middle[columns], "+", color="#e07a00", markersize=4, label="median shard", rasterized=pixels
    )
    lower.set_yscale("log")
    lower.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    lower.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    lower.yaxis.set_minor_formatter(NullFormatter())
    lower.set_ylabel("seconds after the\nminute's end")
    if len(columns):
        lower.legend(loc="lower right", bbox_to_anchor=(1, 1.01), ncols=2, frameon=False, borderaxespad=0)
    label_hours(lower, shown)
    return to_svg(figure, "Records per minute, and the time until they were archived")


def chains(day: Day, shown: range, drawn: Sketch, findings: Sequence[Finding], shards: Folded) -> str:
    """Draw each shard's chain over the day: where it holds segments, where it breaks, and what proves its ends."""
    bars = np.stack([_bar(shard, drawn) for shard in shards.shown] or [np.zeros(MINUTES_A_DAY, dtype=np.int64)])
    figure = figure_of(0.9 + 0.22 * max(4, len(bars)))
    axes = figure.add_subplot()
    axes.imshow(
        bars,
        aspect="auto",
        interpolation="nearest",
        cmap=ListedColormap(["#ffffff", BAR["open"], BAR["proven"]]),
        vmin=0,
        vmax=2,
        extent=(0, MINUTES_A_DAY, len(bars) - 0.5, -0.5),
    )
    axes.hlines(np.arange(len(bars) + 1) - 0.5, 0, MINUTES_A_DAY, color="white", linewidth=4)
    beside: Any = axes.get_yaxis_transform()
    for row, shard in enumerate(shards.shown):
        for x, align, proof in ((-0.006, "right", shard.start_proof), (1.006, "left", shard.end_proof)):
            text = proof or "not proven"
            axes.text(x, row, text, ha=align, va="center", fontsize=6.5, transform=beside, parse_math=False)
    rows = {shard.shard: row for row, shard in enumerate(shards.shown)}
    broken = sorted(
        {
            (parse_minute_text(found.minute) - day.first_minute, rows[found.shard])
            for found in findings
            if found.shard in rows and found.minute is not None and found.code in _BREAKS
        }
    )
    axes.plot(
        [x for x, _ in broken],
        [y for _, y in broken],
        "X",
        color="#c1121f",
        markeredgecolor="black",
        markersize=8,
        rasterized=len(broken) > MANY,
    )
    axes.set_ylim(len(bars) - 0.4, -0.6)
    names = [_label(shard.shard) for shard in shards.shown]
    axes.set_yticks(range(len(names)), names, fontsize=7, parse_math=False)
    axes.tick_params(axis="y", pad=70, length=0)
    label_hours(axes, shown)
    return to_svg(figure, "The chain of each shard, with what proves its start and end")


def _bar(shard: Shard, drawn: Sketch) -> NDArray[np.int64]:
    held = drawn.segments.get(shard.shard, np.zeros(MINUTES_A_DAY, dtype=np.bool_))
    return held.astype(np.int64) * (2 if shard.start_proof and shard.end_proof else 1)


def _label(name: str) -> str:
    return clip(visible_text(name), 40)
