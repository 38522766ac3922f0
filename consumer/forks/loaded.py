"""What the fork server loads once, before the first fork, so that all processors share its memory."""

import gc
import os
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping
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
from minutebook.errors import SettingsError

_CONTEXT: Final = "ssl_context"


def serve_forks(listener: socket.socket, files: Mapping[str, str], parent: int) -> None:
    """Prepare with the settings of each stream, then serve forks until the process of the pidfd `parent` has ended.

    `files` maps a stream's name to its file. Raises SettingsError if a processor would refuse the settings of the
    only stream. With several, the processors of a stream that cannot be prepared read its settings themselves, and
    say what is wrong with them; so do those of a stream that was opened later, from the file that their stubs send.
    """
    clock = SystemClock()
    begun = clock.monotonic()
    gc.disable()  # a collection writes to the objects, and so to shared pages
    prepared = _prepare(files)
    # Streams with equal settings of AWS share their clients.
    distinct = {(id(each.s3), id(each.kinesis())): each for each in prepared.values()}
    share_certificates(client for each in distinct.values() for client in (each.s3, each.kinesis()))
    for each in distinct.values():
        warm_up(each, clock, log_level(each.settings, os.environ))
    gc.collect()
    give_back()
    gc.freeze()
    server, title = os.getpid(), find_title()

    def become(pipes: Pipes, stream: str, file: str) -> None:
        def live_here(stdin: BinaryIO, protocol: BinaryIO) -> int:
            return _live(lambda: prepared.get(stream) or prepare_serving(file, os.environ), stdin, protocol)

        become_processor(pipes, server, title, file, live_here, stream)

    forks = ForkServer(listener, become, parent)
    structlog.get_logger().info("fork_server_ready", seconds=round(clock.monotonic() - begun, 2))
    forks.run()


def _prepare(files: Mapping[str, str]) -> dict[str, Prepared]:
    prepared: dict[str, Prepared] = {}
    for stream, path in files.items():
        try:
            prepared[stream] = prepare_serving(path, os.environ)
        except SettingsError as exc:
            if len(files) == 1:
                raise
            structlog.get_logger().debug("stream_not_prepared", properties=stream, error=str(exc))
    return prepared


def _live(prepare: Callable[[], Prepared], stdin: BinaryIO, protocol: BinaryIO) -> int:
    return live(lambda: serve(prepare(), stdin, protocol, after_batch=MemoryThrift(SystemClock()).after_batch))


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
