"""Plan what a day's commit changes in an Iceberg table. Pure.

    the table's files of the day                               last commit of the day   change
    exactly the generation's, each once                        any                      none
    files of ours twice, else as above or as below             any                      name them once
    none                                                       any                      add the generation
    some foreign (maintenance), or rows are missing            this generation          none
    all ours, as many rows as were committed                   any                      replace them
    some foreign, as many rows as were committed               another generation       replace them
    any other number of rows                                   another generation       refused
    all ours; some foreign                                     not in the history       replace them; refused
    with rows of other days, or with deleted rows              another generation       refused
    any                                                        of another output        refused

A generation that was written again with other files counts as another one (`TableCommitter`).

Files are identified by their addresses. A replacement names each file that is removed or added, so it cannot remove
rows of another day, and changes by others are never discarded by guess.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from minutebook.errors import SafetyRefusal

NEXT_STEP: Final = (
    "give typed columns their former types or other names in the file of --columns, and columns of every day back to "
    "the table; or name another table. Then run the command again: the day is published, and what is missing is made "
    "up for"
)


AHEAD_STEP: Final = (
    "stop the run and correct the file of --columns, or the table; or let it go on: the day will be published, and "
    "not be in the table"
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
    twice = twice_named(target, live)
    again = {uri for uri in target.files if _place(uri) in set(map(_place, twice))}
    uris = {file.uri for file in live} - twice
    if uris | again == set(target.files) or is_rewritten(target, live, recorded):
        if any(file.uri in twice and not file.is_intact for file in live):
            raise _refusal(target, f"{len(again)} of its files are in it twice, and had rows deleted")
        return Replacement(tuple(sorted(twice)), tuple(sorted(again))) if twice else None
    if not live:
        return Replacement((), tuple(sorted(target.files)))
    if recorded is not None and recorded.manifest and not recorded.manifest.startswith(target.folder):
        raise _elsewhere(target, recorded)
    if changed := [file for file in live if not file.is_intact]:
        raise _refusal(target, f"{len(changed)} of its files hold rows of other days, or had rows deleted")
    rows = _rows(live)
    if recorded is None and any(not uri.startswith(target.folder) for uri in uris):
        raise _refusal(target, f"it holds {rows:,} rows in files of others, and no commit of the day is remembered")
    if recorded is not None and rows != recorded.rows:
        raise _refusal(target, f"it holds {rows:,} rows, and {recorded.rows:,} were committed")
    remove, add = (uris - set(target.files)) | twice, set(target.files) - uris
    return Replacement(tuple(sorted(remove)), tuple(sorted(add)))


def twice_named(target: Target, live: Sequence[LiveFile]) -> frozenset[str]:
    """Return the addresses of published files that the table has more than once: each row of them counts double.

    One file may be named by several addresses. Removing one removes it as often as it is there.
    """
    times = Counter(_place(file.uri) for file in live)
    home = _place(target.folder)
    return frozenset(file.uri for file in live if times[_place(file.uri)] > 1 and _place(file.uri).startswith(home))


def is_rewritten(target: Target, live: Sequence[LiveFile], recorded: Recorded | None) -> bool:
    """Return whether the generation was committed last, and others have rewritten or deleted rows since.

    Deleting all rows of an event day removes whole files of ours, and leaves no foreign file.
    """
    if recorded is None or recorded.generation != target.generation or not live:
        return False
    twice = twice_named(target, live)
    is_theirs = any(not file.uri.startswith(target.folder) for file in live if file.uri not in twice)
    return is_theirs or _rows(live) != recorded.rows


def _rows(live: Iterable[LiveFile]) -> int:
    """Return the rows of files, of each file once."""
    return sum({_place(file.uri): file.rows for file in live}.values())


def _place(uri: str) -> str:
    """Return where a file lies, whatever scheme names it: `s3a://` is `s3://`, and a path may have none."""
    return uri.partition("://")[2] or uri.removeprefix("file:")


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
