"""`minutebook-processor`: the process that a MultiLangDaemon without our supervisor starts for each shard.

Its stdout is the protocol, which a stray print of any library would break. So file descriptor 1 is duplicated for the
protocol and then pointed at stderr, before anything else is imported. `minutebook consume` forks its processors
instead (consumer/forks).
"""

import os
import signal
import sys
from typing import BinaryIO, NoReturn


def main() -> NoReturn:
    """Serve one shard until the daemon closes the pipe, then exit with 0 or the error's own code."""
    protocol = _guard_stdout()
    # The daemon coordinates the stop; a Ctrl-C that reaches the whole terminal must not cut a commit short.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # _exit: no thread or atexit hook of a library may delay the end of a failed processor.
    code = _live(protocol)
    sys.stderr.flush()
    os._exit(code)


def _guard_stdout() -> BinaryIO | None:
    """Return a stream on the real stdout, None if it is closed; then fd 1 and `sys.stdout` are stderr."""
    if sys.stdout is None:
        return None
    sys.stdout.flush()
    protocol = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return protocol


def _live(protocol: BinaryIO | None) -> int:
    # structlog would import rich to render tracebacks, which only costs memory here.
    sys.modules.setdefault("rich", None)  # type: ignore[arg-type] # None makes the import fail (importlib)
    import structlog  # noqa: PLC0415 - after the guard

    from consumer.exit_line import live  # noqa: PLC0415 - after the guard
    from minutebook.logs import configure_logging  # noqa: PLC0415 - after the guard
    from minutebook.properties_file import STREAM_VARIABLE  # noqa: PLC0415 - after the guard

    configure_logging()
    if stream := os.environ.get(STREAM_VARIABLE):
        structlog.contextvars.bind_contextvars(properties=stream)
    return live(lambda: _serve(protocol))


def _serve(protocol: BinaryIO | None) -> None:
    from consumer.serving import prepare_serving, serve  # noqa: PLC0415 - after the guard; half a second
    from minutebook.errors import SettingsError  # noqa: PLC0415 - after the guard

    if protocol is None or sys.stdin is None:
        raise SettingsError(
            "stdin or stdout is closed, and they are the daemon's pipes",
            next_step="let the MultiLangDaemon start this program, or minutebook consume, which starts that",
        )
    serve(prepare_serving(sys.argv[1] if len(sys.argv) > 1 else None, os.environ), sys.stdin.buffer, protocol)


if __name__ == "__main__":
    main()
