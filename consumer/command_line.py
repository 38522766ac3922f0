"""The consumer's commands of `minutebook` and their options. Each command imports its modules when it is called."""

import os
from pathlib import Path
from typing import Annotated

import typer

from consumer.requests import CutRequest, ExpireRequest, HandoverRequest, RestoreRequest, StatusRequest
from minutebook.options import FileOrFolder, OneStream, command


def init() -> None:
    """Print a commented properties file to start from: minutebook init > my.properties."""
    from consumer.settings.shipped import production_properties  # noqa: PLC0415 - help is quick

    typer.echo(production_properties(), nl=False)


def consume(
    file: FileOrFolder = None,
    state_dir: Annotated[
        Path | None,
        typer.Option(help="Where the daemon's file and lock live. Default: a folder of this user in /tmp."),
    ] = None,
) -> None:
    """Archive the stream, or all streams of a folder, until stopped (SIGTERM): check, start, keep it running."""
    from consumer.fleet.consume import run_consume as run  # noqa: PLC0415 - help is quick

    raise typer.Exit(run(file, os.environ, state_dir))


def health(
    file: FileOrFolder = None,
    stream: OneStream = None,
    state_dir: Annotated[
        Path | None,
        typer.Option(help="That of `consume`, where another user runs it or it is an earlier release."),
    ] = None,
) -> None:
    """Say in one line whether this worker's task does its work; exits 7 when it does not, or does not run."""
    from consumer.monitoring.health_file import run_health as run  # noqa: PLC0415 - help is quick

    raise typer.Exit(run(file, os.environ, state_dir, stream=stream))


def doctor(
    file: FileOrFolder = None,
    stream: OneStream = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the checks as JSON.")] = False,
) -> None:
    """Check Java, credentials, stream, bucket and table; say what to do about what is wrong."""
    from consumer.preflight.doctor import run_doctor as run  # noqa: PLC0415 - help is quick

    raise typer.Exit(run(file, os.environ, as_json=as_json, stream=stream))


@command
def status(request: StatusRequest) -> int:
    """Show each shard's lease, checkpoint, end in the archive and lag, and what is proven; changes nothing."""
    from consumer.status.command import run_status as run  # noqa: PLC0415 - help is quick

    return run(request, os.environ)


@command
def restore(request: RestoreRequest) -> int:
    """Rebuild KCL's lease rows from the archive alone, while no worker runs."""
    from consumer.restore.command import run_restore as run  # noqa: PLC0415 - help is quick

    return run(request, os.environ)


@command
def expire(request: ExpireRequest) -> int:
    """Delete raw segments that are published, proven clean, and long out of the stream."""
    from consumer.expire.command import run_expire as run  # noqa: PLC0415 - help is quick

    return run(request, os.environ)


@command
def cut(request: CutRequest) -> int:
    """Divide the archive at a time, exactly: print the last position of each shard before it."""
    from consumer.cut.command import run_cut as run  # noqa: PLC0415 - help is quick

    return run(request, os.environ)


@command
def handover(request: HandoverRequest) -> int:
    """Let another KCL application go on behind a cut: write its lease rows, no record twice, none left out."""
    from consumer.cut.command import run_handover as run  # noqa: PLC0415 - help is quick

    return run(request, os.environ)


def docs(
    page: Annotated[str | None, typer.Argument(help="Its name; without it the names are listed.")] = None,
    section: Annotated[str | None, typer.Argument(help="A heading: print this section alone.")] = None,
) -> None:
    """Print a page of the documentation of this version."""
    from consumer.settings import shipped  # noqa: PLC0415 - help is quick

    typer.echo("\n".join(shipped.page_names()) if page is None else shipped.page(page, section).rstrip())


def prepare_jvm() -> Path:
    """Let the daemon's JVM start faster from now on; return the file that it needs for that."""
    from consumer.daemon.prepared.prepare import prepare_daemon  # noqa: PLC0415 - help is quick
    from minutebook.clock import SystemClock  # noqa: PLC0415 - same

    return prepare_daemon(os.environ, SystemClock())


COMMANDS = (init, consume, health, doctor, status, restore, expire, cut, handover)
