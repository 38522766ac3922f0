"""Redirects of S3: a request is sent again to another address of its bucket, and to no other.

S3 answers 307 while the address of a new bucket is still being spread; nothing was applied, and `Location` names the
address to ask now (Amazon S3 User Guide, request redirection). The same method, headers and body go there, signed
anew, so a conditional PUT stays one. botocore by itself would send the request to the address that answered 307.

The second signature must not be much younger than the first: a machine may sleep for days between them, and the slot
of an old segment may have been expired. So a redirect is followed within a minute; after that whoever asked decides.

A redirect that names a region instead (301 with x-amz-bucket-region) is botocore's: it asks in that region from then
on, except at an address of the settings. Without region and Location botocore would ask for the region for ever, so
such an answer ends here.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from botocore.exceptions import BotoCoreError
from urllib3.util import parse_url

from minutebook.clock import Clock

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_MOST_HOPS: Final = 3
_HOPS: Final = "minutebook_redirects"
_SIGNED: Final = "minutebook_signed_ms"
_SOON_MS: Final = 60_000
_TIMESTAMP: Final = "%Y%m%dT%H%M%SZ"
_ADDED: Final = "rk"
"""What S3 adds to the query. Anything else could make another request of it."""
_REGION: Final = r"[a-z]{2,4}(?:-[a-z]+)+-[0-9]+"
_OF_AWS: Final = re.compile(
    rf"(?:s3(?:-fips)?(?:\.dualstack)?(?:[.-]({_REGION}))?|s3-external-1|s3-[a-z0-9]+)\.amazonaws\.com(?:\.cn)?"
)
"""S3's REST end points, also those that it names in redirects alone (s3-gztb4pa9sq). Other hosts of this domain are
anybody's: load balancers, web sites."""


class ForeignRedirectError(BotoCoreError):
    """Permanent: whoever answers is not the store, or the store has another address."""

    fmt = "{status}: redirected to {address}, which is no address of the bucket {bucket}"


def register_redirects(client: "S3Client", clock: Clock) -> None:
    """Let the client follow redirects within its bucket; before botocore's own handler, which then does nothing."""
    client.meta.events.register_first("needs-retry.s3", partial(_follow, clock))  # type: ignore[arg-type]  # the stubs know no handler that answers


def _follow(clock: Clock, request_dict: dict[str, Any], response: Any, **_: object) -> int | None:  # noqa: ANN401 - botocore's
    """Return 0 to send the request again at once, to the changed URL; None to leave the answer as it is."""
    if response is None or response[0].status_code not in _REDIRECTS:
        return None
    http, parsed = response
    context = request_dict["context"]
    first_ms = context.setdefault(_SIGNED, _signed_ms(context))
    is_soon = 0 <= clock.now_ms() - first_ms <= _SOON_MS
    names_region = "x-amz-bucket-region" in http.headers or "Region" in parsed.get("Error", {})
    if http.status_code != HTTPStatus.TEMPORARY_REDIRECT and names_region and is_soon:
        return None
    redirect = context.setdefault("s3_redirect", {})
    redirect["redirected"] = True  # botocore looks at it
    location, hops = http.headers.get("Location", ""), context.get(_HOPS, 0)
    bucket = str(redirect.get("bucket") or "")
    address = same_object(request_dict["url"], location, bucket) if location else None
    if location and address is None:
        raise ForeignRedirectError(status=http.status_code, address=location.partition("?")[0], bucket=bucket)
    if address is None or hops >= _MOST_HOPS or http.status_code != HTTPStatus.TEMPORARY_REDIRECT or not is_soon:
        return None
    context[_HOPS] = hops + 1
    request_dict["url"] = address
    region = http.headers.get("x-amz-bucket-region") or _region_in(address, bucket)
    if region:
        context["signing"] = {**context.get("signing", {}), "region": region}
    return 0


def _signed_ms(context: Mapping[str, Any]) -> int:
    """Return when the last request was signed, in whole seconds; 0 if it does not say."""
    text = context.get("timestamp", "")
    if not isinstance(text, str) or not text:
        return 0
    return int(datetime.strptime(text, _TIMESTAMP).replace(tzinfo=UTC).timestamp() * 1000)


def same_object(url: str, location: str, bucket: str) -> str | None:
    """Return the address in `location` with the query of `url`; None if it is not the same object's.

    Both name the bucket and the same path in it, and are addresses of S3 at AWS, or of the very same server: scheme,
    host and port. TLS is not given up.
    """
    old, new = _parse(url), _parse(location)
    if old is None or new is None or not bucket:
        return None
    (old_host, old_path), (new_host, new_path) = _split(old, bucket), _split(new, bucket)
    is_there = (new.scheme, new.netloc) == (old.scheme, old.netloc)
    is_aws = bool(_OF_AWS.fullmatch(old_host) and _OF_AWS.fullmatch(new_host))
    is_safe = new.scheme == "https" or new.scheme == old.scheme == "http"
    if not old_path or old_path != new_path or not (is_there or is_aws) or not is_safe:
        return None
    added = [(name, text) for name, text in parse_qsl(new.query) if name == _ADDED]
    query = "&".join(filter(None, [old.query, urlencode(added)]))
    return urlunsplit((new.scheme, new.netloc, new.path, query, ""))


def _parse(url: str) -> SplitResult | None:
    """Return the parts of an absolute address; None if the one who connects would read another host or port there.

    urllib3 connects, and ends the host at a backslash; the host that is signed comes from a parser that reads on.
    """
    try:
        parts, connected = urlsplit(url), parse_url(url)
    except ValueError:
        return None
    is_one = (
        connected.netloc is not None and parts.netloc.lower() == connected.netloc and parts.port == connected.port
    )
    return parts if is_one else None


def _split(address: SplitResult, bucket: str) -> tuple[str, str]:
    """Return the host without the bucket, and the path within the bucket; both empty if it names no such bucket.

    Only AWS has the bucket in the host: elsewhere a host may begin with the bucket's name and be the store's as a
    whole.
    """
    host, path = address.netloc, address.path
    end_point = host.removeprefix(f"{bucket}.")
    if end_point != host and _OF_AWS.fullmatch(end_point):
        return end_point, unquote(path) or "/"
    if path == f"/{bucket}" or path.startswith(f"/{bucket}/"):
        return host, unquote(path.removeprefix(f"/{bucket}")) or "/"
    return "", ""


def _region_in(address: str, bucket: str) -> str:
    match = _OF_AWS.fullmatch(_split(urlsplit(address), bucket)[0])
    return match[1] or "" if match else ""
