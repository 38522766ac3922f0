"""Answers of another shape than the service's: told as what they are, before anybody takes them for an answer.

A proxy between us and AWS may answer 200 with a page, a list or `null`. botocore's parsers look for fields where
there are none, and whatever Python says of that (AttributeError, TypeError) would come out of the client as a defect.
"""

from functools import partial
from typing import Any

from botocore.exceptions import HTTPClientError
from botocore.parsers import ResponseParserError, ResponseParserFactory


class MisshapenAnswerError(HTTPClientError):
    """It passes, like any answer that did not arrive: what became of the request is not known."""

    fmt = "the answer (HTTP {status}) is not of the service's shape, as a proxy's is not: {error}"


class CheckedParsers(ResponseParserFactory):
    """botocore's parsers, which raise MisshapenAnswerError for what they cannot take apart."""

    def create_parser(self, protocol_name: str) -> Any:  # noqa: ANN401 - botocore has no types for it
        """Return the parser of a protocol."""
        parser: Any = super().create_parser(protocol_name)
        parser.parse = partial(_parse, parser.parse)
        return parser


def _parse(parse: Any, response: Any, shape: Any) -> Any:  # noqa: ANN401 - as above
    try:
        parsed = parse(response, shape)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, ResponseParserError) as exc:
        raise MisshapenAnswerError(status=response.get("status_code"), error=f"{type(exc).__name__}: {exc}") from exc
    if not isinstance(parsed, dict):
        raise MisshapenAnswerError(status=response.get("status_code"), error="it is no object")
    return parsed
