"""Command lines of random histories: how many, from which seed on. They print what was wrong, and the seed."""

import argparse
import gc
from collections.abc import Sequence
from typing import Final

import structlog

_CRITICAL: Final = 50
_OBJECTS: Final = 200_000


def parse_seeds(
    parser: argparse.ArgumentParser, arguments: Sequence[str], noun: str, count: int = 100
) -> tuple[argparse.Namespace, range]:
    """Add `--histories` (or another noun) and `--seed`; return the options, and the seeds. Turn logs off.

    Histories are full of circles, and each is small: to look for them after every few objects costs more.
    """
    parser.add_argument(f"--{noun}", dest="count", type=int, default=count)
    parser.add_argument("--seed", type=int, default=1, help="the first one's; each next one has the next")
    options = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(_CRITICAL))
    collect_rarely()
    return options, range(options.seed, options.seed + options.count)


def collect_rarely() -> None:
    """Let the collector of circles leave what is loaded alone, and come once in some histories."""
    gc.freeze()
    gc.set_threshold(_OBJECTS, 3, 3)  # 500 histories leave 1.5 GB before a whole collection with 10, 10
