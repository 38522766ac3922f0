"""Draw a flame graph of collapsed stacks (`py-spy record --native --format raw`): wide is dear, callers lie below.

python -m benchmarks flame STACKS PICTURE.svg [--title "..."] [--least 0.4]
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure

_HUES: Final = {"consumer": "#e07a3f", "minutebook": "#e8a13a", "python": "#8fb3d9", "native": "#b9b9b9"}
_NARROW: Final = 1.6
_LETTERS_A_PERCENT: Final = 1.9


class Box(NamedTuple):
    """A frame in its place: percents from the left, depth from below."""

    name: str
    depth: int
    left: float
    width: float


def boxes(stacks: dict[tuple[str, ...], int], least: float) -> Iterator[Box]:
    """Yield the frames that take `least` percent or more, the dearest callees of a caller first."""
    whole = sum(stacks.values())

    def below(depth: int, left: float, part: dict[tuple[str, ...], int]) -> Iterator[Box]:
        callees: dict[str, dict[tuple[str, ...], int]] = defaultdict(dict)
        for stack, count in part.items():
            if len(stack) > depth:
                callees[stack[depth]][stack] = count
        for name, own in sorted(callees.items(), key=lambda item: -sum(item[1].values())):
            width = 100 * sum(own.values()) / whole
            if width < least:
                continue
            yield Box(name, depth, left, width)
            yield from below(depth + 1, left, own)
            left += width

    yield from below(0, 0.0, stacks)


def main(arguments: list[str]) -> int:
    """Draw it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks flame", description=__doc__)
    parser.add_argument("stacks", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--title", default="")
    parser.add_argument("--least", type=float, default=0.4, help="percent below which a frame is left out")
    parser.add_argument("--root", default="run_process", help="where stacks begin; others are left out")
    options = parser.parse_args(arguments)
    stacks: dict[tuple[str, ...], int] = defaultdict(int)
    for line in options.stacks.read_text().splitlines():
        frames, _, count = line.rpartition(" ")
        if stack := _from(options.root, frames.split(";")):
            stacks[stack] += int(count)
    drawn = list(boxes(stacks, options.least))
    mpl.rcParams["svg.fonttype"] = "none"
    mpl.rcParams["svg.hashsalt"] = "minutebook"  # the same picture on every run
    figure = Figure(figsize=(14, 0.27 * (max(box.depth for box in drawn) + 3)))
    axes = figure.add_axes((0.005, 0.005, 0.99, 0.93))
    for box in drawn:
        axes.barh(box.depth, box.width, left=box.left, height=0.94, color=_HUES[_kind(box.name)], edgecolor="white")
        if box.width > _NARROW:
            text = _short(box.name)[: int(box.width * _LETTERS_A_PERCENT)]
            axes.text(box.left + 0.15, box.depth, text, fontsize=7, va="center", clip_on=True)
    axes.set_xlim(0, 100)
    axes.set_axis_off()
    figure.suptitle(options.title, fontsize=10, y=0.99)
    figure.savefig(options.picture, metadata={"Date": None})
    return 0


def _from(root: str, frames: list[str]) -> tuple[str, ...]:
    """Leave out what lies below the first frame of this name; all of a stack without one."""
    at = next((index for index, frame in enumerate(frames) if frame.startswith(root)), None)
    return () if at is None else tuple(frames[at:])


def _kind(frame: str) -> str:
    if "consumer/" in frame:
        return "consumer"
    if "minutebook/" in frame:
        return "minutebook"
    return "python" if ".py" in frame else "native"


def _short(frame: str) -> str:
    """Return the function and its file, without folders and line."""
    name, _, place = frame.partition(" (")
    file = place.rstrip(")").partition(":")[0].rpartition("/")[2]
    return f"{name}  {file}" if file else name
