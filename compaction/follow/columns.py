"""The typed columns of live parts: those of a file that a person may edit at any time.

    each tick                    the file is read again; one that is no file of columns any more is told, and the
                                 columns of before stay
    a column the table refused   is left out of what is written next, and told once; it is tried again each hour, and
                                 when its type is another one

One tick writes by one mapping, whatever the file or the table becomes meanwhile.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import structlog

from compaction.columns.columns import EVENT_INDEX, Columns
from compaction.columns.files.columns_file import read_columns
from compaction.columns.steps import GLUE_REGISTRY
from compaction.tables.plan import Conflict
from minutebook.errors import SettingsError
from minutebook.format.minute import HOUR_MS
from minutebook.published.schema import SCHEMA

_REPAIR: Final = "correct the file: until then rows are written by the columns of before"
_LATER: Final = "nothing: rows are shown without typed columns until the night, which asks it"
_NIGHT: Final = (
    "correct the file of --columns, or the table: until then the column is null in live rows, and the next night, "
    "which judges it, keeps the day out of the table"
)


class FollowedColumns:
    """The columns of a file. Raises SettingsError if it holds none at the start."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._whole = read_columns(path, SCHEMA.names)
        self._left_out = dict[str, str]()
        self._left_out_ms = 0
        self._told = set[str]()
        self._problem = ""
        self.used: Columns | None = without(self._whole, {})
        """The columns of this tick; None: the envelope alone."""

    def begin(self, now_ms: int) -> None:
        """Begin a tick: read the file again."""
        try:
            self._whole, problem = read_columns(self._path, SCHEMA.names), ""
        except SettingsError as exc:
            problem = str(exc)
            if problem != self._problem:
                structlog.get_logger().warning("columns_not_read", error=problem, next_step=exc.next_step or _REPAIR)
        self._problem = problem
        if now_ms - self._left_out_ms >= HOUR_MS:
            self._left_out.clear()
        self.used = without(self._whole, self._left_out)
        if _needs_registry(self._whole) and GLUE_REGISTRY not in self._told:
            self._told.add(GLUE_REGISTRY)
            structlog.get_logger().warning(
                "columns_left_out", conflicts=[f"decode {GLUE_REGISTRY}: follow asks no registry"], next_step=_LATER
            )

    def leave_out(self, columns: Mapping[str, tuple[str, Conflict]], now_ms: int) -> None:
        """Leave columns out that the table has not taken, from the next tick on: their type, and why."""
        if not self._left_out:
            self._left_out_ms = now_ms
        self._left_out |= {name: text for name, (text, _) in columns.items()}
        reasons = [str(conflict) for _, conflict in columns.values()]
        if new := [reason for reason in dict.fromkeys(reasons) if reason not in self._told]:
            self._told.update(new)
            structlog.get_logger().warning("columns_left_out", conflicts=new, next_step=_NIGHT)


def _needs_registry(columns: Columns) -> bool:
    return any(step.name == GLUE_REGISTRY for step in columns.decode)


def without(columns: Columns, left_out: Mapping[str, str]) -> Columns | None:
    """Return columns without those of some names and types; None: nothing is left that a row can be told by."""
    stay = tuple(each for each in columns.columns if left_out.get(each.name) != each.type.text)
    names = {each.name for each in stay}
    if _needs_registry(columns) or not names - {EVENT_INDEX} or (columns.multiplies and EVENT_INDEX not in names):
        return None
    return columns._replace(columns=stay)
