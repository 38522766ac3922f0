"""Answers of another shape than the service's: told as what they are, before anybody takes them for an answer.

A proxy between us and AWS may answer 200 with a page, a list or `null`. botocore's parsers look for fields where
there are none, and whatever Python says of that (AttributeError, TypeError) would come out of the client as a defect.
"""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import HTTPClientError, IncompleteReadError
from botocore.parsers import ResponseParserError, ResponseParserFactory

if TYPE_CHECKING:
    from botocore.awsrequest import AWSResponse
    from botocore.model import OperationModel

_FIRST_ERROR: Final = 300
_BLANKS: Final = 16
"""More white space than any service puts behind a document."""
_FIELDS_OF_ROWS: Final = {
    "Contents": ("Key", "Size", "ETag", "LastModified"),
    "CommonPrefixes": ("Prefix",),
    "Uploads": ("Key", "UploadId", "Initiated"),
}
"""What S3 says of each row of a LIST: botocore itself, and whoever reads a row, look for it unasked."""
_NOT_TAKEN_APART: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,  # RecursionError, and botocore's own for a time beyond all calendars
    TypeError,
    ValueError,
    ResponseParserError,
)


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


def check_document(
    http_response: "AWSResponse", model: "OperationModel", parsed: Mapping[str, Any], **_: object
) -> None:
    """Refuse an answer without a whole document where the operation promises one: it is asked for again.

    A connection that ends within the headers looks to Python like an answer without a body, and botocore makes an
    empty result of that, and of a body that is no JSON: no row, no record, no table. So is `{}` where the service's
    model says what is in every answer.
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
    except _NOT_TAKEN_APART as exc:
        raise MisshapenAnswerError(status=response.get("status_code"), error=f"{type(exc).__name__}: {exc}") from exc
    if not isinstance(parsed, dict):
        raise MisshapenAnswerError(status=response.get("status_code"), error="it is no object")
    if missing := _missing_of_a_row(parsed):
        raise MisshapenAnswerError(status=response.get("status_code"), error=missing)
    return parsed


def _missing_of_a_row(parsed: Mapping[str, Any]) -> str:
    """Say what a row of a LIST lacks; empty when every row has what S3 never leaves out."""
    for rows, fields in _FIELDS_OF_ROWS.items():
        for row in parsed.get(rows, ()):
            for field in fields:
                if field not in row:
                    return f"a row of its {rows} has no {field}"
    return ""
