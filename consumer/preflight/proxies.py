"""Are the variables of a proxy set for both kinds of clients?

boto3 chooses the variable by the endpoint: HTTPS_PROXY for AWS. The AWS SDK for Java chooses it by the scheme of the
proxy, which KCL leaves at `http`: the daemon reads `http.proxyHost` and HTTP_PROXY alone, for every endpoint
(ProxyConfiguration of the SDK's netty-nio-client 2.33; docs/how-to/proxies.md).
"""

from collections.abc import Mapping

from consumer.preflight.check import Check


def check_proxies(environ: Mapping[str, str]) -> Check | None:
    """Compare the variables of a proxy; None where none is set.

    A warning and no failure: one side may go past the proxy on purpose, by an endpoint of the VPC.
    """
    others = _is_set(environ, "HTTPS_PROXY")
    daemon = _is_set(environ, "HTTP_PROXY") or "-Dhttp.proxyHost=" in environ.get("JAVA_TOOL_OPTIONS", "")
    if not others and not daemon:
        return None
    if not daemon:
        return Check.warn(
            "proxy",
            "HTTPS_PROXY is set, which KCL's daemon does not read: its requests go past the proxy",
            next_step="set HTTP_PROXY, too (minutebook docs how-to/proxies)",
        )
    if not others:
        return Check.warn(
            "proxy",
            "the proxy is set for KCL's daemon alone: all other requests to AWS go past it",
            next_step="set HTTPS_PROXY, too (minutebook docs how-to/proxies)",
        )
    return Check.ok("proxy", "set for KCL's daemon and for all other requests")


def _is_set(environ: Mapping[str, str], name: str) -> bool:
    return bool(environ.get(name) or environ.get(name.lower()))
