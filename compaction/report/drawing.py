"""The pictures' common ground: figures, axes of a day, and SVG as a part of the page itself.

Readable without colours: the scale is cividis (even in lightness, made for colour-blind readers), findings are told
by shape, and proofs by word.
"""

import io
from typing import Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from minutebook.format.day import MINUTES_A_DAY

WIDTH: Final = 11.0
BAR: Final = {"proven": "#31688e", "open": "#bbbbbb"}
SHAPES: Final = {"defect": ("X", "#c1121f"), "unknown": ("d", "#ffffff"), "warning": ("^", "#ffb703")}
MANY: Final = 400
"""Signs in a picture that are drawn as pixels: each of them as a shape would be 100 bytes of the page."""
_STYLE: Final = {"svg.fonttype": "none", "svg.hashsalt": "minutebook", "font.size": 9, "font.family": "sans-serif"}
_DPI: Final = 180
"""Pixels per inch of what is drawn as pixels: enough for each of a day's 1,440 minutes to have one of its own."""
_HOUR: Final = 60


def figure_of(height: float) -> Figure:
    """Return an empty figure as wide as the page."""
    return Figure(figsize=(WIDTH, min(height, 34.0)), layout="constrained")


def label_hours(axes: Axes, shown: range) -> None:
    """Give the axis the hours of the minutes that are shown."""
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
