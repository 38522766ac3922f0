"""Logs: one JSON object per line on stderr, with an ISO time in UTC, the level, the event and its ids.

stdout is never used: in a processor it is the protocol with the daemon.
"""

import logging
import sys
from typing import TextIO

import structlog


def configure_logging(level: str = "info", stream: TextIO | None = None) -> None:
    """Set structlog up for this process; call it once, before the first event.

    Each line is one write, so lines of several processes on one pipe do not mix while they are shorter than
    PIPE_BUF (4096 bytes). JSON is plain ASCII: no locale can damage it. What libraries log of their own, as botocore
    when credentials cannot be refreshed, becomes such lines from level warning on (event `printed`).
    """
    structlog.configure(
        processors=[
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
