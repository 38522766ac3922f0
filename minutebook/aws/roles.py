"""A session that acts as a role of another account, and assumes it anew before it expires."""

import functools
from typing import TYPE_CHECKING, Any, Final

from minutebook.aws.access import Access
from minutebook.aws.answers import CheckedParsers

if TYPE_CHECKING:
    from boto3.session import Session

ROLE_SESSION: Final = "minutebook"
"""What the other account's CloudTrail says who it was."""


@functools.cache
def role_session(base: "Session", role_arn: str, access: Access, region: str) -> "Session":
    """Return the process's one session of the stream's role; `base` is who assumes it.

    Nothing is asked before the first request. The credentials are good for an hour, and are fetched again, by
    whichever request comes then, in the last 15 minutes of it (botocore's RefreshableCredentials). What prevents it
    is the request's own error: a refusal of STS is one for good, everything else passes.
    """
    from boto3.session import Session  # noqa: PLC0415 - costs 20 MB; only who talks to AWS pays
    from botocore.config import Config  # noqa: PLC0415 - as above
    from botocore.credentials import (  # noqa: PLC0415 - as above
        AssumeRoleCredentialFetcher,
        DeferredRefreshableCredentials,
    )
    from botocore.session import get_session  # noqa: PLC0415 - as above

    settings = Config(
        connect_timeout=5,
        read_timeout=10,
        retries={"total_max_attempts": 3, "mode": "standard"},
        use_fips_endpoint=access.use_fips or None,
        use_dualstack_endpoint=access.use_dualstack or None,
    )
    core: Any = get_session()
    # botocore's data is 10 MB once parsed: both sessions read the same.
    core.register_component("response_parser_factory", CheckedParsers())
    core.register_component("data_loader", base._session.get_component("data_loader"))  # noqa: SLF001 - there is no other way

    def create_client(service: str, **credentials: str) -> Any:  # noqa: ANN401 - boto3's types
        return core.create_client(service, region_name=region, config=settings, **credentials)

    arguments = {"RoleSessionName": ROLE_SESSION}
    if access.stream_role_external_id is not None:
        arguments["ExternalId"] = access.stream_role_external_id
    fetcher = AssumeRoleCredentialFetcher(create_client, _Assuming(base), role_arn, extra_args=arguments)
    core._credentials = DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")  # noqa: SLF001 - as boto3 itself does
    return Session(botocore_session=core)


class _Assuming:
    """Whoever assumes the role, asked for when that is due: a host without credentials may have them later."""

    def __init__(self, base: "Session") -> None:
        self._base = base

    def get_frozen_credentials(self) -> object:
        """Return the credentials as they are now; raise what botocore raises where there are none."""
        from botocore.exceptions import NoCredentialsError  # noqa: PLC0415 - as above

        credentials = self._base.get_credentials()
        if credentials is None:
            raise NoCredentialsError
        return credentials.get_frozen_credentials()
