"""Requests to a REST catalog that end: pyiceberg sends them without a timeout.

A catalog that accepts and never answers would hold follow and the night for ever, and a signal could not end them.
"""

from typing import Any, Final

from pyiceberg.catalog import rest
from requests import PreparedRequest, Response, Session

CONNECT_SECONDS: Final = 10
ANSWER_SECONDS: Final = 60
"""Between two bytes of an answer; as boto3 waits."""


class TimedSession(Session):
    """A session whose requests raise ReadTimeout, a RequestException, where nothing comes."""

    def send(self, request: PreparedRequest, **kwargs: Any) -> Response:  # noqa: ANN401 - as in requests
        """Send a request, with a timeout where the caller names none."""
        kwargs["timeout"] = kwargs.get("timeout") or (CONNECT_SECONDS, ANSWER_SECONDS)
        return super().send(request, **kwargs)


def time_requests() -> None:
    """Let the REST catalogs that are opened from now on use such sessions, from their first request on."""
    setattr(rest, "Session", TimedSession)  # noqa: B010 - pyiceberg takes none from outside
