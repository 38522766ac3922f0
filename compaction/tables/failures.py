"""Translate errors of the catalog and its files into ours: refused for good, or outcome unknown.

    refused    no permission, an invalid request; not an Iceberg table, or of a version that pyiceberg does not
               support; unreadable metadata or files
    unknown    any other external error; also a missing table, which the next view creates

pyiceberg's errors have no common root, and its readers raise ValueError: untranslated, one unparsable file would end
the run of all days. Its Avro decoder raises anything that Python does with such bytes (KeyError, SystemError,
zlib.error): an unreadable file if the decoder raised it, a bug otherwise.
"""

import contextlib
import traceback
import zlib
from collections.abc import Iterator
from gzip import BadGzipFile
from struct import error as StructError  # noqa: N812 - `error` alone says nothing
from typing import Final

from botocore.exceptions import BotoCoreError, ClientError
from pyiceberg import exceptions
from requests.exceptions import RequestException
from sqlalchemy.exc import SQLAlchemyError

from minutebook.errors import CatalogRefused, OutcomeUnknown

_REFUSED: Final = (
    exceptions.BadRequestError,
    exceptions.UnauthorizedError,
    exceptions.ForbiddenError,
    exceptions.OAuthError,
    PermissionError,
)
_REFUSED_CODES: Final = frozenset({"AccessDeniedException", "AccessDenied", "InvalidInputException"})
_UNREADABLE: Final = (
    *(
        exceptions.NoSuchIcebergTableError,
        exceptions.NoSuchPropertyException,
        exceptions.ValidationError,
        exceptions.ResolveError,
    ),
    *(ValueError, NotImplementedError, EOFError, BadGzipFile),
)
_DECODING: Final = (
    *(AssertionError, AttributeError, LookupError, MemoryError, OverflowError, RecursionError, SystemError),
    *(TypeError, zlib.error, StructError, ImportError),
)
_CODECS: Final = ("Unsupported codec", "Snappy support")
"""How pyiceberg begins when it lacks a compression that other engines have."""
_DECODERS: Final = ("pyiceberg.avro.", "pyiceberg.manifest", "pyiceberg.serializers")
_OUTSIDE: Final = (
    *(exceptions.RESTError, RequestException, SQLAlchemyError, BotoCoreError, ClientError, OSError),
    *(exceptions.NoSuchTableError, exceptions.NoSuchNamespaceError),
)


@contextlib.contextmanager
def translated(what: str) -> Iterator[None]:
    """Raise CatalogRefused or OutcomeUnknown in place of errors of the catalog and its files."""
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
    next_step = (
        "find out who made or changed the table: it is of another kind, of a newer version or damaged; or name "
        "another table"
    )
    if str(exc).startswith(_CODECS):
        next_step = "set the table's property write.avro.compression-codec to gzip or zstd"
    return CatalogRefused(
        f"{what}: pyiceberg cannot work with what is there: {type(exc).__name__}: {exc}", next_step=next_step
    )


def _is_of_a_decoder(exc: Exception) -> bool:
    """Return whether one of pyiceberg's decoders raised the error, directly or through its own calls."""
    modules = (frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(exc.__traceback__))
    return any(module.startswith(_DECODERS) for module in modules)
