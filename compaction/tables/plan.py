"""What a day's commit to an Iceberg table changes. Pure.

    the table's files of the day                               last commit of the day   change
    exactly the generation's                                   any                      none
    none                                                       any                      add the generation
    some not ours (maintenance), or rows are gone              this generation          none
    all ours, as many rows as were committed                   any                      replace them
    some not ours, as many rows as were committed              another generation       replace them
    any other number of rows                                   another generation       refused
    all ours; some not ours                                    none is remembered       replace them; refused
    not wholly of the day, or with rows deleted from them      another generation       refused
    any                                                        of another output        refused

Files are told apart by their addresses. A replacement names each file that goes and each that comes, so it cannot
take rows of another day along, and what others put into or took out of the table is never thrown away by guess.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from minutebook.errors import SafetyRefusal


class LiveFile(NamedTuple):
    """A data file of the table's current snapshot that may hold rows of the day.

    `is_intact`: its rows are all of this day, and none was deleted from it since.
    """

    uri: str
    rows: int
    is_intact: bool = True


class Recorded(NamedTuple):
    """The newest commit of the day that the table remembers. `rows` is what the day held then.

    `manifest` is the address of the manifest that it was made from; empty: it does not say.
    """

    generation: str
    rows: int
    committed_ms: int
    manifest: str = ""


class Replacement(NamedTuple):
    """The files that leave the table and those that come, in one snapshot."""

    remove: tuple[str, ...]
    add: tuple[str, ...]


class Target(NamedTuple):
    """What the table should hold. `folder` is the address that the day's files begin with, whatever generation."""

    day: str
    generation: str
    folder: str
    files: Collection[str]


def plan_replacement(target: Target, live: Sequence[LiveFile], recorded: Recorded | None) -> Replacement | None:
    """Return what to change; None when the table holds the generation already.

    Raises:
        SafetyRefusal: the table's rows of the day are not those that were committed.
    """
    if {file.uri for file in live} == set(target.files):
        return None
    if not live:
        return Replacement((), tuple(sorted(target.files)))
    if is_rewritten(target, live, recorded):
        return None
    if recorded is not None and recorded.manifest and not recorded.manifest.startswith(target.folder):
        raise _elsewhere(target, recorded)
    strangers = [file for file in live if not file.uri.startswith(target.folder)]
    spoiled = [file for file in live if not file.is_intact]
    if spoiled:
        raise _refusal(target, f"{len(spoiled)} of its files hold rows of other days, or had rows deleted")
    rows = sum(file.rows for file in live)
    if recorded is None and strangers:
        raise _refusal(target, f"it holds {rows:,} rows in files of others, and no commit of the day is remembered")
    if recorded is not None and rows != recorded.rows:
        raise _refusal(target, f"it holds {rows:,} rows, and {recorded.rows:,} were committed")
    remove = {file.uri for file in live} - set(target.files)
    return Replacement(tuple(sorted(remove)), tuple(sorted(set(target.files) - {file.uri for file in live})))


def is_rewritten(target: Target, live: Sequence[LiveFile], recorded: Recorded | None) -> bool:
    """Tell whether the table was given the generation last, and others rewrote its rows, or deleted some.

    A delete of all rows of one day of events takes whole files of ours out, and leaves no file of theirs.
    """
    if recorded is None or recorded.generation != target.generation or not live:
        return False
    is_theirs = any(not file.uri.startswith(target.folder) for file in live)
    return is_theirs or sum(file.rows for file in live) != recorded.rows


def _elsewhere(target: Target, recorded: Recorded) -> SafetyRefusal:
    return SafetyRefusal(
        f"the table's rows of {target.day} were published at another output, and would be replaced: "
        f"{recorded.manifest}",
        next_step="name a table of its own for each stream and output; where the output was moved, a table that does "
        "not exist yet takes all its days again",
    )


def _refusal(target: Target, why: str) -> SafetyRefusal:
    return SafetyRefusal(
        f"the table's rows of {target.day} are not those that Minutebook committed: {why}",
        next_step="find out who writes to the table; to take the published day as it is, delete the day's rows from "
        "the table (DELETE ... WHERE arrival_time ...) and run the command again",
    )
