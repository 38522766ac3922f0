"""`minutebook-processor`: the process that the MultiLangDaemon starts for each shard.

Its stdout is the protocol. A stray print of any library would break it, so file descriptor 1 is duplicated for
the protocol and then pointed at stderr, before anything else is imported.
"""

import os
import signal
import sys
from typing import BinaryIO, NoReturn

_LAST_WORD = "processor_failed"


def main() -> NoReturn:
    """Serve one shard until the daemon closes the pipe, then exit.

    Exit codes: 0 at the end of input, else the error's own (archive.errors); the last line on stderr says why.
    """
    protocol = _guard_stdout()
    # The daemon coordinates the stop; a Ctrl-C that reaches the whole terminal must not cut a commit short.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # _exit: no thread or atexit hook of a library may hold a failed processor back.
    code = _serve(protocol)
    sys.stderr.flush()
    os._exit(code)


def _guard_stdout() -> BinaryIO:
    """Return a stream on the real stdout; from now on fd 1 and `sys.stdout` are stderr."""
    sys.stdout.flush()
    protocol = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return protocol


def _serve(protocol: BinaryIO) -> int:
    # structlog renders tracebacks with rich where it finds it; in this process that is memory for nothing.
    sys.modules.setdefault("rich", None)  # type: ignore[arg-type] # None makes the import fail (importlib)
    import structlog  # noqa: PLC0415 - after the guard

    from archive.errors import MinutebookError  # noqa: PLC0415 - after the guard
    from archive.logs import configure_logging  # noqa: PLC0415 - after the guard

    configure_logging()
    # On every line: the supervisor knows by it who is gone, and which shard has a reader.
    structlog.contextvars.bind_contextvars(pid=os.getpid())
    log = structlog.get_logger()
    log.info("processor_started")
    try:
        _run(protocol)
    except MinutebookError as exc:
        log.error(  # noqa: TRY400 - the message names the thing and the next step; no stack is wanted
            _LAST_WORD,
            kind=type(exc).__name__,
            error=str(exc),
            next_step=exc.next_step or "look at the lines before this one",
            exit_code=exc.exit_code,
        )
        return exc.exit_code
    except Exception as exc:
        log.exception(
            _LAST_WORD,
            kind=type(exc).__name__,
            error=str(exc),
            next_step="this is a defect of Minutebook: report the stack below; nothing was checkpointed",
            exit_code=1,
        )
        return 1
    log.info("processor_ended")
    return 0


def _run(protocol: BinaryIO) -> None:
    from functools import partial  # noqa: PLC0415 - after the guard
    from pathlib import Path  # noqa: PLC0415 - after the guard

    from archive.aws import make_kinesis_client, make_s3_client  # noqa: PLC0415 - after the guard
    from archive.clock import SystemClock, new_id, new_random  # noqa: PLC0415 - after the guard
    from archive.errors import SettingsError  # noqa: PLC0415 - after the guard
    from archive.logs import configure_logging  # noqa: PLC0415 - after the guard
    from archive.properties_file import FILE_VARIABLE, SUPERVISED_VARIABLE  # noqa: PLC0415 - after the guard
    from archive.store.s3 import S3Store  # noqa: PLC0415 - after the guard
    from consumer.evidence.turn import FileTurn  # noqa: PLC0415 - after the guard
    from consumer.processor.dedupe_start import await_table, open_table  # noqa: PLC0415 - after the guard
    from consumer.processor.processor import ShardProcessor  # noqa: PLC0415 - after the guard
    from consumer.processor.protocol import run_process  # noqa: PLC0415 - after the guard
    from consumer.services import Services  # noqa: PLC0415 - after the guard
    from consumer.settings.settings import load_settings  # noqa: PLC0415 - after the guard
    from consumer.stream.kinesis import KinesisStream  # noqa: PLC0415 - after the guard

    path = sys.argv[1] if len(sys.argv) > 1 else os.environ.get(FILE_VARIABLE)
    if not path:
        raise SettingsError(
            "no properties file was named",
            next_step=f"give it as the argument of minutebook-processor, or in {FILE_VARIABLE}",
        )
    settings = load_settings(Path(path), os.environ)
    configure_logging("debug" if SUPERVISED_VARIABLE in os.environ else settings.log_level)
    clock, rng = SystemClock(), new_random()
    store = S3Store(make_s3_client(settings.region, settings.s3_endpoint, settings.access), settings.bucket)
    stream = KinesisStream(
        partial(make_kinesis_client, settings.region, settings.kinesis_endpoint, settings.access),
        settings.stream_name,
        clock,
        rng,
        budget_seconds=settings.store_timeout_seconds,
    )
    table = open_table(settings)
    if table is not None:
        await_table(table, Services(settings, store, stream, clock, rng, new_id))
    processor = ShardProcessor(settings, store, stream, clock, rng, new_id, table, turn=FileTurn(path))
    run_process(processor, sys.stdin.buffer, protocol)


if __name__ == "__main__":
    main()
