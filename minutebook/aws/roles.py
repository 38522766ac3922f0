"""A session with a role of another account, which it assumes again before the credentials expire."""

import functools
from typing import TYPE_CHECKING, Any, Final

from minutebook.aws.access import Access
from minutebook.aws.answers import CheckedParsers

if TYPE_CHECKING:
    from boto3.session import Session

ROLE_SESSION: Final = "minutebook"
"""The session name in the other account's CloudTrail."""


@functools.cache
def role_session(base: "Session", role_arn: str, access: Access, region: str) -> "Session":
    """Return the process's session of the stream's role, which the session `base` assumes.

    STS is called with the first request. The credentials last for an hour; a request in the last 15 minutes refreshes
    them (botocore's RefreshableCredentials). If that fails, the request fails with the same error: permanent if STS
    refused, retryable otherwise.
    """
    from boto3.session import Session  # noqa: PLC0415 - costs 20 MB, so only processes that talk to AWS import it
    from botocore import credentials as sources  # noqa: PLC0415 - as above
    from botocore.config import Config  # noqa: PLC0415 - as above
    from botocore.session import get_session  # noqa: PLC0415 - as above

    settings = Config(
        connect_timeout=5,
        read_timeout=10,
        retries={"total_max_attempts": 3, "mode": "standard"},
        use_fips_endpoint=access.use_fips or None,
        use_dualstack_endpoint=access.use_dualstack or None,
    )
    core: Any = get_session()
    # Both sessions share botocore's data: 10 MB once parsed.
    core.register_component("response_parser_factory", CheckedParsers())
    core.register_component("data_loader", base._session.get_component("data_loader"))  # noqa: SLF001 - there is no other way

    def create_client(service: str, **credentials: str) -> Any:  # noqa: ANN401 - boto3's types
        return core.create_client(service, region_name=region, config=settings, **credentials)

    arguments = {"RoleSessionName": ROLE_SESSION}
    if access.stream_role_external_id is not None:
        arguments["ExternalId"] = access.stream_role_external_id
    fetcher = sources.AssumeRoleCredentialFetcher(
        create_client, _SourceCredentials(base), role_arn, extra_args=arguments
    )
    core._credentials = sources.DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")  # noqa: SLF001 - as boto3 itself does
    return Session(botocore_session=core)


class _SourceCredentials:
    """The credentials that assume the role, looked up at each refresh: a host may get them later."""

    def __init__(self, base: "Session") -> None:
        self._base = base

    def get_frozen_credentials(self) -> object:
        """Return the current credentials; raise NoCredentialsError if there are none, as botocore does."""
        from botocore.exceptions import NoCredentialsError  # noqa: PLC0415 - as above

        credentials = self._base.get_credentials()
        if credentials is None:
            raise NoCredentialsError
        return credentials.get_frozen_credentials()
