"""Logs: one JSON object per line on stderr, with an ISO time in UTC, the level, the event and its ids.

stdout is never used: in a processor it is the protocol with the daemon.
"""

import logging
import sys
from collections import Counter
from typing import Final, TextIO

import structlog
from structlog.typing import EventDict

from minutebook.clock import Clock

_MOST: Final = 5
_WINDOW_SECONDS: Final = 60
_REPEATED: Final = frozenset({"outcome_unknown", "printed"})
"""Lines that one bad minute of a store may make by the thousand."""


class Limit:
    """Lets five lines a minute of an event through that repeats; the next one says how many were `left_out`.

    For processes of many requests, as those of the nightly job: a hundredth of a million that is answered `slow down`
    would be ten thousand lines. Errors, and events that tell of one thing each, always pass.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: dict[str, float] = {}
        self._count: Counter[str] = Counter()

    def __call__(self, _logger: object, method: str, event_dict: EventDict) -> EventDict:
        """Pass a line, or drop it; a processor of structlog's."""
        event, now = str(event_dict["event"]), self._clock.monotonic()
        if event not in _REPEATED or method == "error":
            return event_dict
        if now - self._since.get(event, -_WINDOW_SECONDS) >= _WINDOW_SECONDS:
            left_out = self._count[event] - _MOST
            self._since[event], self._count[event] = now, 0
            if left_out > 0:
                event_dict["left_out"] = left_out
        self._count[event] += 1
        if self._count[event] > _MOST:
            raise structlog.DropEvent
        return event_dict


def configure_logging(level: str = "info", stream: TextIO | None = None, *, limit: Limit | None = None) -> None:
    """Set structlog up for this process; call it once, before the first event.

    Each line is one write, so lines of several processes on one pipe do not mix while they are shorter than
    PIPE_BUF (4096 bytes). JSON is plain ASCII: no locale can damage it. What libraries log of their own, as botocore
    when credentials cannot be refreshed, becomes such lines from level warning on (event `printed`).
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
    if not any(isinstance(handler, _Libraries) for handler in logging.root.handlers):
        logging.root.addHandler(_Libraries(logging.WARNING))


class _Libraries(logging.Handler):
    """Takes the lines of Python's own logging."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one, with its stack."""
        log = structlog.get_logger()
        write = log.error if record.levelno >= logging.ERROR else log.warning
        write(
            "printed",
            logger=record.name,
            message=record.getMessage(),
            exc_info=record.exc_info,
            next_step="nothing by itself: where it matters, an error of ours follows",
        )
