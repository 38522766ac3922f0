"""Draw the pictures of a report with matplotlib, as SVG.

They are readable without colours: the scale is cividis (even in lightness, made for colour-blind readers), findings
differ by shape, verdicts by sign and hatching, and proofs are text.
"""

import io
from collections.abc import Sequence
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter
from numpy.typing import NDArray

from compaction.report.folding import Folded, clip, visible_text
from compaction.report.sketch import Sketch
from compaction.report.trend import TrendDay
from compaction.verdict.audit_document import Shard
from compaction.verdict.findings import Finding
from minutebook.format.day import MINUTES_A_DAY, Day
from minutebook.format.minute import parse_minute_text

_WIDTH: Final = 11.0
_BAR: Final = {"proven": "#31688e", "open": "#bbbbbb"}
_SHAPES: Final = {"defect": ("X", "#c1121f"), "unknown": ("d", "#ffffff"), "warning": ("^", "#ffb703")}
_MANY: Final = 400
"""More marks are drawn as pixels: as shapes, each would add 100 bytes to the page."""
_STYLE: Final = {"svg.fonttype": "none", "svg.hashsalt": "minutebook", "font.size": 9, "font.family": "sans-serif"}
_DPI: Final = 180
"""Pixels per inch: at least one pixel for each of a day's 1,440 minutes."""
_HOUR: Final = 60
_PART_OF_A_DAY: Final = 6 * _HOUR
"""Minutes: a day with data in fewer hours is shown enlarged."""
_BREAKS: Final = frozenset({"broken_chain", "forked_chain"})
_VERDICTS: Final = {"clean": ("#31688e", ""), "unknown": ("#e6d98a", "//"), "defects": ("#c1121f", "xx")}
_SIGNS: Final = {"clean": "✓", "unknown": "?", "defects": "✗", None: "-"}
_FINDINGS: Final = (("defects", "#c1121f", "xx"), ("unknowns", "#e6d98a", "//"), ("warnings", "#ffb703", ""))


def figure_of(height: float) -> Figure:
    """Return an empty figure as wide as the page."""
    return Figure(figsize=(_WIDTH, min(height, 34.0)), layout="constrained")


def label_hours(axes: Axes, shown: range) -> None:
    """Label the axis with the hours of the shown minutes."""
    step = 3 * _HOUR if len(shown) == MINUTES_A_DAY else len(shown) // 6
    ticks = range(shown.start, shown.stop + 1, step)
    axes.set_xlim(shown.start, shown.stop)
    axes.set_xticks(ticks, [f"{tick // _HOUR:02d}:{tick % _HOUR:02d}" for tick in ticks])
    axes.set_xlabel("minute of arrival (UTC)")


def to_svg(figure: Figure, title: str) -> str:
    """Return the figure as an SVG element with a title for screen readers."""
    out = io.StringIO()
    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]  # its stubs name every key
        figure.savefig(out, format="svg", dpi=_DPI, metadata={"Date": None, "Creator": None, "Title": title})
    text = out.getvalue()
    return text[text.index("<svg") :]


def shown_minutes(day: Day, minutes: Sequence[int], findings: Sequence[Finding]) -> range:
    """Return the minutes of the day to show: all, or the few whole hours with data or findings."""
    columns = list(minutes)
    of_findings = [parse_minute_text(finding.minute) for finding in findings if finding.minute is not None]
    columns += [minute - day.first_minute for minute in of_findings if minute in day]
    if not columns:
        return range(MINUTES_A_DAY)
    begin, end = min(columns) // _HOUR * _HOUR, (max(columns) // _HOUR + 1) * _HOUR
    return range(begin, end) if end - begin <= _PART_OF_A_DAY else range(MINUTES_A_DAY)


def heat_map(day: Day, shown: range, drawn: Sketch, findings: Sequence[Finding], shards: Folded) -> str:
    """Draw records per minute and shard, with findings; the last row is the average of folded shards."""
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
    """Mark findings: one mark for all of a severity in a minute and row."""
    for severity, (shape, colour) in _SHAPES.items():
        places = {
            (parse_minute_text(finding.minute) - day.first_minute, rows[finding.shard])
            for finding in findings
            if finding.severity == severity and finding.minute is not None and finding.shard in rows
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
                rasterized=len(inside) > _MANY,
            )
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.01), ncols=3, frameon=False, borderaxespad=0)


