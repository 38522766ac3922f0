"""Logs: one JSON object per line on stderr, with an ISO time in UTC, the level, the event and its ids.

stdout is never used: in a processor it is the protocol with the daemon.
"""

import contextvars
import logging
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final, TextIO

import structlog
from structlog.typing import EventDict

from minutebook.clock import Clock

_MAX_LINES: Final = 5
_WINDOW_SECONDS: Final = 60
_LIMITED_EVENTS: Final = frozenset({"outcome_unknown", "printed"})
"""Events that a failing store may cause by the thousand."""


class Limit:
    """Passes at most five lines a minute of each event in `_LIMITED_EVENTS`; the next line carries `left_out`.

    The nightly job sends millions of requests: if S3 throttles one in a hundred, an unlimited log would hold tens of
    thousands of lines. Errors and all other events always pass.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: dict[str, float] = {}
        self._count: Counter[str] = Counter()

    def __call__(self, _logger: object, method: str, event_dict: EventDict) -> EventDict:
        """Pass or drop a line, as a structlog processor."""
        event, now = str(event_dict["event"]), self._clock.monotonic()
        if event not in _LIMITED_EVENTS or method == "error":
            return event_dict
        if now - self._since.get(event, -_WINDOW_SECONDS) >= _WINDOW_SECONDS:
            left_out = self._count[event] - _MAX_LINES
            self._since[event], self._count[event] = now, 0
            if left_out > 0:
                event_dict["left_out"] = left_out
        self._count[event] += 1
        if self._count[event] > _MAX_LINES:
            raise structlog.DropEvent
        return event_dict


def configure_logging(level: str = "info", stream: TextIO | None = None, *, limit: Limit | None = None) -> None:
    """Configure structlog for this process; call it once, before the first event.

    Each line is one write: lines of several processes on one pipe do not mix while they are shorter than PIPE_BUF
    (4096 bytes). The JSON is plain ASCII. Warnings and errors that libraries log through `logging`, as botocore does
    when it cannot refresh credentials, become lines with the event `printed`.
    """
    structlog.configure(
        processors=[
            *([] if limit is None else [limit]),
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr if stream is None else stream),
        cache_logger_on_first_use=False,
    )
    if not any(isinstance(handler, _LibraryHandler) for handler in logging.root.handlers):
        logging.root.addHandler(_LibraryHandler(logging.WARNING))


def in_context(body: Callable[..., None]) -> Callable[..., None]:
    """Return the body of a new thread whose log lines have what is bound here now; threads begin with nothing."""
    return partial(contextvars.copy_context().run, body)


class _LibraryHandler(logging.Handler):
    """Writes what libraries log through `logging`."""

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger()
        write = log.error if record.levelno >= logging.ERROR else log.warning
        write(
            "printed",
            logger=record.name,
            message=record.getMessage(),
            exc_info=record.exc_info,
            next_step="nothing by itself: where it matters, an error of ours follows",
        )
