"""What keeps a published day out of a table of Iceberg's or of Glue's catalog, column by column."""

from typing import Final, NamedTuple, Protocol

GLUE: Final = "glue:"
"""What the name of a table of Glue's catalog begins with where both kinds are told of; no Iceberg table's does."""
NEXT_STEP: Final = (
    "give typed columns their former types or other names in the file of --columns, and columns of every day back to "
    "the table; or name another table. Then run the command again: the day is published, and what is missing is made "
    "up for"
)


class Conflict(NamedTuple):
    """A column that keeps a day out of a table: what the table has, and what the day brings."""

    column: str
    has: str
    comes: str

    def __str__(self) -> str:
        return f"column {self.column}: the table has {self.has}, the day {self.comes}"


class Outcome(Protocol):
    """What became of a day in a table. With conflicts the table was left as it was."""

    @property
    def table(self) -> str:
        """Return the table's name, with its catalog's; one of Glue's begins with `glue:`."""
        ...

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """Return what keeps the day out; empty when it is in."""
        ...
