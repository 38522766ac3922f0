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
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from botocore.exceptions import BotoCoreError

from minutebook.clock import Clock

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_MOST_HOPS: Final = 3
_HOPS: Final = "minutebook_redirects"
_SIGNED: Final = "minutebook_signed_ms"
_SOON_MS: Final = 60_000
_TIMESTAMP: Final = "%Y%m%dT%H%M%SZ"
_OF_AWS: Final = re.compile(r"s3(?:[.-][a-z0-9-]+)*\.amazonaws\.com(?:\.cn)?")
_REGION: Final = re.compile(r"[.-]([a-z]{2,3}(?:-[a-z]+)+-[0-9])\.amazonaws\.")


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
        shown = urlsplit(location)._replace(query="").geturl()
        raise ForeignRedirectError(status=http.status_code, address=shown, bucket=bucket)
    if address is None or hops >= _MOST_HOPS or http.status_code != HTTPStatus.TEMPORARY_REDIRECT or not is_soon:
        return None
    context[_HOPS] = hops + 1
    request_dict["url"] = address
    region = http.headers.get("x-amz-bucket-region") or _region_in(address)
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

    Both name the bucket, in the host or the path, and the same path in it. The hosts are both S3's of AWS, or the new
    one is the old one (at any port) or below it. TLS is not given up.
    """
    old, new = urlsplit(url), urlsplit(location)
    (old_host, old_path), (new_host, new_path) = _split(url, bucket), _split(location, bucket)
    is_near = new_host == old_host or new_host.endswith(f".{old_host}")
    is_aws = bool(_OF_AWS.fullmatch(old_host) and _OF_AWS.fullmatch(new_host))
    is_safe = new.scheme == "https" or new.scheme == old.scheme == "http"
    if not old_host or old_path != new_path or not (is_near or is_aws) or not is_safe:
        return None
    asked = parse_qsl(old.query, keep_blank_values=True)
    added = [pair for pair in parse_qsl(new.query, keep_blank_values=True) if pair not in asked]
    query = "&".join(filter(None, [old.query, urlencode(added)]))
    return urlunsplit((new.scheme, new.netloc, new.path, query, ""))


def _split(url: str, bucket: str) -> tuple[str, str]:
    """Return the host without the bucket, and the path within the bucket; empty if it names no such bucket."""
    parts = urlsplit(url)
    host, path = parts.hostname or "", unquote(parts.path) or "/"
    if not bucket or parts.username is not None:
        return "", ""
    if host.startswith(f"{bucket}."):
        return host.removeprefix(f"{bucket}."), path
    if path == f"/{bucket}" or path.startswith(f"/{bucket}/"):
        return host, path.removeprefix(f"/{bucket}") or "/"
    return "", ""


def _region_in(address: str) -> str:
    match = _REGION.search(urlsplit(address).hostname or "")
    return match[1] if match else ""
