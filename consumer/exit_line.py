"""The first and the last line of a processor, and the exit code between them: nobody else tells why it ended."""

import os
from collections.abc import Callable
from typing import Final

import structlog

from minutebook.codec.library import codec_name
from minutebook.errors import MinutebookError

_EXIT_LINE: Final = "processor_failed"


def live(work: Callable[[], None]) -> int:
    """Do the work of a processor between its first and its last line; return the exit code."""
    # On every line: the supervisor knows by it who is gone, and which shard has a reader.
    structlog.contextvars.bind_contextvars(pid=os.getpid())
    structlog.get_logger().info("processor_started", codec=codec_name())
    code = exit_line(work)
    if code == 0:
        structlog.get_logger().info("processor_ended")
    return code


def exit_line(work: Callable[[], None]) -> int:
    """Return 0 when the work is done, else the error's own exit code (minutebook.errors): the last line says why."""
    log = structlog.get_logger()
    try:
        work()
    except MinutebookError as exc:
        log.error(  # noqa: TRY400 - the message names the thing and the next step; no stack is wanted
            _EXIT_LINE,
            kind=type(exc).__name__,
            error=str(exc),
            next_step=exc.next_step or "look at the lines before this one",
            exit_code=exc.exit_code,
        )
        return exc.exit_code
    except MemoryError as exc:
        log.exception(
            _EXIT_LINE,
            kind=type(exc).__name__,
            error=f"there is no memory left for it: {exc}",
            next_step="give the task more memory (see minutebook docs operations); nothing is lost",
            exit_code=1,
        )
        return 1
    except Exception as exc:
        log.exception(
            _EXIT_LINE,
            kind=type(exc).__name__,
            error=str(exc),
            next_step="this is a defect of Minutebook: report the stack below; nothing was checkpointed",
            exit_code=1,
        )
        return 1
    return 0
