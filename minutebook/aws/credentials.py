"""Failures of where credentials come from, told apart from those of the service that a request is for.

botocore asks the source while it signs a request: a file, a program, STS, SSO, or an end point of the host (ECS,
EKS, EC2). What the source raises then looks like an answer of the service, or is no error of botocore's at all
(OSError for a token file, RuntimeError for credentials that are expired when they come).
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

from botocore import exceptions
from botocore.exceptions import BotoCoreError, ClientError, CredentialRetrievalError

T = TypeVar("T")

LOOK_AT_SOURCE: Final = (
    "look at the credentials of this process, not at the service: the role of the task, host or service account, its "
    "end point or token file, or the profile"
)
CREDENTIALS_STEP: Final = f"{LOOK_AT_SOURCE}; minutebook doctor tries them"
_SENDABLE: Final = re.compile(r"[\x21-\x7e]*")
_FOREIGN: Final = (ClientError, BotoCoreError, OSError, RuntimeError, ValueError, LookupError)
_ERRORS: Final = (
    CredentialRetrievalError,
    exceptions.NoCredentialsError,
    exceptions.PartialCredentialsError,
    exceptions.SSOError,
    exceptions.LoginError,
    exceptions.TokenRetrievalError,
    exceptions.ProfileNotFound,
    exceptions.ConfigNotFound,
    exceptions.ConfigParseError,
)
STS_OPERATIONS: Final = frozenset(
    {"AssumeRole", "AssumeRoleWithSAML", "AssumeRoleWithWebIdentity", "CreateToken", "GetRoleCredentials"}
)
"""The requests that sources of credentials send, to STS and SSO."""
_CODES: Final = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidToken",
        "TokenRefreshRequired",
        "UnrecognizedClientException",
    }
)
"""What services answer to credentials that they do not know, or know no longer."""


class CredentialsRefusedError(BotoCoreError):
    """Permanent: the source refuses, or is set up wrongly."""

    fmt = "no credentials: {error}"


_NONE_COME: Final = (CredentialsRefusedError, *_ERRORS)


def comes_from_credentials(error: BaseException | None) -> bool:
    """Return whether a failure is one of the source of credentials, or of the credentials themselves."""
    if isinstance(error, ClientError):
        return error.operation_name in STS_OPERATIONS or error.response.get("Error", {}).get("Code") in _CODES
    return isinstance(error, _NONE_COME)


def guard_credentials(resolver: Any, is_retryable: Callable[[Exception], bool]) -> Any:  # noqa: ANN401 - botocore's
    """Let the resolver of a session, and the credentials that it returns, raise errors of credentials alone.

    A failure that may pass becomes CredentialRetrievalError, any other one CredentialsRefusedError.
    """

    def guarded(request: Callable[[], T]) -> T:
        try:
            return request()
        except _NONE_COME:
            raise
        except _FOREIGN as exc:
            if isinstance(exc, OSError | RuntimeError) or is_retryable(exc):
                raise CredentialRetrievalError(provider="source", error_msg=f"{type(exc).__name__}: {exc}") from exc
            raise CredentialsRefusedError(error=f"{type(exc).__name__}: {exc}") from exc

    load = resolver.load_credentials

    def load_guarded() -> Any:  # noqa: ANN401 - botocore's
        credentials = guarded(load)
        _check_sendable(credentials)
        if hasattr(credentials, "_refresh"):  # those that expire; whatever reads them refreshes them first
            credentials._refresh = partial(guarded, credentials._refresh)  # noqa: SLF001 - there is no other way
        return credentials

    resolver.load_credentials = load_guarded
    return resolver


def _check_sendable(credentials: Any) -> None:  # noqa: ANN401 - botocore's
    """Refuse what no header can hold, mostly the line end of a mounted file: what is sent would be told in errors.

    Those that expire are read with the first request: their source is a service, which puts no line end to them.
    """
    if credentials is None or hasattr(credentials, "_refresh"):
        return
    parts = {"access key": credentials.access_key, "secret key": credentials.secret_key, "token": credentials.token}
    bad = [name for name, text in parts.items() if text and not _SENDABLE.fullmatch(text)]
    if bad:
        raise CredentialsRefusedError(
            error=f"the {' and '.join(bad)} found by {credentials.method} holds a line end, a blank or another "
            "character that no request can carry"
        )
