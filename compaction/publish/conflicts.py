"""The columns that keep a published day out of a table."""

from typing import Final, NamedTuple

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
