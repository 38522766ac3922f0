"""The picture of the last days: rows and verdicts above, findings below."""

from collections.abc import Sequence
from typing import Final

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from compaction.report.drawing import figure_of, to_svg
from compaction.report.trend import TrendDay

_VERDICTS: Final = {"clean": ("#31688e", ""), "unknown": ("#e6d98a", "//"), "defects": ("#c1121f", "xx")}
_SIGNS: Final = {"clean": "✓", "unknown": "?", "defects": "✗", None: "-"}
_FINDINGS: Final = (("defects", "#c1121f", "xx"), ("unknowns", "#e6d98a", "//"), ("warnings", "#ffb703", ""))


def trend_picture(days: Sequence[TrendDay]) -> str:
    """Draw the days in order; verdicts are told by sign and hatching, too."""
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
