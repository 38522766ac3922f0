"""Draw what the benchmarks measured: from the raw numbers that they left, into the pictures of docs/performance.md.

A picture whose numbers are not there is left as it is.

    python -m benchmarks pictures [--numbers .bench] [--into docs/assets]
"""

import argparse
import io
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from benchmarks.growth import cpu_of_a_minute
from benchmarks.processes import KINDS

_COLOURS: Final = ("#31688e", "#c1121f", "#e07a00", "#2a7f3f")
_POINTS: Final = 240
"""Points of a curve: each is the highest of the samples that it stands for."""
_MINUTE: Final = 60
_WIDTH: Final = 11.0
_STYLE: Final = {"svg.fonttype": "none", "svg.hashsalt": "minutebook", "font.size": 9, "font.family": "sans-serif"}
Numbers = Mapping[str, Any]


def figure_of(height: float) -> Figure:
    """Return an empty figure as wide as a page."""
    return Figure(figsize=(_WIDTH, height), layout="constrained")


def to_svg(figure: Figure, title: str) -> str:
    """Return the figure as an SVG element with a title for screen readers."""
    out = io.StringIO()
    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]  # its stubs name every key
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Title": title})
    text = out.getvalue()
    return text[text.index("<svg") :]


def large_day(found: Numbers) -> str:
    """Draw the memory of a night's processes over time."""
    raw = found["raw"]
    figure = figure_of(3.6)
    axes = figure.add_subplot()
    for kind, colour in zip(KINDS, _COLOURS, strict=True):
        points = thinned(raw["samples"], kind)
        if any(mib for _, mib in points):
            axes.plot([at for at, _ in points], [mib for _, mib in points], color=colour, linewidth=1.2, label=kind)
    reading = [phase[0] / _MINUTE for phase in raw["phases"] if "read" in phase[1]]
    if reading:
        axes.axvspan(reading[0], reading[-1], color="#eeeeee", zorder=0, label="reads and writes lines")
    axes.set_xlabel("minutes")
    _finish(axes, "MiB, resident")
    return to_svg(figure, f"Memory of a night over {raw['gigabytes']:.0f} GB of lines")


def flat_driver(found: Numbers) -> str:
    """Draw the memory of the driver over the objects of a day."""
    rows = sorted(found["rows"], key=lambda row: row["objects"])
    objects = [row["objects"] / 1000 for row in rows]
    figure = figure_of(3.2)
    axes = figure.add_subplot()
    names = {"driver": "driver, Python", "jvm": "JVM, driver and executor"}
    for (field, name), colour in zip(names.items(), _COLOURS, strict=False):
        axes.plot(objects, [row[field] for row in rows], "o-", color=colour, linewidth=1.2, label=name)
    axes.set_xlabel("thousands of objects of a day, one for each shard and minute")
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    _finish(axes, "MiB at the highest")
    return to_svg(figure, "Memory of the nightly job over the objects of a day")


def growth(found: Numbers, fleets: Numbers) -> str:
    """Draw what ten times as much takes: records in a batch, minutes, and shards."""
    cases = {name.replace(" x 10", "\nx 10"): figures for name, figures in found.items()}
    cpu = [
        [run["seconds"] / figures["payload_bytes"] * 1e9 for run in figures["minutebook"]]
        for figures in cases.values()
    ]
    peak = [[run["peak_rss_mib"] for run in figures["minutebook"]] for figures in cases.values()]
    rows: dict[str, list[Numbers]] = {}
    for row in fleets["rows"]:
        if row["rate"] == fleets["rows"][0]["rate"]:
            rows.setdefault(str(row["shards"]), []).append(row)
    minutes = [[cpu_of_a_minute(row) for row in some] for some in rows.values()]
    memory = [[mb for row in some for mb in row["uss_mb"]] for some in rows.values()]
    figure = figure_of(2.6)
    panels = figure.subplots(1, 4)
    _bars(panels[0], list(cases), cpu, "a processor: CPU s for a GB")
    _bars(panels[1], list(cases), peak, "a processor: MiB at the highest")
    _bars(panels[2], list(rows), minutes, "of so many shards each:\nCPU ms of a minute")
    _bars(panels[3], list(rows), memory, "of so many shards each:\nMB of its own")
    return to_svg(figure, "What ten times as much takes")


def thinned(samples: Sequence[Mapping[str, float]], kind: str) -> list[tuple[float, float]]:
    """Return minutes and MiB of a kind, in as many points as a picture shows; each is the highest of its samples."""
    step = max(1, len(samples) // _POINTS)
    parts = [samples[at : at + step] for at in range(0, len(samples), step)]
    return [(part[0]["seconds"] / _MINUTE, max(sample.get(kind, 0.0) for sample in part)) for part in parts]


def _bars(axes: Axes, names: Sequence[str], values: Sequence[Sequence[float]], title: str) -> None:
    axes.bar(names, [median(each) for each in values], color=_COLOURS[0], width=0.6)
    for at, each in enumerate(values):
        axes.plot([at] * len(each), each, "k_", markersize=9)
    axes.tick_params(axis="x", labelsize=8)
    axes.set_ylim(bottom=0)
    axes.set_title(title, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)


def _finish(axes: Axes, title: str) -> None:
    axes.set_ylim(bottom=0)
    axes.set_ylabel(title)
    axes.spines[["top", "right"]].set_visible(False)
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=5, frameon=False, fontsize=8)


PICTURES: Final[dict[str, tuple[Callable[..., str], tuple[str, ...]]]] = {
    "large-day": (large_day, ("large-day",)),
    "night-scale": (flat_driver, ("night-scale",)),
    "growth": (growth, ("processor-growth", "growth")),
}
"""By name: who draws it, and the numbers that it is drawn from."""


def main(arguments: list[str]) -> int:
    """Draw those whose numbers are there."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks pictures", description=__doc__)
    parser.add_argument("--numbers", type=Path, default=Path(".bench"))
    parser.add_argument("--into", type=Path, default=Path("docs/assets"))
    options = parser.parse_args(arguments)
    for name, (draw, numbers) in PICTURES.items():
        files = [options.numbers / f"{each}.json" for each in numbers]
        if all(file.exists() for file in files):
            picture = options.into / f"{name}.svg"
            picture.write_text(draw(*(json.loads(file.read_text()) for file in files)) + "\n")
            sys.stdout.write(f"{picture}\n")
    return 0
