"""`python -m benchmarks NAME`: run one benchmark, or list them."""

import importlib
import sys

NAMES = (
    "boundaries",
    "changed_hour",
    "claims",
    "compaction",
    "compression",
    "density",
    "dropped_copies",
    "due_night",
    "event_ids",
    "event_table",
    "evolved_table",
    "flame",
    "fleet",
    "fortnight",
    "growth",
    "heap",
    "idle",
    "large_day",
    "live_day",
    "nested",
    "night_scale",
    "nightly_env",
    "pictures",
    "processor",
    "recovery",
    "seven_shapes",
    "start",
    "suite",
    "typed",
    "whole_path",
)


def main() -> int:
    """Run the benchmark that the command line names."""
    if len(sys.argv) < 2 or sys.argv[1] not in NAMES:  # noqa: PLR2004 - program and name
        sys.stdout.write(f"usage: python -m benchmarks {{{','.join(NAMES)}}}\n")
        return 2
    code: int = importlib.import_module(f"benchmarks.{sys.argv[1]}").main(sys.argv[2:])
    return code


sys.exit(main())
