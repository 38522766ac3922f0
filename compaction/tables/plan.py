"""Plan what a day's commit changes in an Iceberg table. Pure.

    the table's files of the day                               last commit of the day   change
    exactly the generation's                                   any                      none
    none                                                       any                      add the generation
    some foreign (maintenance), or rows are missing            this generation          none
    all ours, as many rows as were committed                   any                      replace them
    some foreign, as many rows as were committed               another generation       replace them
    any other number of rows                                   another generation       refused
    all ours; some foreign                                     not in the history       replace them; refused
    with rows of other days, or with deleted rows              another generation       refused
    any                                                        of another output        refused

Files are identified by their addresses. A replacement names each file that is removed or added, so it cannot remove
rows of another day, and changes by others are never discarded by guess.
"""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from minutebook.errors import SafetyRefusal

NEXT_STEP: Final = (
    "give typed columns their former types or other names in the file of --columns, and columns of every day back to "
    "the table; or name another table. Then run the command again: the day is published, and what is missing is made "
    "up for"
)


class Conflict(NamedTuple):
    """A column that keeps a day out of a table: its type in the table, and in the day."""

    column: str
    has: str
    comes: str

    def __str__(self) -> str:
        return f"column {self.column}: the table has {self.has}, the day {self.comes}"


class LiveFile(NamedTuple):
    """A data file of the table's current snapshot that may hold rows of the day.

    `is_intact`: all its rows are of this day, and none was deleted.
    """

    uri: str
    rows: int
    is_intact: bool = True


class Recorded(NamedTuple):
    """The newest commit of the day in the table's history, and the rows of the day at that time.

    `manifest` is the address of its manifest; empty: unknown.
    """

    generation: str
    rows: int
    committed_ms: int
    manifest: str = ""


class Replacement(NamedTuple):
    """The files that one snapshot removes and adds."""

    remove: tuple[str, ...]
    add: tuple[str, ...]


class Target(NamedTuple):
    """What the table should hold. The files of all generations of the day lie below `folder`."""

    day: str
    generation: str
    folder: str
    files: Collection[str]


def plan_replacement(target: Target, live: Sequence[LiveFile], recorded: Recorded | None) -> Replacement | None:
    """Return what to change; None: the table holds the generation already. Raises SafetyRefusal if it is refused."""
    if {file.uri for file in live} == set(target.files):
        return None
    if not live:
        return Replacement((), tuple(sorted(target.files)))
    if is_rewritten(target, live, recorded):
        return None
    if recorded is not None and recorded.manifest and not recorded.manifest.startswith(target.folder):
        raise _elsewhere(target, recorded)
    if changed := [file for file in live if not file.is_intact]:
        raise _refusal(target, f"{len(changed)} of its files hold rows of other days, or had rows deleted")
    rows = sum(file.rows for file in live)
    if recorded is None and any(not file.uri.startswith(target.folder) for file in live):
        raise _refusal(target, f"it holds {rows:,} rows in files of others, and no commit of the day is remembered")
    if recorded is not None and rows != recorded.rows:
        raise _refusal(target, f"it holds {rows:,} rows, and {recorded.rows:,} were committed")
    remove = {file.uri for file in live} - set(target.files)
    return Replacement(tuple(sorted(remove)), tuple(sorted(set(target.files) - {file.uri for file in live})))


def is_rewritten(target: Target, live: Sequence[LiveFile], recorded: Recorded | None) -> bool:
    """Return whether the generation was committed last, and others have rewritten or deleted rows since.

    Deleting all rows of an event day removes whole files of ours, and leaves no foreign file.
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
