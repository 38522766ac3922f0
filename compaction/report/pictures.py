"""The report's pictures: drawn by matplotlib as SVG, as a part of the page itself.

Readable without colours: the scale is cividis (even in lightness, made for colour-blind readers), findings are told
by shape, and proofs by word.
"""

import io
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from archive.format.day import MINUTES_A_DAY, Day
from archive.format.minute import parse_minute_text
from compaction.shards.look import Minutes
from compaction.verdict.audit_document import Shard
from compaction.verdict.findings import Finding

_WIDTH: Final = 11.0
_ROWS_SHOWN: Final = 120
_SHAPES: Final = {"defect": ("X", "#c1121f"), "unknown": ("d", "#ffffff"), "warning": ("^", "#ffb703")}
_STYLE: Final = {"svg.fonttype": "none", "svg.hashsalt": "minutebook", "font.size": 9, "font.family": "sans-serif"}
_BAR: Final = {"proven": "#31688e", "open": "#bbbbbb"}
_HOUR: Final = 60
_PART_OF_A_DAY: Final = 6 * _HOUR
"""Minutes: what happened within fewer hours is drawn large; the rest of the day is empty."""


def shown_minutes(day: Day, by_shard: Mapping[str, Minutes], findings: Sequence[Finding]) -> range:
    """Return the minutes of the day that the pictures show: all, or the few whole hours in which anything is."""
    columns = [column for minutes in by_shard.values() for column in held(minutes)]
    told = (parse_minute_text(found.minute) for found in findings if found.minute is not None)
    columns += [minute - day.first_minute for minute in told if minute in day]
    if not columns:
        return range(MINUTES_A_DAY)
    begin, end = min(columns) // _HOUR * _HOUR, (max(columns) // _HOUR + 1) * _HOUR
    return range(begin, end) if end - begin <= _PART_OF_A_DAY else range(MINUTES_A_DAY)


def heat_map(
    day: Day, shown: range, by_shard: Mapping[str, Minutes], findings: Sequence[Finding], shards: Sequence[Shard]
) -> str:
    """Draw records per minute and shard, with the findings where they are."""
    names = _shown(shards, findings)
    rows = {name: number for number, name in enumerate(names)}
    counts = np.zeros((max(1, len(names)), MINUTES_A_DAY))
    for name, minutes in by_shard.items():
        if name in rows:
            counts[rows[name]] += np.array(minutes.records)
    figure = _figure(1.3 + 0.22 * max(4, len(names)))
    axes = figure.add_subplot()
    scale = mpl.colormaps["cividis"].with_extremes(bad="#f4f4f4")
    top = max(2.0, float(counts.max()))
    image = axes.imshow(
        np.ma.masked_equal(counts, 0),
        aspect="auto",
        interpolation="nearest",
        cmap=scale,
        norm=LogNorm(1, top),
        extent=(0, MINUTES_A_DAY, len(names) - 0.5, -0.5),
    )
    bar = figure.colorbar(image, ax=axes, label="records per minute", pad=0.01, fraction=0.03)
    bar.ax.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    bar.ax.yaxis.set_minor_formatter(NullFormatter())
    for severity, (shape, colour) in _SHAPES.items():
        places = [
            (parse_minute_text(found.minute) - day.first_minute + 0.5, rows[found.shard])
            for found in findings
            if found.severity == severity and found.minute is not None and found.shard in rows
        ]
        inside = [(x, y) for x, y in places if 0 <= x <= MINUTES_A_DAY]
        if inside:
            axes.scatter(
                [x for x, _ in inside],
                [y for _, y in inside],
                marker=shape,
                s=70,
                c=colour,
                edgecolors="black",
                linewidths=1,
                label=severity,
                zorder=3,
            )
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.01), ncols=3, frameon=False, borderaxespad=0)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    _hours(axes, shown)
    return _svg(figure, "Records per minute and shard, with findings")


