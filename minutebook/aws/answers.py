"""Detect answers that do not have the service's shape, and treat them as lost; and read their Date.

A proxy between us and AWS may answer 200 with an HTML page, a list or `null`. botocore's parsers then raise
AttributeError, TypeError and the like, which would look like a defect of this program.
"""

from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import HTTPClientError, IncompleteReadError
from botocore.parsers import ResponseParserError, ResponseParserFactory

if TYPE_CHECKING:
    from botocore.awsrequest import AWSResponse
    from botocore.model import OperationModel

_FIRST_ERROR: Final = 300
_BLANKS: Final = 16
"""More white space than any service sends after a document."""
_FIELDS_OF_ROWS: Final = {
    "Contents": ("Key", "Size", "ETag", "LastModified"),
    "CommonPrefixes": ("Prefix",),
    "Uploads": ("Key", "UploadId", "Initiated"),
}
"""The fields that S3 sends in each row of a LIST; botocore and our code rely on them."""
_PARSER_ERRORS: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,  # RecursionError, and botocore's for a time out of range
    TypeError,
    ValueError,
    ResponseParserError,
)


class MisshapenAnswerError(HTTPClientError):
    """Retryable, like an answer that did not arrive: the outcome of the request is unknown."""

    fmt = "the answer (HTTP {status}) is not of the service's shape, as a proxy's is not: {error}"


class CheckedParsers(ResponseParserFactory):
    """botocore's parsers, raising MisshapenAnswerError for answers that they cannot parse."""

    def create_parser(self, protocol_name: str) -> Any:  # noqa: ANN401 - botocore has no types for it
        """Return the parser of a protocol."""
        parser: Any = super().create_parser(protocol_name)
        parser.parse = partial(_parse, parser.parse)
        return parser


def check_document(
    http_response: "AWSResponse", model: "OperationModel", parsed: Mapping[str, Any], **_: object
) -> None:
    """Raise a retryable error for an answer without the complete document that the operation returns.

    If the connection ends within the headers, Python sees an answer without a body, and botocore makes an empty
    result of it, as of a body that is not JSON: no rows, no records, no table. `{}` is checked against the fields
    that the service's model requires.
    """
    if http_response.status_code >= _FIRST_ERROR or model.output_shape is None or not model.output_shape.members:
        return
    body = http_response.content
    protocol = getattr(model.service_model, "resolved_protocol", "json")
    if not body or (protocol == "json" and not body[-_BLANKS:].rstrip().endswith(b"}")):
        raise IncompleteReadError(actual_bytes=len(body), expected_bytes=len(body) + 1)
    for field in model.output_shape.required_members:
        if field not in parsed:
            raise MisshapenAnswerError(status=http_response.status_code, error=f"it has no {field}")


def _parse(parse: Any, response: Any, shape: Any) -> Any:  # noqa: ANN401 - as above
    try:
        parsed = parse(response, shape)
    except _PARSER_ERRORS as exc:
        raise MisshapenAnswerError(status=response.get("status_code"), error=f"{type(exc).__name__}: {exc}") from exc
    if not isinstance(parsed, dict):
        raise MisshapenAnswerError(status=response.get("status_code"), error="it is no object")
    if missing := _missing_of_a_row(parsed):
        raise MisshapenAnswerError(status=response.get("status_code"), error=missing)
    return parsed


def _missing_of_a_row(parsed: Mapping[str, Any]) -> str:
    """Return which field a row of a LIST lacks; empty if all rows are complete."""
    for rows, fields in _FIELDS_OF_ROWS.items():
        for row in parsed.get(rows, ()):
            for field in fields:
                if field not in row:
                    return f"a row of its {rows} has no {field}"
    return ""


def date_of(answer: object) -> str | None:
    """Return the Date header of an answer from boto3."""
    metadata = answer.get("ResponseMetadata", {}) if isinstance(answer, dict) else {}
    date = metadata.get("HTTPHeaders", {}).get("date")
    return date if isinstance(date, str) else None


def epoch_ms(date: str | None) -> int | None:
    """Parse a Date header (RFC 9110); None if it is missing or damaged."""
    if date is None:
        return None
    try:
        moment = parsedate_to_datetime(date)
        return int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
