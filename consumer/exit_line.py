"""The first and the last log line of a processor, and its exit code: the only record of why it ended."""

import os
from collections.abc import Callable
from typing import Final

import structlog

from minutebook.codec.library import codec_name
from minutebook.errors import MinutebookError

_EXIT_LINE: Final = "processor_failed"


def live(work: Callable[[], None]) -> int:
    """Log a processor's first line, do its work, log its last line, and return the exit code."""
    # The supervisor knows by the pid on each line which processor ended, and which shard has a reader.
    structlog.contextvars.bind_contextvars(pid=os.getpid())
    structlog.get_logger().info("processor_started", codec=codec_name())
    code = exit_line(work)
    if code == 0:
        structlog.get_logger().info("processor_ended")
    return code


def exit_line(work: Callable[[], None]) -> int:
    """Do the work; return 0, or log the error as the last line and return its exit code (minutebook.errors)."""
    log = structlog.get_logger()
    try:
        work()
    except MinutebookError as exc:
        log.error(  # noqa: TRY400 - the message and the next step explain it without a stack
            _EXIT_LINE,
            kind=type(exc).__name__,
            error=str(exc),
            next_step=exc.next_step or "look at the lines before this one",
            exit_code=exc.exit_code,
        )
        return exc.exit_code
    except Exception as exc:
        error = str(exc)
        next_step = "this is a defect of Minutebook: report the stack below; nothing was checkpointed"
        if isinstance(exc, MemoryError):
            error = f"there is no memory left for it: {exc}"
            next_step = "give the task more memory (see minutebook docs operations); nothing is lost"
        log.exception(_EXIT_LINE, kind=type(exc).__name__, error=error, next_step=next_step, exit_code=1)
        return 1
    return 0
