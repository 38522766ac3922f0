"""What goes wrong in a catalog, and in the files beside it, as our errors: refused for good, or unknown.

    refused    no permission, a wrong request; a table that is not Iceberg's, or of a version that pyiceberg does not
               know; metadata or a file that cannot be read
    unknown    all else that comes from outside; the table is gone: the next look tells, and makes it again

pyiceberg's errors have no common root, and it reads what others wrote by libraries that raise ValueError: a file that
does not parse would otherwise end the run of all days, where it says something of one table. Its decoder of Avro
raises whatever Python does with such bytes (KeyError, SystemError, zlib.error): that is an unreadable file where the
decoder raised it, and a defect anywhere else.
"""

import contextlib
import traceback
import zlib
from collections.abc import Iterator
from gzip import BadGzipFile
from struct import error as StructError  # noqa: N812 - the name says nothing where it is used
from typing import Final

from botocore.exceptions import BotoCoreError, ClientError
from pyiceberg.exceptions import (
    BadRequestError,
    ForbiddenError,
    NoSuchIcebergTableError,
    NoSuchNamespaceError,
    NoSuchPropertyException,
    NoSuchTableError,
    OAuthError,
    ResolveError,
    RESTError,
    UnauthorizedError,
    ValidationError,
)
from requests.exceptions import RequestException
from sqlalchemy.exc import SQLAlchemyError

from minutebook.errors import CatalogRefused, OutcomeUnknown

_REFUSED: Final = (BadRequestError, UnauthorizedError, ForbiddenError, OAuthError, PermissionError)
_REFUSED_CODES: Final = frozenset({"AccessDeniedException", "AccessDenied", "InvalidInputException"})
_UNREADABLE: Final = (
    *(NoSuchIcebergTableError, NoSuchPropertyException, ValidationError, ResolveError),
    *(ValueError, NotImplementedError, EOFError, BadGzipFile),
)
_DECODING: Final = (
    *(AssertionError, AttributeError, LookupError, MemoryError, OverflowError, RecursionError, SystemError),
    *(TypeError, zlib.error, StructError),
)
_DECODERS: Final = ("pyiceberg.avro.", "pyiceberg.manifest", "pyiceberg.serializers")
_OUTSIDE: Final = (
    *(RESTError, RequestException, SQLAlchemyError, BotoCoreError, ClientError, OSError),
    *(NoSuchTableError, NoSuchNamespaceError),
)


@contextlib.contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn errors of the catalog, and of the files beside it, into ours.

    Raises:
        CatalogRefused, OutcomeUnknown: in the place of theirs.
    """
    try:
        yield
    except _UNREADABLE as exc:
        raise _unreadable(what, exc) from exc
    except _DECODING as exc:
        if not _is_of_a_decoder(exc):
            raise
        raise _unreadable(what, exc) from exc
    except _OUTSIDE as exc:
        code = exc.response.get("Error", {}).get("Code", "") if isinstance(exc, ClientError) else ""
        if isinstance(exc, _REFUSED) or code in _REFUSED_CODES:
            raise CatalogRefused(
                f"{what}: {exc}",
                next_step="look at the catalog's settings and its role: minutebook docs iceberg",
            ) from exc
        raise OutcomeUnknown(f"{what}: {exc}") from exc


def _unreadable(what: str, exc: Exception) -> CatalogRefused:
    return CatalogRefused(
        f"{what}: pyiceberg cannot work with what is there: {type(exc).__name__}: {exc}",
        next_step="find out who made or changed the table: it is of another kind, of a newer version or damaged; "
        "or name another table",
    )


def _is_of_a_decoder(exc: Exception) -> bool:
    """Tell whether pyiceberg was taking a file apart; whoever called it from there is none of ours."""
    modules = (frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(exc.__traceback__))
    return any(module.startswith(_DECODERS) for module in modules)