def rate_and_lag(shown: range, by_shard: Mapping[str, Minutes]) -> str:
    """Draw records per minute of the whole stream, and how long after a minute's end its segments were there."""
    records = np.zeros(MINUTES_A_DAY)
    lags: dict[int, list[float]] = defaultdict(list)
    for minutes in by_shard.values():
        records += np.array(minutes.records)
        for column in held(minutes):
            lags[column].append(max(0.1, minutes.lag_ms[column] / 1000))
    figure = _figure(4.2)
    upper, lower = figure.subplots(2, 1, sharex=True)
    upper.fill_between(range(MINUTES_A_DAY), records, step="post", color=_BAR["proven"], linewidth=0.5)
    upper.set_ylabel("records per minute")
    upper.set_ylim(0, max(1.0, float(records.max())) * 1.05)
    columns = sorted(lags)
    lower.plot(columns, [max(lags[c]) for c in columns], "k.", markersize=2.5, label="slowest shard")
    middles = [sorted(lags[c])[len(lags[c]) // 2] for c in columns]
    lower.plot(columns, middles, "+", color="#e07a00", markersize=4, label="median shard")
    lower.set_yscale("log")
    lower.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    lower.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    lower.yaxis.set_minor_formatter(NullFormatter())
    lower.set_ylabel("seconds after the\nminute's end")
    if columns:
        lower.legend(loc="lower right", bbox_to_anchor=(1, 1.01), ncols=2, frameon=False, borderaxespad=0)
    _hours(lower, shown)
    return _svg(figure, "Records per minute, and the time until they were archived")


def chains(
    day: Day, shown: range, by_shard: Mapping[str, Minutes], findings: Sequence[Finding], shards: Sequence[Shard]
) -> str:
    """Draw each shard's chain over the day: where it holds segments, where it breaks, and what proves its ends."""
    names = _shown(shards, findings)
    by_name = {shard.shard: shard for shard in shards}
    figure = _figure(0.9 + 0.22 * max(4, len(names)))
    axes = figure.add_subplot()
    for row, name in enumerate(names):
        shard = by_name.get(name)
        proven = shard is not None and bool(shard.start_proof) and bool(shard.end_proof)
        colour = _BAR["proven" if proven else "open"]
        axes.broken_barh(
            _stretches(set(held(by_shard[name])) if name in by_shard else set()), (row - 0.3, 0.6), color=colour
        )
        start, end = (shard.start_proof, shard.end_proof) if shard is not None else ("", "")
        beside = axes.get_yaxis_transform()
        axes.text(-0.006, row, start or "not proven", ha="right", va="center", fontsize=6.5, transform=beside)
        axes.text(1.006, row, end or "not proven", ha="left", va="center", fontsize=6.5, transform=beside)
        broken = [
            parse_minute_text(found.minute) - day.first_minute
            for found in findings
            if found.shard == name and found.minute is not None and found.code in {"broken_chain", "forked_chain"}
        ]
        axes.plot(broken, [row] * len(broken), "X", color="#c1121f", markeredgecolor="black", markersize=8)
    axes.set_ylim(max(0, len(names) - 1) + 0.6, -0.6)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.tick_params(axis="y", pad=70, length=0)
    _hours(axes, shown)
    return _svg(figure, "The chain of each shard, with what proves its start and end")


def held(minutes: Minutes) -> list[int]:
    """Return the minutes of the day in which a shard has segments, counted from 0."""
    return [column for column, lag_ms in enumerate(minutes.lag_ms) if lag_ms >= 0]


def _stretches(minutes: set[int]) -> list[tuple[float, float]]:
    """Join minutes that follow each other into bars (begin, width)."""
    bars: list[tuple[float, float]] = []
    for minute in sorted(minutes):
        if bars and math.isclose(bars[-1][0] + bars[-1][1], minute):
            bars[-1] = (bars[-1][0], bars[-1][1] + 1)
        else:
            bars.append((minute, 1))
    return bars


def _shown(shards: Sequence[Shard], findings: Sequence[Finding]) -> list[str]:
    """Return the shards to draw: all, or those with findings and the first others."""
    names = sorted({shard.shard for shard in shards} | {found.shard for found in findings if found.shard is not None})
    if len(names) <= _ROWS_SHOWN:
        return names
    marked = {found.shard for found in findings}
    return sorted(sorted(names, key=lambda name: (name not in marked, name))[:_ROWS_SHOWN])


def _figure(height: float) -> Figure:
    return Figure(figsize=(_WIDTH, min(height, 30.0)), layout="constrained")


def _hours(axes: Axes, shown: range) -> None:
    step = 3 * _HOUR if len(shown) == MINUTES_A_DAY else len(shown) // 6
    ticks = range(shown.start, shown.stop + 1, step)
    axes.set_xlim(shown.start, shown.stop)
    axes.set_xticks(ticks, [f"{tick // _HOUR:02d}:{tick % _HOUR:02d}" for tick in ticks])
    axes.set_xlabel("minute of arrival (UTC)")


def _svg(figure: Figure, title: str) -> str:
    """Return the figure as an SVG element with a title for screen readers."""
    out = io.StringIO()
    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]  # its stubs name every key
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Title": title})
    text = out.getvalue()
    return text[text.index("<svg") :]
