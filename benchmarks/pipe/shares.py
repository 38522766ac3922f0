"""How a measured process tells what parts of its work took: a file of JSON, CPU seconds by these names."""

from typing import Final

SHARES: Final = "BENCH_SHARES_FILE"
"""The variable that names the file."""
PIPE: Final = "pipe"
"""Each line that was read."""
SEGMENTS: Final = "segments"
"""Each PUT of a segment."""
MARKERS: Final = "markers"
"""Each PUT of a marker: it belongs to a start."""
