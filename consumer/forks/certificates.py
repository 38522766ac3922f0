"""One bundle of certificates for all processors, read before the first fork.

urllib3 reads the bundle for each connection anew (urllib3.util.ssl_.ssl_wrap_socket): 2 MB of each processor's own
memory, and 20 ms of CPU. Read once into the context that the clients share, it is there after each fork. A bundle
that was exchanged meanwhile is read by whoever connects next, as ever.
"""

import os
import ssl
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from botocore.httpsession import get_cert_path

_CONTEXT: Final = "ssl_context"


def share_certificates(clients: Iterable[Any]) -> None:
    """Let clients that speak TLS share one context per bundle, with its certificates read.

    These are private parts of botocore's and urllib3's: where they are not as expected, nothing is shared.
    """
    contexts: dict[str, ssl.SSLContext] = {}
    for client in clients:
        with suppress(AttributeError, KeyError):
            session = client._endpoint.http_session  # noqa: SLF001 - there is no other way
            pool = session._manager.connection_pool_kw  # noqa: SLF001 - same
            if client.meta.endpoint_url.startswith("https") and session._verify:  # noqa: SLF001 - same
                bundle = str(get_cert_path(session._verify))  # noqa: SLF001 - same
                pool[_CONTEXT] = contexts.setdefault(bundle, pool[_CONTEXT])
    for bundle, context in contexts.items():
        _read_once(context, bundle)


def _read_once(context: ssl.SSLContext, bundle: str) -> None:
    load = context.load_verify_locations
    try:
        version = _version(bundle)
        load(bundle)
    except OSError:  # whoever connects says so
        return

    def load_changed(cafile: str | None = None, capath: str | None = None, cadata: str | bytes | None = None) -> None:
        if (cafile, capath, cadata) != (bundle, None, None) or _version(bundle) != version:
            load(cafile, capath, cadata)

    setattr(context, "load_verify_locations", load_changed)  # noqa: B010 - of this one context


def _version(path: str) -> tuple[int, int, int]:
    about = os.stat(path)  # noqa: PTH116 - for each connection
    return about.st_ino, about.st_size, about.st_mtime_ns
