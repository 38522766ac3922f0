"""What goes wrong in a catalog, and in the files beside it, as our errors: refused for good, or unknown.

    refused    no permission, a wrong request; a table that is not Iceberg's, or of a version that pyiceberg does not
               know; metadata or a file that cannot be read
    unknown    all else that comes from outside; the table is gone: the next look tells, and makes it again

pyiceberg's errors have no common root, and it reads what others wrote by libraries that raise ValueError: a file that
does not parse would otherwise end the run of all days, where it says something of one table.
"""

import contextlib
from collections.abc import Iterator
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

from archive.errors import CatalogRefused, OutcomeUnknown

_REFUSED: Final = (BadRequestError, UnauthorizedError, ForbiddenError, OAuthError, PermissionError)
_REFUSED_CODES: Final = frozenset({"AccessDeniedException", "AccessDenied", "InvalidInputException"})
_UNREADABLE: Final = (
    *(NoSuchIcebergTableError, NoSuchPropertyException, ValidationError, ResolveError),
    *(ValueError, NotImplementedError, EOFError),
)
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
        raise CatalogRefused(
            f"{what}: pyiceberg cannot work with what is there: {type(exc).__name__}: {exc}",
            next_step="find out who made or changed the table: it is of another kind, of a newer version or damaged; "
            "or name another table",
        ) from exc
    except _OUTSIDE as exc:
        code = exc.response.get("Error", {}).get("Code", "") if isinstance(exc, ClientError) else ""
        if isinstance(exc, _REFUSED) or code in _REFUSED_CODES:
            raise CatalogRefused(
                f"{what}: {exc}",
                next_step="look at the catalog's settings and its role: minutebook docs iceberg",
            ) from exc
        raise OutcomeUnknown(f"{what}: {exc}") from exc
