"""The fork server's memory: what is loaded, made and played once, before the first processor is forked."""

import gc
import os
import socket
from typing import BinaryIO

import structlog

from consumer.exit_line import live
from consumer.forks.certificates import share_certificates
from consumer.forks.child import become_processor, find_title
from consumer.forks.memory import MemoryThrift, give_back
from consumer.forks.server import ForkServer, Pipes
from consumer.forks.warm_up import warm_up
from consumer.serving import Prepared, log_level, prepare, serve
from minutebook.clock import SystemClock


def serve_forks(listener: socket.socket, path: str, parent: int) -> None:
    """Prepare with the settings in `path`, then fork processors until nobody needs them.

    `parent` is a descriptor that tells of its end.

    Raises:
        SettingsError: a processor would refuse these settings.
    """
    clock = SystemClock()
    begun = clock.monotonic()
    gc.disable()  # what it moves between its lists, it writes to
    prepared = prepare(path, os.environ)
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
