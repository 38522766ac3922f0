"""What the fork server loads once, before the first fork, so that all processors share its memory."""

import gc
import os
import socket
import ssl
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, BinaryIO, Final

import structlog
from botocore.httpsession import get_cert_path

from consumer.exit_line import live
from consumer.forks.child import become_processor, find_title
from consumer.forks.memory import MemoryThrift, give_back
from consumer.forks.server import ForkServer, Pipes
from consumer.forks.warm_up import warm_up
from consumer.serving import Prepared, log_level, prepare_serving, serve
from minutebook.clock import SystemClock

_CONTEXT: Final = "ssl_context"


def serve_forks(listener: socket.socket, path: str, parent: int) -> None:
    """Prepare with the settings in `path`, then serve forks until the process of the pidfd `parent` has ended.

    Raises SettingsError if a processor would refuse these settings.
    """
    clock = SystemClock()
    begun = clock.monotonic()
    gc.disable()  # a collection writes to the objects, and so to shared pages
    prepared = prepare_serving(path, os.environ)
    share_certificates([prepared.s3, prepared.kinesis()])
    warm_up(prepared, clock, log_level(prepared.settings, os.environ))
    gc.collect()
    give_back()
    gc.freeze()
    server, title = os.getpid(), find_title()

    def become(pipes: Pipes) -> None:
        become_processor(pipes, server, title, path, lambda stdin, protocol: _live(prepared, stdin, protocol))

    forks = ForkServer(listener, become, parent)
    structlog.get_logger().info("fork_server_ready", seconds=round(clock.monotonic() - begun, 2))
    forks.run()


def _live(prepared: Prepared, stdin: BinaryIO, protocol: BinaryIO) -> int:
    return live(lambda: serve(prepared, stdin, protocol, after_batch=MemoryThrift(SystemClock()).after_batch))


def share_certificates(clients: Iterable[Any]) -> None:
    """Let clients that use TLS share one context per bundle of certificates, with the bundle loaded.

    urllib3 loads the bundle for each connection (urllib3.util.ssl_.ssl_wrap_socket): 2 MB of each processor's own
    memory, and 20 ms of CPU. A changed bundle is still loaded by the next connection. These are private attributes of
    botocore and urllib3: where they are not as expected, nothing is shared.
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
        _load_once(context, bundle)


def _load_once(context: ssl.SSLContext, bundle: str) -> None:
    load = context.load_verify_locations
    try:
        version = _version(bundle)
        load(bundle)
    except OSError:  # the next connection raises it
        return

    def load_changed(cafile: str | None = None, capath: str | None = None, cadata: str | bytes | None = None) -> None:
        if (cafile, capath, cadata) != (bundle, None, None) or _version(bundle) != version:
            load(cafile, capath, cadata)

    setattr(context, "load_verify_locations", load_changed)  # noqa: B010 - only of this context


def _version(path: str) -> tuple[int, int, int]:
    info = os.stat(path)  # noqa: PTH116 - for each connection
    return info.st_ino, info.st_size, info.st_mtime_ns
