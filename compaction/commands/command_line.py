"""The nightly commands of `minutebook`. Each imports its code when it is called, so that help is quick."""

import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from compaction.job.request import (
    AuditRequest,
    ColumnsRequest,
    CompactRequest,
    DdlRequest,
    FollowRequest,
    VacuumRequest,
)
from minutebook.errors import SettingsError
from minutebook.options import command


@command
def audit(request: AuditRequest) -> int:
    """Prove a day: every record archived once, in whole chains. Exits 3 on defects, 4 when something is unproven."""
    need_compact("audit", pictures=request.report is not None)
    from compaction.commands.audit_and_compact import run_audit as run  # noqa: PLC0415 - help is quick

    return run(request, os.environ)


@command
def compact(request: CompactRequest) -> int:
    """Rewrite a day to Parquet, audit it, and publish it in one step. Running it again finishes or does nothing."""
    need_compact("compact", pictures=request.report is not None)
    from compaction.commands.audit_and_compact import run_compact as run  # noqa: PLC0415 - help is quick

    return run(request, os.environ)


@command
def follow(request: FollowRequest) -> int:
    """Commit what is archived to an Iceberg table, minutes later; the nights replace it by what they publish."""
    need_packages("follow", ["pyarrow", "pyiceberg"], "iceberg", ("follow", "iceberg"))
    from compaction.commands.follow import run_follow as run  # noqa: PLC0415 - help is quick

    return run(request, os.environ)


@command
def columns(request: ColumnsRequest) -> int:
    """Propose typed columns for the payloads of a day, for compact --columns; or say what of them fits a file."""
    need_compact("columns", pictures=False)
    from compaction.commands.propose_columns import propose_columns  # noqa: PLC0415 - help is quick

    return propose_columns(request, os.environ)


@command
def vacuum(request: VacuumRequest) -> int:
    """Delete what no pointer names below the output: old generations, their audits, uploads nobody finished."""
    need_compact("vacuum", pictures=False)
    from compaction.commands.vacuum.command import run_vacuum as run  # noqa: PLC0415 - help is quick

    return run(request, os.environ)


@command
def ddl(request: DdlRequest) -> int:
    """Print Athena's DDL of a table of the published days, which needs no registration; changes nothing."""
    need_compact("ddl", pictures=False)
    from compaction.commands.ddl import print_ddl  # noqa: PLC0415 - help is quick

    return print_ddl(request, os.environ)


def prepare_jvm() -> Path | None:
    """Let Spark's JVM start faster from now on; return the file it needs, or None without PySpark."""
    if find_spec("pyspark") is None:
        return None
    from compaction.spark.session import prepare_spark  # noqa: PLC0415 - an extra

    return prepare_spark()


def need_compact(name: str, *, pictures: bool, find: Callable[[str], object | None] = find_spec) -> None:
    """Raise SettingsError if packages of the extra `compact` are not installed.

    PySpark is looked for where it is started: days of ordinary size do without.
    """
    needed = ["pyarrow", *(["jinja2", "numpy"] if pictures else [])]
    need_packages(name, needed, "compact", ("compact", "spark"), find)


def need_packages(
    name: str,
    needed: Sequence[str],
    extra: str,
    found: tuple[str, str],
    find: Callable[[str], object | None] = find_spec,
) -> None:
    """Raise SettingsError if packages of an extra are not installed; `found`: in which lock, and on which page."""
    missing = ", ".join(package for package in needed if find(package) is None)
    if missing:
        raise SettingsError(
            f"{name} needs the extra `{extra}`: {missing} not installed",
            next_step=f"install {found[0]}.lock and the wheel, as `minutebook docs {found[1]}` says",
        )


COMMANDS = (audit, compact, follow, vacuum, columns, ddl)