def rate_and_lag(shown: range, drawn: Sketch) -> str:
    """Draw the stream's records per minute, and the delay from a minute's end until its segments were archived."""
    records = drawn.total
    figure = figure_of(4.2)
    upper, lower = figure.subplots(2, 1, sharex=True)
    upper.fill_between(range(MINUTES_A_DAY), records, step="post", color=_BAR["proven"], linewidth=0.5)
    upper.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    upper.set_ylabel("records per minute")
    upper.set_ylim(0, max(1.0, float(records.max())) * 1.05)
    columns = np.flatnonzero(~np.isnan(drawn.slowest))
    pixels = len(columns) > _MANY
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
    """Draw each shard's chain over the day: minutes with segments, breaks, and the proofs of its ends."""
    bars = np.stack([_bar(shard, drawn) for shard in shards.shown] or [np.zeros(MINUTES_A_DAY, dtype=np.int64)])
    figure = figure_of(0.9 + 0.22 * max(4, len(bars)))
    axes = figure.add_subplot()
    axes.imshow(
        bars,
        aspect="auto",
        interpolation="nearest",
        cmap=ListedColormap(["#ffffff", _BAR["open"], _BAR["proven"]]),
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
            (parse_minute_text(finding.minute) - day.first_minute, rows[finding.shard])
            for finding in findings
            if finding.shard in rows and finding.minute is not None and finding.code in _BREAKS
        }
    )
    axes.plot(
        [x for x, _ in broken],
        [y for _, y in broken],
        "X",
        color="#c1121f",
        markeredgecolor="black",
        markersize=8,
        rasterized=len(broken) > _MANY,
    )
    axes.set_ylim(len(bars) - 0.4, -0.6)
    names = [_label(shard.shard) for shard in shards.shown]
    axes.set_yticks(range(len(names)), names, fontsize=7, parse_math=False)
    axes.tick_params(axis="y", pad=70, length=0)
    label_hours(axes, shown)
    return to_svg(figure, "The chain of each shard, with what proves its start and end")


def _bar(shard: Shard, drawn: Sketch) -> NDArray[np.int64]:
    minutes = drawn.segments.get(shard.shard, np.zeros(MINUTES_A_DAY, dtype=np.bool_))
    return minutes.astype(np.int64) * (2 if shard.start_proof and shard.end_proof else 1)


def _label(name: str) -> str:
    return clip(visible_text(name), 40)


def trend_picture(days: Sequence[TrendDay]) -> str:
    """Draw the days in order: rows and verdicts above, findings below."""
    figure = figure_of(3.6)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    places = range(len(days))
    top = max([day.rows for day in days], default=0) or 1
    for verdict, (colour, hatch) in _VERDICTS.items():
        heights = [day.rows if day.verdict == verdict else 0 for day in days]
        upper.bar(
            places, heights, color=colour, hatch=hatch, edgecolor="white" if hatch == "" else "black", width=0.7
        )
    for place, day in enumerate(days):
        upper.text(place, day.rows + top * 0.03, _SIGNS[day.verdict], ha="center", va="bottom", fontsize=10)
    upper.set_ylim(0, top * 1.22)
    upper.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    upper.set_ylabel("rows")
    _findings(lower, days)
    lower.set_xticks(places, [day.day[5:] for day in days], fontsize=8)
    upper.tick_params(axis="x", length=0)
    return to_svg(figure, "The last days: rows, verdicts and findings")


def _findings(axes: Axes, days: Sequence[TrendDay]) -> None:
    places, floor = range(len(days)), [0] * len(days)
    for number, (name, colour, hatch) in enumerate(_FINDINGS):
        heights = [0 if day.findings is None else day.findings[number] for day in days]
        axes.bar(
            places,
            heights,
            bottom=floor,
            color=colour,
            hatch=hatch,
            edgecolor="black",
            linewidth=0.5,
            width=0.7,
            label=name,
        )
        floor = [low + height for low, height in zip(floor, heights, strict=True)]
    axes.set_ylim(0, max(1.0, max(floor, default=0) * 1.1))
    axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.set_ylabel("findings")
    axes.legend(loc="upper left", ncols=3, frameon=False, fontsize=8)
