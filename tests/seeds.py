"""Command lines of random histories: how many, from which seed on. They print what was wrong, and the seed."""

import argparse
from collections.abc import Sequence
from typing import Final

import structlog

_CRITICAL: Final = 50


def parse_seeds(
    parser: argparse.ArgumentParser, arguments: Sequence[str], noun: str, count: int = 100
) -> tuple[argparse.Namespace, range]:
    """Add `--histories` (or another noun) and `--seed`; return the options, and the seeds. Turn logs off."""
    parser.add_argument(f"--{noun}", dest="count", type=int, default=count)
    parser.add_argument("--seed", type=int, default=1, help="the first one's; each next one has the next")
    options = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(_CRITICAL))
    return options, range(options.seed, options.seed + options.count)
