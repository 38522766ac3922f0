"""What a worker sets up for itself, once in a process."""

import functools

from archive.clock import SystemClock
from archive.logs import Limit, configure_logging


@functools.cache
def configure_task_logging() -> None:
    """Let a worker's lines be those of the driver: JSON on its stderr, and few of them. Once in a process."""
    configure_logging("warning", limit=Limit(SystemClock()))
